// SPDX-License-Identifier: BSD-3-Clause
// auto: what it predicts from measured times, and when it switches.
#include "protocols/automatic.hpp"

#include <cmath>
#include <limits>

#include <gtest/gtest.h>

#include "protocols/catalog.hpp"
#include "protocols/random_stream.hpp"
#include "tests/protocols/making.hpp"

namespace troupe::protocols {
namespace {

const protocol_spec sync_spec{.name = "sync"}, backup_spec{.name = "backup"}, coded_spec{.name = "coded"},
    local_spec{.name = "local"};

constexpr nanoseconds unit = 1'000'000; ///< of computing: a batch of one worker

plan plan_of_n(std::uint32_t n, const protocol_spec& runs = sync_spec, std::uint32_t epoch = 1) {
  plan out = plan_of(epoch, {});
  for (std::uint32_t i = 0; i < n; ++i)
    out.workers.push_back({w(i), {}});
  out.protocol = runs;
  return out;
}

automatic watching(const plan& with, std::vector<protocol_spec> candidates = {sync_spec, backup_spec, coded_spec}) {
  automatic out{std::move(candidates), catalog()};
  out.on(with);
  return out;
}

/// A round in which worker i computed `compute[i]` for one batch of 10 and its push travelled for `travel`.
report round_of(const std::vector<nanoseconds>& compute, nanoseconds travel = 0, std::int64_t samples = 10) {
  report out{.event = report::kind::round_closed, .contributions = 1};
  for (std::uint32_t i = 0; i < compute.size(); ++i)
    out.timings.push_back({w(i), compute[i], compute[i] + travel, samples});
  return out;
}

std::string chosen(const std::optional<decision>& decided) {
  return decided && decided->protocol ? decided->protocol->name : "";
}

/// What the second of two equal rounds decides.
std::string chosen_after(automatic& subject, const report& round) {
  EXPECT_EQ(chosen(subject.on(round, 1)), "");
  return chosen(subject.on(round, 1));
}

TEST(Auto, PredictsFromWhatWasMeasured) {
  automatic subject = watching(plan_of_n(4));
  subject.on(round_of({10, 20, 30, 80}, 5), 1);
  EXPECT_DOUBLE_EQ(subject.predicted(sync_spec), 85) << "the slowest";
  EXPECT_DOUBLE_EQ(subject.predicted(backup_spec), 35 * 4 / 3.0) << "the third, with 3 of 4 batches";
  EXPECT_DOUBLE_EQ(subject.predicted({.name = "backup", .parameters = {{"quorum", std::int64_t{2}}}}), 25 * 2);
  EXPECT_DOUBLE_EQ(subject.predicted({.name = "backup", .parameters = {{"quorum", std::int64_t{9}}}}), 85)
      << "of those there are";
  // Groups {0, 2} and {1, 3} of two batches each: 25, 45, 65 and 165; ranks 0 and 1 hold the first half, 2 and 3 the second.
  EXPECT_DOUBLE_EQ(subject.predicted(coded_spec), 65) << "2 x 30 + 5: with worker 2 both halves are there";
  EXPECT_TRUE(std::isinf(subject.predicted(local_spec))) << "computing takes longer than the journey";
}

TEST(Auto, PredictsTheSameOnceItIsCarried) {
  automatic subject = watching(plan_of_n(4));
  subject.on(round_of({10, 20, 30, 80}, 5), 1);
  automatic carried = watching(plan_of_n(4));
  carried.remember(subject.memory());
  EXPECT_DOUBLE_EQ(carried.predicted(coded_spec), 65);
  EXPECT_EQ(carried.memory(), subject.memory());
}

TEST(Auto, OfAMemoryThatNoneOfItsKindWroteItKeepsWhatItCan) {
  constexpr double none = std::numeric_limits<double>::quiet_NaN();
  const std::vector<std::vector<double>> memories{
      {1, 0, 0}, {none, 0, 1, none}, {2, 0, 1e9, 7}, {-1, 3.5, -2}, std::vector<double>(50, 40)};
  for (const auto& memory : memories) {
    automatic subject = watching(plan_of_n(4));
    subject.remember(memory);
    subject.check();
    for (int round = 0; round < 3; ++round)
      subject.on(round_of({10, 20, 30, 80}, 5), 1);
    subject.check();
    EXPECT_TRUE(std::isfinite(subject.predicted(sync_spec)));
  }
}

TEST(Auto, LocalSharesTheJourneyAmongItsSteps) {
  automatic subject = watching(plan_of_n(2));
  subject.on(round_of({10, 20}, 300), 1);
  EXPECT_DOUBLE_EQ(subject.predicted(local_spec), 20 + 300 / 10.0);
  EXPECT_DOUBLE_EQ(subject.predicted({.name = "local", .parameters = {{"steps", std::int64_t{50}}}}), 20 + 300 / 50.0);
}

TEST(Auto, TimesAreThoseOfOneBatchWhateverWasRun) {
  automatic subject = watching(plan_of_n(2));
  subject.on(round_of({40, 40}, 5, 20), 1); // coded: two batches' worth
  EXPECT_DOUBLE_EQ(subject.predicted(sync_spec), 25);
  automatic other = watching(plan_of_n(2));
  other.on(round_of({200, 200}, 5, 100), 1); // local: ten steps, one journey
  EXPECT_DOUBLE_EQ(other.predicted(sync_spec), 25);
}

TEST(Auto, PredictionIsTheMeanOverThePastRounds) {
  automatic subject = watching(plan_of_n(2));
  // Each in turn slow: the slowest takes 50 or 30, 40 in the mean, though worker 0 takes 30 and worker 1 20.
  for (int i = 0; i < 8; ++i) {
    subject.on(round_of({50, 10}), 1);
    subject.on(round_of({10, 30}), 1);
  }
  EXPECT_DOUBLE_EQ(subject.predicted(sync_spec), 40);
  EXPECT_DOUBLE_EQ(subject.predicted(backup_spec), 20) << "the faster one, for half of the samples";
}

TEST(Auto, LastSixteenStepsOfAWorkerAreThePast) {
  automatic subject = watching(plan_of_n(1), {sync_spec});
  for (int i = 0; i < 5; ++i)
    subject.on(round_of({1000}), 1);
  for (int i = 0; i < 16; ++i)
    subject.on(round_of({10}), 1);
  EXPECT_DOUBLE_EQ(subject.predicted(sync_spec), 10);
}

/// Eight workers, computing with a tenth of exponential jitter, worker 0 `factor` times slower; in units.
automatic straggling(double factor, std::uint64_t seed) {
  automatic out = watching(plan_of_n(8));
  random_stream random{seed};
  for (int round = 0; round < 16; ++round) {
    std::vector<nanoseconds> compute;
    for (int i = 0; i < 8; ++i)
      compute.push_back(static_cast<nanoseconds>((i == 0 ? factor : 1) * (1 - 0.1 * std::log(1 - random.uniform()))
                                                 * static_cast<double>(unit)));
    out.on(round_of(compute), 1);
  }
  return out;
}

TEST(Auto, OneSlowWorkerOfEightCostsWhatTheModelSays) {
  // Steps of 1 + Exp(0.1), one worker five or ten times slower; in units of a step:
  //   sync    5 x 1.1
  //   backup  1 + 0.1 (1 + 1/2 + ... + 1/7) = 1.259: the slowest of seven
  //   coded   batches of two: to wait for all seven would take 2 x 1.259 = 2.52, but groups stand in for each other, and what
  //   must
  //           come is worker 1 (whose partner is slow) and one of each of three pairs: 2 (1 + 0.1 E max(Exp(1), 3 of Exp(2))),
  //           the integral of 1 - (1 - e^-x) (1 - e^-2x)^3 being 1 + 3/2 - 1 - 3/4 + 3/5 + 1/6 - 1/7 = 1.374: 2.275
  for (const auto& [factor, sync] : {std::pair{5.0, 5.5}, {10.0, 11.0}}) {
    double sums[3] = {};
    for (std::uint64_t seed = 1; seed <= 50; ++seed) {
      const automatic subject = straggling(factor, seed);
      sums[0] += subject.predicted(sync_spec) / unit / 50;
      sums[1] += subject.predicted(backup_spec) * 7 / 8 / unit / 50; // of a round, which has seven batches
      sums[2] += subject.predicted(coded_spec) / unit / 50;
    }
    EXPECT_NEAR(sums[0], sync, 0.03 * sync);
    EXPECT_NEAR(sums[1], 1.259, 0.02 * 1.259);
    EXPECT_NEAR(sums[2], 2.275, 0.02 * 2.275);
  }
}

TEST(Auto, WithoutAStragglerSynchronousStays) {
  automatic subject = watching(plan_of_n(8));
  EXPECT_EQ(chosen_after(subject, round_of(std::vector<nanoseconds>(8, 100))), "");
}

TEST(Auto, SlowWorkerMakesItGoOverToBackupWithTheReasons) {
  automatic subject = watching(plan_of_n(4));
  const report slow = round_of({unit, unit, unit, 5 * unit});
  subject.on(slow, 1);
  const auto decided = subject.on(slow, 1);
  ASSERT_TRUE(decided);
  EXPECT_EQ(decided->protocol, backup_spec);
  EXPECT_EQ(decided->period, 1u);
  EXPECT_EQ(decided->why,
            "auto: sync -> backup; a round's worth of samples would take: sync 5.0 ms, backup 1.3 ms, coded 2.0 ms");
}

TEST(Auto, CodedIsChosenWhereBackupIsNoCandidate) {
  automatic subject = watching(plan_of_n(4), {sync_spec, coded_spec});
  EXPECT_EQ(chosen_after(subject, round_of({100, 100, 100, 500})), "coded");
  automatic mild = watching(plan_of_n(4), {sync_spec, coded_spec});
  EXPECT_EQ(chosen_after(mild, round_of({100, 100, 100, 190})), "") << "twice the work does not pay below twice the time";
}

TEST(Auto, SlowLinkMakesItGoOverToLocalWithItsPeriod) {
  automatic subject = watching(plan_of_n(2), {sync_spec, local_spec});
  const report slow = round_of({100, 100}, 900);
  subject.on(slow, 1);
  const auto decided = subject.on(slow, 1);
  ASSERT_TRUE(decided);
  EXPECT_EQ(decided->protocol, local_spec);
  EXPECT_EQ(decided->period, 10u);
}

TEST(Auto, WhatIsNotAFifthBetterStays) {
  automatic subject = watching(plan_of_n(10), {sync_spec, backup_spec});
  std::vector<nanoseconds> times(10, 90);
  times[0] = 124; // sync 124, backup 90 * 10/9 = 100, which is not below 0.8 * 124 = 99.2
  EXPECT_EQ(chosen_after(subject, round_of(times)), "");
  automatic other = watching(plan_of_n(10), {sync_spec, backup_spec});
  times[0] = 126; // 0.8 * 126 = 100.8
  EXPECT_EQ(chosen_after(other, round_of(times)), "backup");
  // At equal speeds backup takes n / (n - 1) as long for a sample: 6/5, 4/3.
  automatic six = watching(plan_of_n(6, backup_spec), {sync_spec, backup_spec});
  EXPECT_EQ(chosen_after(six, round_of(std::vector<nanoseconds>(6, 100))), "");
  automatic four = watching(plan_of_n(4, backup_spec), {sync_spec, backup_spec});
  EXPECT_EQ(chosen_after(four, round_of(std::vector<nanoseconds>(4, 100))), "sync");
}

TEST(Auto, WhatRunsAndIsNoCandidateIsLeftForTheBestOne) {
  automatic subject = watching(plan_of_n(2, local_spec), {coded_spec, backup_spec, sync_spec});
  EXPECT_EQ(chosen_after(subject, round_of({10, 10}, 0)), "sync") << "coded 20, backup 20, sync 10";
}

TEST(Auto, OfEqualsTheFirstIsChosen) {
  for (const auto& two : {std::vector{coded_spec, backup_spec}, std::vector{backup_spec, coded_spec}}) {
    automatic subject = watching(plan_of_n(2, local_spec), two);
    EXPECT_EQ(chosen_after(subject, round_of({10, 10})), two.front().name) << "both take 20";
  }
}

TEST(Auto, NothingIsDecidedBeforeEveryWorkerIsKnown) {
  automatic subject = watching(plan_of_n(3));
  for (int i = 0; i < 9; ++i)
    EXPECT_FALSE(subject.on(round_of({10, 90}), 1)) << "worker 2 has never pushed; of the others backup would take 20, sync 90";
  EXPECT_EQ(chosen(subject.on(round_of({10, 90, 10}), 1)), "backup") << "now";
}

TEST(Auto, WorkersThatLeftAreForgottenAndJoinersWaitedFor) {
  automatic subject = watching(plan_of_n(3), {sync_spec, backup_spec});
  subject.on(round_of({10, 10, 500}), 1);
  subject.on(plan_of_n(2, sync_spec, 2));
  subject.on(round_of({10, 10}), 1);
  EXPECT_DOUBLE_EQ(subject.predicted(sync_spec), 10);
  subject.on(plan_of_n(3, sync_spec, 3));
  EXPECT_EQ(chosen_after(subject, round_of({10, 10})), "") << "a new one in the place of the old is not known";
}

TEST(Auto, EmptyPushesSayNothing) {
  automatic subject = watching(plan_of_n(2), {sync_spec});
  report round = round_of({10, 20});
  round.timings.push_back({w(1), 5000, 5000, 0});
  subject.on(round, 1);
  EXPECT_DOUBLE_EQ(subject.predicted(sync_spec), 20);
}

TEST(Auto, ClocksThatDoNotAgreeAreNoNegativeJourneys) {
  automatic subject = watching(plan_of_n(1), {sync_spec});
  report round;
  round.timings = {{w(0), 100, 40, 10}};
  subject.on(round, 1);
  EXPECT_DOUBLE_EQ(subject.predicted(sync_spec), 100);
}

TEST(Auto, DecidesEverySecondRound) {
  automatic subject = watching(plan_of_n(4));
  const report slow = round_of({100, 100, 100, 500});
  EXPECT_EQ(chosen_after(subject, slow), "backup");
  EXPECT_EQ(chosen_after(subject, slow), "backup") << "its decision was not followed";
}

} // namespace
} // namespace troupe::protocols
