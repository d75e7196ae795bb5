// SPDX-License-Identifier: BSD-3-Clause
// Models, data sources and protocols that a program adds: how a job file names them, and which are refused.
#include <algorithm>
#include <stdexcept>

#include <boost/json.hpp>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "actors/extensions.hpp"
#include "apps/config/job_file.hpp"
#include "protocols/parameters.hpp"
#include "tests/apps/corpus.hpp"

namespace troupe::config {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::temporary_file;

result<model> one_layer(const actors::parameters& given, const data_format& data) {
  if (given.integer("width") == 13)
    throw std::runtime_error("13 brings bad luck");
  return model::build({layers::flatten{}, layers::linear{given.integer("width")}, layers::linear{data.classes}}, data);
}

actors::extensions some() {
  auto own = *protocols::find_protocol("sync");
  own.name = "mine";
  own.parameters = {protocols::integer_parameter("patience", 3, 1, "rounds")};
  return {.models = {{.name = "tower",
                      .summary = "a model",
                      .parameters = {protocols::integer_parameter("width", 7, 1, "units"),
                                     protocols::bool_parameter("steep", false, "or flat")},
                      .build = one_layer}},
          .sources = {{.name = "noise",
                       .summary = "nothing to learn",
                       .parameters = {protocols::real_parameter("loudness", 0.5, {.least = 0}, "of it")},
                       .load = [](const actors::parameters&, std::uint64_t) { return data_pair{}; }}},
          .protocols = {own}};
}

const std::string job = R"([data]
source = "noise"
loudness = 2
[model]
kind = "tower"
steep = true
[protocol]
name = "mine"
patience = 5
[cluster]
workers = 2
[stop]
epochs = 1
)";

checked<loaded_job> load(const std::vector<setting>& sets = {}, const actors::extensions& added = some()) {
  const temporary_file file(job);
  return load_job(file.path(), sets, {}, added);
}

std::string refusal_of(const std::string& setting, const actors::extensions& added = some()) {
  const auto loaded = load(setting.empty() ? std::vector<config::setting>{} : std::vector{*parse_setting(setting)}, added);
  return loaded ? "" : loaded.error().text();
}

TEST(Extensions, AJobNamesThemAndGivesTheirParameters) {
  const auto loaded = load();
  ASSERT_TRUE(loaded) << loaded.error().text();
  EXPECT_EQ(loaded->job.own_model, (actors::own_spec{"tower", {{"steep", true}, {"width", std::int64_t{7}}}}));
  EXPECT_EQ(loaded->job.own_data, (actors::own_spec{"noise", {{"loudness", 2.0}}})) << "a whole number is a number";
  EXPECT_EQ(loaded->job.protocol.parameters.at("patience"), protocols::spec_value{std::int64_t{5}});
  const auto of = [&](const std::string& key) { return std::ranges::find(loaded->values, key, &resolved_value::key)->from; };
  EXPECT_EQ(of("model.steep"), "job file line 6");
  EXPECT_EQ(of("model.width"), "default");
  EXPECT_EQ(of("data.loudness"), "job file line 3");
  EXPECT_EQ(of("data.scale"), "does not apply");
  EXPECT_EQ(to_json(*loaded).at("model").at("steep"), true);
}

TEST(Extensions, AutoChoosesAmongThemToo) {
  const std::vector<setting> sets{*parse_setting("protocol.name=auto"),
                                  *parse_setting("protocol.candidates=[\"sync\", \"mine\"]")};
  const auto loaded = load(sets);
  ASSERT_TRUE(loaded) << loaded.error().text();
  EXPECT_EQ(loaded->job.protocol.parameters.at("candidates"), (protocols::spec_value{std::vector<std::string>{"sync", "mine"}}));
  EXPECT_THAT(actors::missing_names(loaded->job, {}), ::testing::Contains("protocol \"mine\"")) << "a node without it says so";
}

TEST(Extensions, WhatTheyDoNotTakeIsRefusedWithWhatTheyDo) {
  EXPECT_THAT(refusal_of("model.widht=3"), HasSubstr("unknown key model.widht; did you mean model.width?"));
  EXPECT_THAT(refusal_of("data.colour=3"), HasSubstr("unknown key data.colour; noise takes loudness"));
  EXPECT_THAT(refusal_of("model.width=0"), HasSubstr("model.width = 0 must be a whole number of at least 1"));
  EXPECT_THAT(refusal_of("model.steep=1"), HasSubstr("model.steep = 1 is a whole number; it takes true or false, such as false"));
  EXPECT_THAT(refusal_of("protocol.patience=0"), HasSubstr("protocol.patience = 0 must be"));
  EXPECT_EQ(refusal_of("model.layers=[\"flatten\"]"), "") << "the command line's list takes the place of the file's kind";
  EXPECT_THAT(refusal_of("data.path=x"), HasSubstr("data.path belongs to data.source"));
}

