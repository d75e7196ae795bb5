// SPDX-License-Identifier: BSD-3-Clause
// A job under a protocol that compare asks for instead of its own.
#include <boost/json.hpp>
#include <gtest/gtest.h>

#include "apps/config/job_file.hpp"
#include "tests/apps/corpus.hpp"

namespace troupe::config {
namespace {

using protocols::protocol_spec;
using testing::temporary_file;

const std::string job = R"([model]
layers = ["flatten", "linear 10"]
[stop]
epochs = 1
[cluster]
workers = 4
[protocol]
name = "ssp"
bound = 2
[protocol.local]
steps = 7
outer = "momentum"
[protocol.sync]
fan_in = 2
)";

/// The job under `asked`, or why not, as text.
boost::system::result<loaded_job, refusal> load(const std::string& asked, const std::vector<setting>& sets = {}) {
  const temporary_file file(job);
  return load_job(file.path(), sets, asked);
}

protocol_spec protocol_of(const std::string& asked) {
  auto loaded = load(asked);
  if (!loaded)
    throw std::runtime_error(loaded.error().text());
  return loaded->job.protocol;
}

TEST(ProtocolChoice, WithoutParametersIsWhatTheFileGives) {
  EXPECT_EQ(protocol_of(""), (protocol_spec{.name = "ssp", .parameters = {{"bound", std::int64_t{2}}}}));
  EXPECT_EQ(protocol_of("ssp"), protocol_of(""));
  EXPECT_EQ(protocol_of("local").parameters.at("steps"), protocols::spec_value{std::int64_t{7}});
  EXPECT_EQ(protocol_of("local").parameters.at("outer"), protocols::spec_value{"momentum"});
  EXPECT_EQ(protocol_of("sync").fan_in, 2U);
  EXPECT_EQ(protocol_of("backup").fan_in, 0U) << "what stands beside another protocol's name is that one's";
  EXPECT_EQ(protocol_of("async"), (protocol_spec{.name = "async"}));
}

TEST(ProtocolChoice, ParametersAfterTheNameWinOverTheFile) {
  EXPECT_EQ(protocol_of("ssp:bound=9").parameters.at("bound"), protocols::spec_value{std::int64_t{9}});
  const auto local = protocol_of("local:steps=20:outer_momentum=0.5");
  EXPECT_EQ(local.parameters.at("steps"), protocols::spec_value{std::int64_t{20}});
  EXPECT_EQ(local.parameters.at("outer"), protocols::spec_value{"momentum"}) << "the file's, for it was not asked otherwise";
  EXPECT_EQ(local.parameters.at("outer_momentum"), protocols::spec_value{0.5});
  EXPECT_EQ(protocol_of("sync:fan_in=0").fan_in, 0U);
  EXPECT_EQ(protocol_of("auto:candidates=[\"sync\", \"backup\"]").parameters.at("candidates"),
            (protocols::spec_value{std::vector<std::string>{"sync", "backup"}}));
}

std::string from(const loaded_job& loaded, const std::string& key) {
  for (const resolved_value& v : loaded.values)
    if (v.key == key)
      return v.from;
  return "not listed";
}

TEST(ProtocolChoice, ValuesSayWhereTheyCameFrom) {
  const loaded_job loaded = load("local:steps=20").value();
  EXPECT_EQ(from(loaded, "protocol.name"), "--protocols");
  EXPECT_EQ(from(loaded, "protocol.steps"), "--protocols");
  EXPECT_EQ(from(loaded, "protocol.outer"), "job file line 12");
  EXPECT_EQ(from(loaded, "protocol.sample_fraction"), "default");
  EXPECT_EQ(from(loaded, "protocol.bound"), "not listed");
  EXPECT_EQ(to_json(loaded).at("protocol").at("steps").as_int64(), 20);
}

TEST(ProtocolChoice, AParameterOfTheSameNameIsAnothers) {
  const temporary_file file("[model]\nlayers = [\"linear 2\"]\n[stop]\nepochs = 1\n[protocol]\nname = \"easgd\"\nsteps = 4\n");
  const loaded_job loaded = load_job(file.path(), {}, "local").value();
  EXPECT_EQ(loaded.job.protocol.parameters.at("steps"), protocols::spec_value{std::int64_t{10}});
  EXPECT_EQ(from(loaded, "protocol.steps"), "default");
}

TEST(ProtocolChoice, TheJobsOwnProtocolBecomesAFurtherOne) {
  const auto loaded = load("local");
  ASSERT_TRUE(loaded);
  EXPECT_EQ(loaded->further_protocols.at("ssp").parameters.at("bound"), protocols::spec_value{std::int64_t{2}});
  EXPECT_FALSE(loaded->further_protocols.contains("local"));
}

TEST(ProtocolChoice, RulesSeeTheProtocolThatIsAskedFor) {
  EXPECT_EQ(load("admm").value().job.data.partition, "by-worker");
  EXPECT_FALSE(load("coded", {{"data.partition", "by-worker", ""}}));
  EXPECT_TRUE(load("local", {{"data.partition", "by-worker", ""}}));
}

TEST(ProtocolChoice, WhatIsWrongIsRefusedInItsName) {
  const std::vector<std::pair<std::string, std::string>> wrong{
      {"snyc", "protocol.name = \"snyc\" is not known; did you mean \"sync\"?"},
      {"local:steps=0", "protocol.steps = 0 must be a whole number of at least 1"},
      {"local:steps=few", "protocol.steps = \"few\" is a text; it takes a whole number, such as 10"},
      {"local:bound=3", "bound is a parameter of ssp, not of local"},
      {"local:stpes=3", "unknown key protocol.stpes; did you mean protocol.steps?"},
      {"local:steps", "\"steps\" is not key=value"},
      {"local:steps=3:steps=4", "\"steps=4\" is not key=value, or repeats a key"},
      {"local:", "\"\" is not key=value"},
      {"coded:stragglers=4", "stragglers must be below workers (here 4 of 4); take more workers or fewer stragglers"},
      {"sync:fan_in=1", "fan_in must be at least 2"},
      {"ssp:fan_in=2", "unknown key protocol.fan_in; ssp takes bound, name"},
  };
  for (const auto& [asked, why] : wrong) {
    const auto refused = load(asked);
    ASSERT_FALSE(refused) << asked;
    EXPECT_TRUE(refused.error().text().starts_with("--protocols " + asked + ": " + why)) << refused.error().text();
    EXPECT_EQ(refused.error().all.size(), 1U) << refused.error().text();
  }
}

} // namespace
} // namespace troupe::config
