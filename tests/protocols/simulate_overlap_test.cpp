// SPDX-License-Identifier: BSD-3-Clause
// Communication that hides behind computing in virtual time, worked by hand: steps of 10 ms, and links of 1 ms and 8 Mbit/s,
// where 1,000 bytes take 1 ms.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/protocols/simulated_job.hpp"

namespace troupe::protocols::sim {
namespace {

constexpr nanoseconds ms = 1'000'000;

/// Three rounds of 8,000 bytes.
options overlapping(const std::string& protocol, std::uint32_t workers, std::vector<partition_times> overlap) {
  options job = simulated_job(protocol, workers, 3);
  job.inject.link.mbit = 8;
  job.model_bytes = 8000;
  job.overlap = std::move(overlap);
  return job;
}

/// Two halves: forward reads the second from `needed` on, and backward completes it at `ready`; the first it needs at once, and
/// completes at its end.
std::vector<partition_times> halves(double needed, double ready) {
  return {{.end = 0.5}, {.end = 1, .needed = needed, .ready = ready}};
}

TEST(SimulateOverlap, WithoutItEachFollowsTheOther) {
  EXPECT_EQ(without_numerics(overlapping("sync", 1, {})).virtual_time, 3 * (8 + 1 + 10 + 8 + 1) * ms);
  EXPECT_EQ(without_numerics(overlapping("sync", 1, halves(0, 1))).virtual_time, 3 * (8 + 1 + 10 + 8 + 1) * ms);
}

// The second half leaves after 4 ms, and is through after 8; the first takes 4 ms from the end on.
TEST(SimulateOverlap, WhatBackwardHasCompletedLeavesAtOnce) {
  const result out = without_numerics(overlapping("sync", 1, halves(0, 0.4)));
  EXPECT_EQ(out.virtual_time, 3 * (8 + 1 + 10 + 4 + 1) * ms);
  EXPECT_EQ(out.bytes, 6 * 8000U);
}

// It leaves 1.25 ms before the end, and the first half follows it.
TEST(SimulateOverlap, WhatIsCompletedLaterWaitsForItsLink) {
  EXPECT_EQ(without_numerics(overlapping("sync", 1, halves(0, 0.875))).virtual_time, 3 * (8 + 1 + 10 + 7 + 1) * ms - 3 * ms / 4);
}

// Of 7,000 bytes 625 have left when the last 1,000 follow: all are heard of together.
TEST(SimulateOverlap, APushIsThereOnceAllOfItIs) {
  const options job = overlapping("sync", 1, {{.end = 0.125}, {.end = 1, .ready = 0.9375}});
  EXPECT_EQ(without_numerics(job).virtual_time, 3 * (8 + 1 + 10 + 8 + 1) * ms - 3 * 5 * ms / 8);
}

// A half and a quarter are through after 8.5 ms, and the last quarter takes 2.
TEST(SimulateOverlap, WhatHasLeftAddsUp) {
  const options job = overlapping("sync", 1, {{.end = 0.25}, {.end = 0.5, .ready = 0.5}, {.end = 1, .ready = 0.25}});
  EXPECT_EQ(without_numerics(job).virtual_time, 3 * (8 + 1 + 10 + 2 + 1) * ms);
}

// A message takes half a millisecond more at both ends of a round, each half of a push too.
TEST(SimulateOverlap, WhatAMessageTakesIsNotHidden) {
  options job = overlapping("sync", 1, halves(0, 0.875));
  job.measured.message = ms / 2;
  EXPECT_EQ(without_numerics(job).virtual_time, 3 * (8 + 1 + 10 + 7 + 1 + 1) * ms - 3 * ms / 4);
}

// Each of two workers computes both parts of a batch, 20 ms. Their sum is there at the end, and they begin with all parameters.
TEST(SimulateOverlap, WhatIsSummedHidesNothing) {
  options job = overlapping("coded", 2, halves(0.3, 0.4));
  job.protocol.parameters = {{"stragglers", std::int64_t{1}}};
  EXPECT_EQ(without_numerics(job).virtual_time, 3 * (16 + 1 + 20 + 16 + 1) * ms);
}

// Of the parameters the first half is there 4 ms before all are. The first step begins with all. Then a step begins with the
// first half if it needs the second only after 5 ms, and 1 ms later if after 3.
TEST(SimulateOverlap, ForwardBeginsWithTheFirstParameters) {
  for (const auto& [needed, ahead] : {std::pair{0.5, 4}, {0.3, 3}, {0.0, 0}}) {
    const result out = without_numerics(overlapping("sync", 1, halves(needed, 1)));
    EXPECT_EQ(out.virtual_time, (3 * (8 + 1 + 10 + 8 + 1) - 2 * ahead) * ms) << needed;
    EXPECT_EQ(out.workers.at({0}).computing, 30 * ms);
    EXPECT_EQ(out.workers.at({0}).waiting, 2 * (8 + 1 + 8 + 1 - ahead) * ms) << needed;
  }
}

// Each of two shards has one of the halves. The first parameters share the worker's link, and the step ends after 9 + 10. The
// second half's gradient is through by then; the first's takes 4 ms more, and is heard of 1 ms later: after 24 in all. Shard 1
// hears of that 1 ms later, so its half begins to share the worker's link 1 ms after shard 0's, which is there after 24 + 8, and
// its own after 33. That is soon enough, and the next step begins with shard 0's.
TEST(SimulateOverlap, HalvesOfTwoShardsAreThereByTheirOwnTimes) {
  options job = overlapping("sync", 1, halves(0.2, 0.4));
  job.job.shards = 2;
  EXPECT_EQ(without_numerics(job).virtual_time, (24 + 2 * (8 + 10 + 4 + 1)) * ms);
}

// Two hosts, each with a worker and a shard. Each worker gets the other's half after 5 ms, computes, and sends it its half:
// worker 1 the first, at its end, 4 + 1 ms. What tells shard 1 takes a millisecond, which worker 0 begins later, and has by then.
TEST(SimulateOverlap, WhatStaysOnAHostIsInNobodysWay) {
  options job = overlapping("sync", 2, halves(0, 0.75));
  job.colocated = true;
  job.job.shards = 2;
  EXPECT_EQ(without_numerics(job).virtual_time, 3 * (5 + 10 + 5) * ms);
}

TEST(SimulateOverlap, LocalStepsHideNothing) {
  options job = overlapping("local", 1, {});
  const nanoseconds plain = without_numerics(job).virtual_time;
  job.overlap = halves(0.3, 0.4);
  EXPECT_EQ(without_numerics(job).virtual_time, plain);
}

// A host's own shard is no message's way.
TEST(SimulateOverlap, BesideItsShardAWorkerSendsNothing) {
  options job = overlapping("sync", 1, halves(0.3, 0.4));
  job.colocated = true;
  const result out = without_numerics(job);
  EXPECT_EQ(out.virtual_time, 30 * ms);
  EXPECT_EQ(out.bytes, 0U);
}

/// Two workers whose steps begin after 18 ms. Each sends the other half of each partition, 2 ms of its link, and gets back its
/// sum.
options summing(std::vector<partition_times> overlap) {
  options job = overlapping("allreduce", 2, std::move(overlap));
  job.protocol.parameters = {{"algorithm", std::string{"direct"}}};
  job.partitions = 2;
  return job;
}

// The second partition is summed within the step, from 4 to 10 ms; the first takes 3 ms there and 3 back.
TEST(SimulateOverlap, WorkersSumWhatBackwardHasCompleted) {
  EXPECT_EQ(without_numerics(summing({})).virtual_time, (18 + 3 * (10 + 5 + 5) + 1) * ms);
  const result out = without_numerics(summing(halves(0, 0.4)));
  EXPECT_EQ(out.virtual_time, (18 + 3 * (10 + 3 + 3) + 1) * ms);
  EXPECT_EQ(out.bytes, 2 * (8000 + 3 * 8000U));
}

// What is not trained has its gradient from the first: before a step that began ahead is ordered.
TEST(SimulateOverlap, WhatWasReadyBeforeAStepIsOrderedIsSummedThen) {
  options job = summing({{.end = 1.0 / 3}, {.end = 2.0 / 3, .ready = 0}, {.end = 1, .needed = 0.5, .ready = 0.875}});
  job.partitions = 3;
  job.by_layers = true;
  EXPECT_EQ(without_numerics(job).steps, 3U);
}

// The second begins 1.25 ms before the first. Evenly, its half is there after 12.5 ms and the first's after 14: they share the
// link from 10 ms on, and at the end with what goes back. That is there after 16.5, and the first's after 17.75. By layers the
// first goes before what is left of the second: there after 13, back at 15, and there after 16; the second after 18. That is soon
// enough for a step that began with the first.
TEST(SimulateOverlap, OfTwoSumsThatOfTheFirstLayersGoesFirst) {
  options job = summing(halves(0.25, 0.875));
  EXPECT_EQ(without_numerics(job).virtual_time, 3 * (18 * ms - ms / 4) + (18 + 1) * ms);
  job.by_layers = true;
  EXPECT_EQ(without_numerics(job).virtual_time, (18 + 16 + 16 + 18 + 1) * ms);
}

// Worker 0 computes for 1 ms, worker 1 for 12; both have all of their gradients at the end. By then worker 1 has the other's
// halves: it sends its own of the first partition and the sum of the other, 4 ms, and then those of the second. Worker 0 has both
// after 9 ms. The sum of the second goes back before what worker 0 has of the next round, 0.75 ms later: worker 1 has it after 12
// ms, and begins 3 ms before.
TEST(SimulateOverlap, WhatIsLeftOfARoundGoesBeforeTheNext) {
  options job = summing(halves(0.25, 1));
  job.by_layers = true;
  job.measured.compute = {{1 * ms}, {12 * ms}};
  EXPECT_EQ(without_numerics(job).virtual_time, (18 + 12 + 2 * (9 + 12) + 12 + 1) * ms);
}

} // namespace
} // namespace troupe::protocols::sim
