// SPDX-License-Identifier: BSD-3-Clause
// Traces of real runs, read for the simulator: hand-worked times, and files that are refused.
#include "apps/calibration.hpp"

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gtest/gtest.h>

#include "actors/monitoring/trace_file.hpp"
#include "protocols/sim/null_numerics.hpp"
#include "protocols/sim/simulate.hpp"
#include "tests/apps/corpus.hpp"

namespace troupe::apps {
namespace {

using config::testing::temporary_file;
using protocols::nanoseconds;
using durations = std::vector<nanoseconds>;

const std::string two_workers =
    R"({"format":"troupe trace 1","workers":2,"shards":1,"fan_in":0,"batch":10,"latency_ms":0,"mbit":0,"dropped":0})";

/// Times are microseconds; a step of 10 samples took in training what it took on the wall.
std::string compute(int worker, int version, int begin, int end, int samples = 10, int training_us = -1) {
  return fmt::format(
      R"({{"name":"compute","ph":"X","ts":{},"dur":{},"args":{{"worker":{},"step":1,"version":{},"samples":{},"training_ns":{}}}}})",
      begin, end - begin, worker, version, samples, (training_us < 0 ? end - begin : training_us) * 1000);
}
std::string push(int worker, int begin) {
  return fmt::format(R"({{"name":"push","ph":"X","ts":{},"dur":1,"args":{{"worker":{},"bytes":8}}}})", begin, worker);
}
std::string apply(int version, int begin, int end, int contributions = 2) {
  return fmt::format(R"({{"name":"apply","ph":"X","ts":{},"dur":{},"args":{{"shard":0,"version":{},"contributions":{}}}}})",
                     begin, end - begin, version, contributions);
}
std::string hold(int begin, int end) {
  return fmt::format(R"({{"name":"hold","ph":"X","ts":{},"dur":{},"args":{{"version":1}}}})", begin, end - begin);
}
using events = std::vector<std::string>;

std::string trace(const events& all, const std::string& about = two_workers) {
  return fmt::format(R"({{"otherData":{},"traceEvents":[{}]}})", about, fmt::join(all, ","));
}

protocols::sim::calibration times_of(const events& all) {
  const temporary_file file(trace(all));
  auto read = read_calibration(file.path());
  if (!read)
    throw std::runtime_error(read.error().text());
  return *read;
}

/// Why it is refused, without the file's name, with which every refusal begins.
std::string refusal_of(const std::string& text) {
  const temporary_file file(text);
  const auto read = read_calibration(file.path());
  if (read)
    return "nothing is wrong";
  const auto all = config::testing::without_path(read.error(), file.path());
  return fmt::format("{}", fmt::join(all, "\n")).substr(1); // the blank after the colon
}

/// Two rounds of two workers. In the first worker 1 has computed last, 40 us before they go on: one 38 us after, one 42. In the
/// second it is worker 0, 20 us before both go on. An apply takes 10 us, which leaves 20 us for a push and parameters.
events two_rounds() {
  return {compute(0, 0, 0, 100),   compute(1, 0, 0, 140),   push(0, 100), push(1, 140), apply(1, 150, 160),
          compute(0, 1, 178, 300), compute(1, 1, 182, 280), push(0, 300), push(1, 280), apply(2, 305, 315),
          compute(0, 2, 320, 420), compute(1, 2, 320, 431)};
}

TEST(Calibration, RoundsOfTwoWorkers) {
  const auto times = times_of(two_rounds());
  EXPECT_EQ(times.compute, (std::vector<durations>{{100'000, 122'000, 100'000}, {140'000, 98'000, 111'000}}));
  EXPECT_EQ(times.apply, 10'000);
  EXPECT_EQ(times.message, 10'000);
}

TEST(Calibration, TheOrderOfTheFileDoesNotMatter) {
  auto all = two_rounds();
  std::reverse(all.begin(), all.end());
  const auto times = times_of(all);
  EXPECT_EQ(times.compute.at(0), (durations{100'000, 122'000, 100'000}));
  EXPECT_EQ(times.message, 10'000);
}

TEST(Calibration, AShareOfABatchIsScaledToAWholeOne) {
  auto all = two_rounds();
  all[0] = compute(0, 0, 0, 100, 5);
  all[1] = compute(1, 0, 0, 140, 20);
  const auto times = times_of(all);
  EXPECT_EQ(times.compute.at(0).at(0), 200'000);
  EXPECT_EQ(times.compute.at(1).at(0), 70'000) << "two parts";
}

TEST(Calibration, StepsTakeTrainingTime) {
  auto all = two_rounds();
  all[1] = compute(1, 0, 0, 140, 10, 90); // the job was held for 50 us
  EXPECT_EQ(times_of(all).compute.at(1).at(0), 90'000);
}

TEST(Calibration, HoldsAreNoTrainingTime) {
  auto all = two_rounds();
  // The first round's parameters come 60 us late: for 50 of them the job was held, and everything after is 60 us later.
  all[5] = compute(0, 1, 238, 360);
  all[6] = compute(1, 1, 242, 340);
  all[7] = push(0, 360);
  all[8] = push(1, 340);
  all[9] = apply(2, 365, 375);
  all[10] = compute(0, 2, 380, 480);
  all[11] = compute(1, 2, 380, 491);
  all.push_back(hold(170, 220));
  all.push_back(hold(600, 700));
  EXPECT_EQ(times_of(all).message, 12'500) << "50 and 20 us, less 10, halved";
}

TEST(Calibration, AWorkerThatCameLateIsNoPartOfTheRound) {
  auto all = two_rounds(); // backup: version 1 is made without worker 1
  all[1] = compute(1, 0, 0, 155);
  all[3] = push(1, 155);
  EXPECT_EQ(times_of(all).message, 19'500) << "78 us from worker 0 alone, and 20";
}

TEST(Calibration, WithoutAPushThereIsNoTrip) {
  auto all = two_rounds();
  all.push_back(compute(0, 2, 1420, 1500)); // local steps
  all.push_back(compute(0, 2, 2501, 2600));
  EXPECT_EQ(times_of(all).message, 10'000);
}

TEST(Calibration, WhereEachPushIsAnsweredAloneEachIsATrip) {
  // ssp: worker 1 is blocked from 300 until worker 0 has pushed, which waits 50 us then as it did before.
  const auto times =
      times_of({compute(0, 0, 0, 100), push(0, 100), apply(1, 120, 130, 1), compute(0, 1, 150, 800), push(0, 800),
                apply(4, 820, 830, 1), compute(0, 4, 850, 900), compute(1, 0, 0, 130), push(1, 130), apply(2, 150, 160, 1),
                compute(1, 2, 180, 300), push(1, 300), apply(3, 320, 330, 1), compute(1, 4, 850, 900)});
  EXPECT_EQ(times.apply, 10'000);
  EXPECT_EQ(times.message, 20'000) << "(50 - 10) / 2";
}

TEST(Calibration, VersionsWithoutAStepTakeNoTime) {
  auto all = two_rounds();
  for (int i = 0; i < 5; ++i)
    all.push_back(apply(3 + i, 500 + i, 500 + i, 0));
  EXPECT_EQ(times_of(all).apply, 10'000);
}

TEST(Calibration, AnApplyThatIsLongerThanTheTripLeavesNothingForMessages) {
  auto all = two_rounds();
  all[4] = apply(1, 150, 190); // parameters leave while it still runs
  all[9] = apply(2, 305, 345);
  EXPECT_EQ(times_of(all).message, 0);
}

TEST(Calibration, ReadsWhatARunWrites) {
  using actors::span_kind;
  actors::job job;
  job.cluster.workers = 1;
  job.data.batch = 64;
  const std::vector<actors::node_trace> nodes{
      {"node-0", {{span_kind::apply, 0, 1'150'003, 1'160'003, {1, 1}}, {span_kind::hold, 0, 1'900'000, 1'990'000, {2}}}},
      {"node-1",
       {{span_kind::compute, 0, 1'000'001, 1'100'001, {1, 0, 64, 99'999, 10, 0}},
        {span_kind::push, 0, 1'100'001, 1'110'000, {4096}},
        {span_kind::wait, 0, 1'110'000, 1'180'000, {1}},
        {span_kind::compute, 0, 1'180'001, 1'280'001, {2, 1, 32, 50'000, 10, 0}}}}};
  const temporary_file file("");
  ASSERT_TRUE(actors::write_trace(file.path(), job, nodes));
  const auto times = read_calibration(file.path());
  ASSERT_TRUE(times) << times.error().text();
  EXPECT_EQ(times->compute, (std::vector<durations>{{99'999, 100'000}}));
  EXPECT_EQ(times->apply, 10'000);
  EXPECT_EQ(times->message, 35'000);
}

TEST(Calibration, TheSimulatorTakesTheTimesThatItReads) {
  namespace sim = protocols::sim;
  const auto ends_after = [](std::uint64_t steps) {
    sim::options job;
    job.job.workers = 2;
    job.job.batch = 10;
    job.job.data_size = 1000;
    job.job.stop.steps = steps;
    job.protocol.name = "sync";
    job.inject.step_ms = 30; // measured times take its place
    job.measured = times_of(two_rounds());
    sim::null_numerics nothing;
    return sim::simulate(job, nothing).virtual_time;
  };
  // A round is the slower worker's step, a push, an apply, parameters: 10 + 10 + 10 us and 122, 111, 140 us in turn.
  EXPECT_EQ(ends_after(3) - ends_after(2), 141'000);
  EXPECT_EQ(ends_after(4) - ends_after(3), 170'000);
  EXPECT_EQ(ends_after(5) - ends_after(4), 152'000);
}

TEST(Calibration, AFileThatIsCutOffIsRefusedWhereverItEnds) {
  const std::string whole = trace(two_rounds());
  for (std::size_t length = 0; length < whole.size(); length += 17)
    ASSERT_NE(refusal_of(whole.substr(0, length)).find("is not JSON"), std::string::npos) << length;
}

TEST(Calibration, AFileOfAnotherKindIsRefused) {
  for (const auto* text :
       {"[]", "3", "{}", R"({"traceEvents":[]})", R"({"otherData":{"format":"troupe trace 2"},"traceEvents":[]})",
        R"({"otherData":[],"traceEvents":[]})"})
    EXPECT_EQ(refusal_of(text), "is not a trace of `troupe run`; record one with --trace") << text;
  EXPECT_EQ(refusal_of(R"({"otherData":)" + two_workers + "}"), "has no list \"traceEvents\"");
  EXPECT_NE(refusal_of(std::string(100'000, '[')).find("is not JSON"), std::string::npos);
}

TEST(Calibration, WhatIsWrongInAnEventIsNamed) {
  const auto with = [](const std::string& event) {
    auto all = two_rounds();
    all.push_back(event);
    return refusal_of(trace(all));
  };
  EXPECT_EQ(with("7"), "event 12: is no trace event: it lacks \"ph\" or \"name\"");
  EXPECT_EQ(with(R"({"name":"compute","ph":"X","ts":1,"dur":1})"), "event 12: has no \"args\"");
  EXPECT_EQ(with(R"({"name":"compute","ph":"X","ts":-1,"dur":1,"args":{}})"),
            "event 12: \"ts\" is not a number from 0 to 1000000000000000");
  EXPECT_EQ(with(R"({"name":"compute","ph":"X","ts":1,"dur":1e300,"args":{}})"),
            "event 12: \"dur\" is not a number from 0 to 1000000000000000");
  EXPECT_EQ(with(compute(2, 0, 500, 600)), "event 12: \"worker\" is not a whole number from 0 to 1");
  EXPECT_EQ(with(compute(-1, 0, 500, 600)), "event 12: \"worker\" is not a whole number from 0 to 1");
  EXPECT_EQ(with(compute(0, 0, 500, 600, 0)), "event 12: \"samples\" is not a whole number from 1 to 2147483648");
  EXPECT_EQ(with(push(7, 500)), "event 12: \"worker\" is not a whole number from 0 to 1");
  EXPECT_EQ(with(apply(-1, 500, 501)), "event 12: \"version\" is not a whole number from 0 to 9223372036854775807");
  EXPECT_EQ(with(hold(0, 10) + "," + hold(9, 20)), "holds the job twice at once; is it the trace of one run?");
  EXPECT_EQ(with(compute(0, 3, 410, 500)), "worker 0 computes two steps at once; is it the trace of one run?");
}

TEST(Calibration, WhatIsWrongWithTheRunIsNamed) {
  const auto about = [](const std::string& key, const std::string& value) {
    auto text = two_workers;
    const auto at = text.find("\"" + key + "\":") + key.size() + 3;
    text.replace(at, text.find_first_of(",}", at) - at, value);
    return refusal_of(trace(two_rounds(), text));
  };
  EXPECT_EQ(about("workers", "2"), "nothing is wrong");
  EXPECT_EQ(about("workers", "3"), "worker 2 computed nothing; record a longer run");
  EXPECT_EQ(about("workers", "4000000000"), "otherData: \"workers\" is not a whole number from 1 to 100000");
  EXPECT_EQ(about("batch", "0"), "otherData: \"batch\" is not a whole number from 1 to 2147483648");
  EXPECT_EQ(about("batch", "\"10\""), "otherData: \"batch\" is not a whole number from 1 to 2147483648");
  EXPECT_EQ(
      about("mbit", "100"),
      "was recorded over an emulated link, whose delays cannot be told from this machine's; record it without [inject.link]");
  EXPECT_EQ(about("fan_in", "2"),
            "was recorded with a tree of aggregators, where a push takes several messages; record it without protocol.fan_in");
  EXPECT_EQ(refusal_of(trace({compute(0, 0, 0, 100), compute(1, 0, 0, 100)})),
            "has no \"apply\" of a shard; record a longer run");
  EXPECT_EQ(refusal_of(trace({compute(0, 0, 0, 100), compute(1, 0, 0, 100), push(0, 100), apply(1, 150, 160)})),
            "has no push that was answered; record a longer run");
}

TEST(Calibration, AFileThatIsNotThereIsRefusedByName) {
  const auto read = read_calibration("absent/t.json");
  ASSERT_FALSE(read);
  EXPECT_EQ(read.error().text(),
            "absent/t.json: cannot be read: No such file or directory; give a file that run --trace wrote\n");
}

} // namespace
} // namespace troupe::apps