TEST(Extensions, AProtocolThatCannotGoOnHasNoCheckpoints) {
  auto added = some();
  EXPECT_EQ(refusal_of("checkpoint.dir=kept", added), "");
  added.protocols[0].resumable = false;
  EXPECT_EQ(refusal_of("", added), "");
  EXPECT_THAT(
      refusal_of("checkpoint.dir=kept", added),
      ::testing::AllOf(
          HasSubstr("checkpoint.dir does not go with protocol.name = \"mine\", which keeps state that no checkpoint holds"),
          HasSubstr("name one of sync, "), HasSubstr(", gossip, ")));
}

TEST(Extensions, AProgramWithoutThemRefusesTheJobByName) {
  const std::string said = refusal_of("", {});
  EXPECT_THAT(said, HasSubstr("data.source = \"noise\" is not known"));
  EXPECT_THAT(said, HasSubstr("model.kind = \"tower\" is not known"));
  EXPECT_THAT(said, HasSubstr("protocol.name = \"mine\" is not known"));
}

TEST(Extensions, AMisspeltKindIsOneMistakeAndNotTwo) {
  EXPECT_THAT(refusal_of("model.kind=towre"), HasSubstr("did you mean \"tower\"?"));
  EXPECT_THAT(refusal_of("model.kind=towre"), ::testing::Not(HasSubstr("steep")));
}

TEST(Extensions, NamesThatAreTakenAreRefused) {
  EXPECT_THAT(check_extensions(some()), ElementsAre());
  const auto refused = [](auto change) {
    auto added = some();
    change(added);
    const auto wrong = check_extensions(added);
    return wrong.size() == 1 ? wrong.front() : std::to_string(wrong.size()) + " problems";
  };
  EXPECT_EQ(refused([](auto& a) { a.models[0].name = "mlp"; }),
            "model \"mlp\" cannot be added: there is one of that name already; give it another");
  EXPECT_THAT(refused([](auto& a) { a.sources[0].name = "csv"; }),
              HasSubstr("data source \"csv\" cannot be added: there is one"));
  EXPECT_THAT(refused([](auto& a) { a.sources[0].name = "text"; }),
              HasSubstr("data source \"text\" cannot be added: there is one"));
  EXPECT_THAT(refused([](auto& a) { a.protocols[0].name = "gossip"; }),
              HasSubstr("protocol \"gossip\" cannot be added: there is one"));
  EXPECT_THAT(refused([](auto& a) { a.protocols[0].name = "allreduce"; }), HasSubstr("there is one"));
  EXPECT_THAT(refused([](auto& a) { a.models.push_back(a.models[0]); }), HasSubstr("there is one")) << "twice";
  EXPECT_THAT(refused([](auto& a) { a.models[0].name = "My Model"; }), HasSubstr("a name is made of a-z, 0-9, - and _"));
  EXPECT_THAT(refused([](auto& a) { a.models[0].parameters[0].name = "hidden"; }),
              HasSubstr("cannot have a parameter \"hidden\": there is a key"));
  EXPECT_THAT(refused([](auto& a) { a.models[0].build = nullptr; }), HasSubstr("cannot be added without `build`"));
}

TEST(Extensions, WhatTheyThrowOrLackIsAnErrorWithTheirName) {
  const auto added = some();
  auto job = load()->job;
  EXPECT_THAT(actors::missing_names(job, added), ElementsAre());
  EXPECT_THAT(actors::missing_names(job, {}), ElementsAre("model \"tower\"", "data source \"noise\"", "protocol \"mine\""));
  EXPECT_EQ(actors::build_model(job, {{4}, 3}, added)->layout().slots[0].dims, (shape{7, 4}));
  job.own_model.parameters["width"] = std::int64_t{13};
  EXPECT_EQ(actors::build_model(job, {{4}, 3}, added).error().message, "model \"tower\": 13 brings bad luck");
  job.own_model.parameters.clear();
  EXPECT_THAT(actors::build_model(job, {{4}, 3}, added).error().message,
              HasSubstr("no parameter \"width\" of this type was declared"));
  EXPECT_EQ(actors::build_model(job, {{4}, 3}, {}).error().message, "this program has no model \"tower\"");
  EXPECT_THAT(actors::load_data(job, added).error().message, HasSubstr("data source \"noise\" gave no samples to train with"));
}

} // namespace
} // namespace troupe::config
