// SPDX-License-Identifier: BSD-3-Clause
// Synchronous SGD, worked by hand.
#include "protocols/round_rule.hpp"
#include "protocols/sync_sgd.hpp"

#include <limits>

#include <gtest/gtest.h>

#include "tests/protocols/making.hpp"

namespace troupe::protocols {
namespace {

round_rule sync_rule() {
  return round_rule{[](const protocol_spec&, std::uint64_t) { return std::make_unique<sync_sgd>(); }};
}

/// A push of incarnation 0 under plan 1 against version 0, ticket 100 + worker.
push push_from(std::uint32_t worker, std::int64_t samples = 10) {
  return {.epoch = e(1), .id = {w(worker), {}, {1}}, .base = v(0), .gradient = t(100 + worker), .samples = samples};
}

/// The next push of that worker, against a later version.
push push_from(std::uint32_t worker, version base, plan_epoch epoch = e(1)) {
  push out = push_from(worker);
  out.id.clock = {base.value + 1};
  out.base = base;
  out.epoch = epoch;
  return out;
}

TEST(SyncSgd, FirstPlanSendsVersionZeroToAll) {
  round_rule rule = sync_rule();
  EXPECT_EQ(rule.on(plan_of(1, {0, 1})),
            (rule_effects{send_params{.to = {w(0), w(1)}, .ver = v(0), .epoch = e(1), .position = 0, .period = 1}}));
  EXPECT_EQ(rule.waiting_for(), (std::vector{w(0), w(1)}));
}

TEST(SyncSgd, LastPushClosesTheRoundWeightedBySamplesInWorkerOrder) {
  round_rule rule = sync_rule();
  rule.on(plan_of(1, {0, 1}));
  push late = push_from(1, 30), last = push_from(0, 10);
  late.loss = 1.0;
  last.loss = 3.0;
  EXPECT_EQ(rule.on(late), rule_effects{});
  EXPECT_EQ(rule.waiting_for(), (std::vector{w(0)}));
  EXPECT_EQ(rule.on(last),
            (rule_effects{apply{.sum = {{t(100), 0.25}, {t(101), 0.75}}, .ver = v(1), .epoch = e(1), .workers = 2, .samples = 40},
                          report{.event = report::kind::round_closed,
                                 .ver = v(1),
                                 .loss = 1.5,
                                 .contributions = 2,
                                 .timings = {{.worker = w(1), .samples = 30}, {.worker = w(0), .samples = 10}}},
                          send_params{.to = {w(0), w(1)}, .ver = v(1), .epoch = e(1), .position = 20, .period = 1}}));
  EXPECT_EQ(rule.current(), v(1));
}

TEST(SyncSgd, PushesAreWeightedByTheLabelsThatCount) {
  round_rule rule = sync_rule();
  rule.on(plan_of(1, {0, 1}));
  push half = push_from(0, 20), whole = push_from(1, 30);
  half.ignored = 10;
  half.loss = 3.0;
  whole.loss = 1.0;
  rule.on(half);
  const rule_effects out = rule.on(whole);
  const auto& step = only<apply>(out);
  EXPECT_EQ(step.sum, (decltype(step.sum){{t(100), 0.25}, {t(101), 0.75}}));
  EXPECT_EQ(step.samples, 50) << "rows are what an epoch counts";
  EXPECT_EQ(only<report>(out).loss, 1.5);
}

TEST(SyncSgd, ARoundWhoseLabelsAreAllIgnoredMovesNothing) {
  round_rule rule = sync_rule();
  rule.on(plan_of(1, {0}));
  push nothing = push_from(0, 10);
  nothing.ignored = 10;
  const rule_effects out = rule.on(nothing);
  EXPECT_EQ(only<apply>(out).sum, (decltype(apply::sum){{t(100), 0.0}}));
  EXPECT_EQ(only<report>(out).loss, 0.0);
}

TEST(SyncSgd, LatePushIsDiscarded) {
  round_rule rule = sync_rule();
  rule.on(plan_of(1, {0}));
  rule.on(push_from(0));
  push late = push_from(0);
  late.id.clock = {2};
  late.gradient = t(7);
  // Its worker has parameters of version 1 since, and goes on with them.
  EXPECT_EQ(rule.on(late), (rule_effects{discard{t(7)}, report{.event = report::kind::push_discarded, .ver = v(0)}}));
  EXPECT_EQ(rule.current(), v(1));
}

TEST(SyncSgd, PushAgainstAVersionNotMadeYetIsDiscarded) {
  round_rule rule = sync_rule();
  rule.on(plan_of(1, {0}));
  EXPECT_EQ(only<discard>(rule.on(push_from(0, v(1)))).tensor, t(100));
  EXPECT_EQ(rule.current(), v(0));
}

TEST(SyncSgd, SecondPushOfAWorkerInARoundIsDiscardedAndTheFirstStays) {
  round_rule rule = sync_rule();
  rule.on(plan_of(1, {0, 1}));
  rule.on(push_from(0));
  push again = push_from(0);
  again.gradient = t(7);
  EXPECT_EQ(only<discard>(rule.on(again)).tensor, t(7));
  const rule_effects closed = rule.on(push_from(1));
  EXPECT_EQ(only<apply>(closed).sum, (std::vector<term>{{t(100), 0.5}, {t(101), 0.5}}));
}

TEST(SyncSgd, ForeignWorkerIsDiscarded) {
  round_rule rule = sync_rule();
  rule.on(plan_of(1, {0}));
  EXPECT_EQ(only<discard>(rule.on(push_from(5))).tensor, t(105));
}

TEST(SyncSgd, OtherLifeOfAMemberIsDiscarded) {
  round_rule rule = sync_rule();
  rule.on(plan_of(1, {0}));
  push other = push_from(0);
  other.id.incarnation = {1};
  EXPECT_EQ(only<discard>(rule.on(other)).tensor, t(100));
}

TEST(SyncSgd, PushOfAnotherEpochIsDiscarded) {
  round_rule rule = sync_rule();
  rule.on(plan_of(2, {0}));
  EXPECT_EQ(only<discard>(rule.on(push_from(0))).tensor, t(100));
  push future = push_from(0);
  future.epoch = e(3);
  EXPECT_EQ(only<discard>(rule.on(future)).tensor, t(100));
}

TEST(SyncSgd, EmptySliceCountsAsArrivedAndAddsNoTerm) {
  round_rule rule = sync_rule();
  rule.on(plan_of(1, {0, 1}));
  push empty = push_from(1, 0);
  empty.loss = std::numeric_limits<double>::quiet_NaN();
  EXPECT_EQ(rule.on(empty), (rule_effects{discard{t(101)}}));
  const rule_effects closed = rule.on(push_from(0));
  EXPECT_EQ(only<apply>(closed).sum, (std::vector<term>{{t(100), 1.0}}));
  EXPECT_EQ(only<report>(closed).loss, 0.0);
}

TEST(SyncSgd, PushThatIsNotFiniteIsRejectedAndTheOthersAreWeightedAnew) {
  round_rule rule = sync_rule();
  rule.on(plan_of(1, {0, 1, 2}));
  push wild = push_from(1);
  wild.finite = false;
  EXPECT_EQ(rule.on(wild),
            (rule_effects{report{.event = report::kind::push_not_finite, .ver = v(0), .worker = w(1)}, discard{t(101)}}));
  rule.on(push_from(0, 10));
  const rule_effects closed = rule.on(push_from(2, 30));
  EXPECT_EQ(only<apply>(closed).sum, (std::vector<term>{{t(100), 0.25}, {t(102), 0.75}}));
  EXPECT_EQ(only<apply>(closed).samples, 40);
}

TEST(SyncSgd, RoundWithoutATermAdvancesTheVersionWithoutAStep) {
  round_rule rule = sync_rule();
  rule.on(plan_of(1, {0}));
  push wild = push_from(0);
  wild.finite = false;
  const rule_effects closed = rule.on(wild);
  EXPECT_EQ(only<apply>(closed), (apply{.sum = {}, .ver = v(1), .epoch = e(1), .workers = 1, .samples = 0}));
  EXPECT_EQ(only<send_params>(closed).position, 10u);
}

TEST(SyncSgd, DeathOfTheLastStragglerClosesTheRound) {
  round_rule rule = sync_rule();
  rule.on(plan_of(1, {0, 1}));
  rule.on(push_from(1));
  const rule_effects closed = rule.on(worker_down{w(0), {}});
  EXPECT_EQ(only<apply>(closed).sum, (std::vector<term>{{t(101), 1.0}}));
  EXPECT_EQ(only<apply>(closed).workers, 2u) << "n is the plan's: the dead worker's slice is lost, not given to others";
  EXPECT_EQ(only<send_params>(closed).to, (std::vector{w(1)}));
}

TEST(SyncSgd, PushOfAWorkerThatThenDiedIsDropped) {
  round_rule rule = sync_rule();
  rule.on(plan_of(1, {0, 1}));
  rule.on(push_from(0));
  EXPECT_EQ(rule.on(worker_down{w(0), {}}), (rule_effects{discard{t(100)}, report{.event = report::kind::push_discarded}}));
  EXPECT_EQ(only<apply>(rule.on(push_from(1))).sum, (std::vector<term>{{t(101), 1.0}}));
}

TEST(SyncSgd, EmptyPushOfAWorkerThatThenDiedIsDiscardedOnce) {
  round_rule rule = sync_rule();
  rule.on(plan_of(1, {0, 1}));
  EXPECT_EQ(count<discard>(rule.on(push_from(0, 0))), 1u);
  EXPECT_EQ(rule.on(worker_down{w(0), {}}), rule_effects{});
}

TEST(SyncSgd, DeathOfAnotherLifeOrOfAForeignerChangesNothing) {
  round_rule rule = sync_rule();
  rule.on(plan_of(1, {0, 1}));
  rule.on(push_from(0));
  EXPECT_EQ(rule.on(worker_down{w(1), {1}}), rule_effects{});
  EXPECT_EQ(rule.on(worker_down{w(9), {}}), rule_effects{});
  EXPECT_EQ(rule.waiting_for(), (std::vector{w(1)}));
}

TEST(SyncSgd, DeadWorkerIsNotAwaitedInTheNextRoundEither) {
  round_rule rule = sync_rule();
  rule.on(plan_of(1, {0, 1}));
  rule.on(worker_down{w(0), {}});
  rule.on(push_from(1));
  EXPECT_EQ(rule.waiting_for(), (std::vector{w(1)}));
  EXPECT_EQ(only<apply>(rule.on(push_from(1, v(1)))).ver, v(2));
}

TEST(SyncSgd, PlanDuringARoundTakesEffectAtTheNext) {
  round_rule rule = sync_rule();
  rule.on(plan_of(1, {0}));
  plan wider = plan_of(2, {0, 1});
  wider.period = 3;
  EXPECT_EQ(rule.on(wider), rule_effects{});
  EXPECT_EQ(rule.waiting_for(), (std::vector{w(0)}));
  const rule_effects closed = rule.on(push_from(0));
  EXPECT_EQ(only<apply>(closed).workers, 1u);
  // One worker's batch of 10 was used; the next one, of 20, starts behind it.
  EXPECT_EQ(only<send_params>(closed),
            (send_params{.to = {w(0), w(1)}, .ver = v(1), .epoch = e(2), .position = 10, .period = 3}));
  rule.on(push_from(0, v(1), e(2)));
  // Three steps of 20 each.
  EXPECT_EQ(only<send_params>(rule.on(push_from(1, v(1), e(2)))).position, 70u);
}

TEST(SyncSgd, OldOrRepeatedPlanIsNothing) {
  round_rule rule = sync_rule();
  rule.on(plan_of(2, {0}));
  rule.on(worker_down{w(0), {}});
  EXPECT_EQ(rule.on(plan_of(1, {0, 1})), rule_effects{});
  EXPECT_EQ(rule.on(plan_of(2, {0, 1})), rule_effects{});
}

TEST(SyncSgd, RoundWhoseWorkersAllDiedBeginsAnewUnderTheNextPlan) {
  round_rule rule = sync_rule();
  rule.on(plan_of(1, {0}));
  EXPECT_EQ(rule.on(worker_down{w(0), {}}), rule_effects{});
  EXPECT_EQ(rule.waiting_for(), std::vector<worker_id>{});
  EXPECT_EQ(rule.on(plan_of(2, {1, 2})),
            (rule_effects{send_params{.to = {w(1), w(2)}, .ver = v(0), .epoch = e(2), .position = 0, .period = 1}}));
}

TEST(SyncSgd, RoundWhoseWorkersAllDiedBeginsAnewUnderAPlanThatWasWaiting) {
  round_rule rule = sync_rule();
  rule.on(plan_of(1, {0}));
  rule.on(plan_of(2, {0, 1}));
  EXPECT_EQ(rule.on(worker_down{w(0), {}}),
            (rule_effects{send_params{.to = {w(1)}, .ver = v(0), .epoch = e(2), .position = 0, .period = 1}}));
}

TEST(SyncSgd, WorkerThatCameBackUnderANewPlanIsAwaitedAgain) {
  round_rule rule = sync_rule();
  rule.on(plan_of(1, {0, 1}));
  rule.on(worker_down{w(0), {}});
  plan back = plan_of(2, {0, 1});
  back.workers[0].incarnation = {1};
  rule.on(back);
  rule.on(push_from(1));
  EXPECT_EQ(rule.waiting_for(), (std::vector{w(0), w(1)}));
}

TEST(SyncSgd, ShortLastBatchEndsTheEpochOfTheData) {
  round_rule rule = sync_rule();
  rule.on(plan_of(1, {0, 1}, /*batch=*/10, /*data_size=*/30));
  rule.on(push_from(0));
  rule.on(push_from(1));
  rule.on(push_from(0, v(1)));
  EXPECT_EQ(only<send_params>(rule.on(push_from(1, v(1)))).position, 30u) << "10 of 20 samples were left";
}

} // namespace
} // namespace troupe::protocols
