// SPDX-License-Identifier: BSD-3-Clause
// [inject]: what tables and SPECs of the command line become, and what a real run refuses.
#include <boost/json.hpp>
#include <gtest/gtest.h>

#include "apps/config/job_file.hpp"
#include "apps/config/spec_text.hpp"
#include "tests/apps/corpus.hpp"

namespace troupe::config {
namespace {

using protocols::fault_spec;
using protocols::inject_spec;
using protocols::straggler_spec;
using protocols::worker_id;
using testing::temporary_file;

const std::string eight_workers = "[model]\nlayers = [\"flatten\", \"linear 10\"]\n[stop]\nepochs = 1\n[cluster]\nworkers = 8\n";

setting straggler(const std::string& spec) {
  return {"inject.straggler", spec, "--straggler " + spec, true};
}
setting link(const std::string& spec) {
  return {"inject.link", spec, "--link " + spec, true};
}
setting fault(const std::string& spec) {
  return {"inject.fault", spec, "--fault " + spec, true};
}

loaded_job load_good(const std::string& text, const std::vector<setting>& sets = {}) {
  const temporary_file file(eight_workers + text);
  auto loaded = load_job(file.path(), sets);
  if (!loaded)
    throw std::runtime_error(loaded.error().text());
  return std::move(*loaded);
}

inject_spec inject(const std::string& text, const std::vector<setting>& sets = {}) {
  return load_good(text, sets).job.inject;
}

/// The one straggler of a SPEC.
straggler_spec one(const std::string& spec) {
  return inject("", {straggler(spec)}).stragglers.at(0);
}

TEST(Inject, NothingIsEmulatedUnlessAsked) {
  EXPECT_EQ(inject(""), inject_spec{});
  EXPECT_EQ(inject("[inject]\nstep_ms = 30\n"), inject_spec{.step_ms = 30});
}

TEST(Inject, EachKindOfStragglerArrives) {
  using law = straggler_spec::law;
  EXPECT_EQ(one("worker=1,factor=5"), (straggler_spec{.worker = worker_id{1}, .factor = 5}));
  EXPECT_EQ(one("prob=0.125,factor=5"), (straggler_spec{.factor = 5, .prob = 0.125}));
  EXPECT_EQ(one("dist=pareto,alpha=2"), (straggler_spec{.distribution = law::pareto, .alpha = 2}));
  EXPECT_EQ(one("dist=pareto"), (straggler_spec{.distribution = law::pareto}));
  EXPECT_EQ(one("dist=jitter,spread=0.5"), (straggler_spec{.distribution = law::jitter, .spread = 0.5}));
  EXPECT_EQ(one("dist=exponential,spread=2,worker=7"),
            (straggler_spec{.distribution = law::exponential, .worker = worker_id{7}, .spread = 2}));
  const temporary_file trace("1\n2.5\n\n 0.5 \n");
  EXPECT_EQ(one("trace=" + trace.path()), (straggler_spec{.distribution = law::trace, .factors = {1, 2.5, 0.5}}));
}

TEST(Inject, EachKindOfFaultArrives) {
  using kind = fault_spec::kind;
  const auto faults = inject("", {fault("crash=worker:2,at_s=30"), fault("crash=worker:3,at_s=30,back_after_s=5"),
                                  fault("pause=worker:4,at_s=1.5,for_s=2"), fault("partition=worker:0,at_s=0,for_s=9"),
                                  fault("reorder=0.25"), fault("repeat=0.5"), fault("loss=0.125")})
                          .faults;
  const std::vector<fault_spec> expected{
      {.type = kind::crash, .worker = worker_id{2}, .at_s = 30},
      {.type = kind::crash, .worker = worker_id{3}, .at_s = 30, .back_after_s = 5},
      {.type = kind::pause, .worker = worker_id{4}, .at_s = 1.5, .for_s = 2},
      {.type = kind::partition, .worker = worker_id{0}, .at_s = 0, .for_s = 9},
      {.type = kind::reorder, .prob = 0.25},
      {.type = kind::repeat, .prob = 0.5},
      {.type = kind::loss, .prob = 0.125},
  };
  EXPECT_EQ(faults, expected);
}

TEST(Inject, ATableOfTheFileAndItsSpecAreTheSame) {
  const auto by_file = inject(R"(
[inject.link]
latency_ms = 10
mbit = 100
[[inject.straggler]]
worker = 1
factor = 5
[[inject.straggler]]
dist = "pareto"
[[inject.fault]]
crash = "worker:2"
at_s = 30
)");
  const auto by_flags = inject("", {link("latency_ms=10,mbit=100"), straggler("worker=1,factor=5"), straggler("dist=pareto"),
                                    fault("crash=worker:2,at_s=30")});
  EXPECT_EQ(by_file, by_flags);
  EXPECT_EQ(by_file, inject("[inject]\nlink = \"latency_ms=10,mbit=100\"\nstraggler = [\"worker=1,factor=5\", {dist = "
                            "\"pareto\"}]\nfault = \"crash=worker:2,at_s=30\"\n"));
}

TEST(Inject, FlagsAddToTheFileAndSetReplacesIt) {
  const std::string file = "[inject]\nlink = {latency_ms = 10, mbit = 100}\n[[inject.straggler]]\nfactor = 2\n";
  const auto added = inject(file, {straggler("worker=1,factor=5"), link("mbit=50")});
  ASSERT_EQ(added.stragglers.size(), 2U);
  EXPECT_EQ(added.stragglers[0].factor, 2);
  EXPECT_EQ(added.stragglers[1].factor, 5);
  EXPECT_EQ(added.link, (protocols::link_spec{.latency_ms = 10, .mbit = 50}));
  const auto replaced = inject(file, {{"inject.straggler", "factor=3", ""}, {"inject.link.latency_ms", "1", ""}});
  ASSERT_EQ(replaced.stragglers.size(), 1U);
  EXPECT_EQ(replaced.stragglers[0].factor, 3);
  EXPECT_EQ(replaced.link, (protocols::link_spec{.latency_ms = 1, .mbit = 100}));
  EXPECT_TRUE(inject(file, {{"inject.straggler", "[]", ""}}).stragglers.empty());
}

TEST(Inject, AFlagIsRefusedInItsOwnName) {
  const temporary_file file(eight_workers);
  const auto refused = load_job(file.path(), {straggler("worker=8,factor=5"), link("mbits=3"), fault("crash")});
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().text(),
            "--straggler worker=8,factor=5: inject.straggler.worker names worker 8 and there are 8, counted from 0; name one of "
            "them or give cluster.workers = 9\n"
            "--link mbits=3: unknown key inject.link.mbits; did you mean mbit?\n"
            "--fault crash: inject.fault = \"crash\" is no table; write key=value[,key=value], each key once, such as "
            "crash=worker:2,at_s=30\n");
}

TEST(Inject, WhatATraceHoldsIsChecked) {
  for (const char* text : {"", "\n\n", "1\nx\n", "0\n", "-1\n", "1 2\n", "inf\n", "nan\n"}) {
    const temporary_file trace(text), file(eight_workers);
    EXPECT_FALSE(load_job(file.path(), {straggler("trace=" + trace.path())})) << text;
  }
}

TEST(Inject, ValuesListWhatIsInjectedAsSpecs) {
  const auto config = to_json(load_good("[inject.link]\nmbit = 100\n[[inject.straggler]]\nworker = 1\nfactor = 5\n",
                                        {fault("crash=worker:2,at_s=30"), straggler("dist=jitter")}))
                          .at("inject");
  EXPECT_EQ(config.at("step_ms").as_double(), 0);
  EXPECT_EQ(config.at("straggler"), boost::json::value({"worker=1,factor=5", "dist=jitter"}));
  EXPECT_EQ(config.at("link").as_string(), "latency_ms=0,mbit=100");
  EXPECT_EQ(config.at("fault"), boost::json::value({"crash=worker:2,at_s=30"}));
  const auto none = to_json(load_good("")).at("inject");
  EXPECT_TRUE(none.at("straggler").is_null());
  EXPECT_TRUE(none.at("link").is_null());
}

TEST(Inject, ARealRunPlaysACrashForGoodAndNoOtherFault) {
  EXPECT_TRUE(only_simulated(load_good("", {fault("crash=worker:2,at_s=30"), straggler("factor=2"), link("mbit=1")})).empty());
  for (const char* spec : {"crash=worker:2,at_s=30,back_after_s=5", "pause=worker:1,at_s=1,for_s=1",
                           "partition=worker:1,at_s=1,for_s=1", "reorder=0.1", "repeat=0.1", "loss=0.1"}) {
    const auto wrong = only_simulated(load_good("", {fault("crash=worker:2,at_s=30"), fault(spec)}));
    ASSERT_EQ(wrong.size(), 1U) << spec;
    EXPECT_EQ(wrong[0].where, std::string("--fault ") + spec);
    EXPECT_NE(wrong[0].message.find("only `troupe simulate` plays this"), std::string::npos);
  }
}

TEST(Simulate, NumericsAreTheModelsUnlessAsked) {
  EXPECT_EQ(load_good("").numerics, "model");
  EXPECT_EQ(load_good("[simulate]\nnumerics = \"quadratic\"\n").numerics, "quadratic");
}

TEST(SpecText, SeparatorsInBracketsAndQuotesSeparateNothing) {
  using parts = std::vector<std::string>;
  EXPECT_EQ(split_outside_brackets("a,b", ','), (parts{"a", "b"}));
  EXPECT_EQ(split_outside_brackets("a=[1,2],b=\"x,y\",", ','), (parts{"a=[1,2]", "b=\"x,y\"", ""}));
  EXPECT_EQ(split_outside_brackets("auto:candidates=[\"a:b\", \"c\"]:k=1", ':'),
            (parts{"auto", "candidates=[\"a:b\", \"c\"]", "k=1"}));
  EXPECT_EQ(split_outside_brackets("", ','), parts{""});
}

TEST(SpecText, APairOfATableComesOnce) {
  EXPECT_TRUE(parse_spec("a=1,b=x"));
  for (const char* text : {"", "a", "=1", "a=1,", "a=1,a=2"})
    EXPECT_FALSE(parse_spec(text)) << text;
}

} // namespace
} // namespace troupe::config
