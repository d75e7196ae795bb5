// SPDX-License-Identifier: BSD-3-Clause
// The engine of rounds, under a policy that the test controls.
#include "protocols/round_rule.hpp"

#include <gtest/gtest.h>

#include "tests/protocols/making.hpp"

namespace troupe::protocols {
namespace {

/// What the policy does, and what it was told.
struct script {
  std::size_t wanted = 100; ///< closes with this many pushes, or when full
  std::size_t needed = 0;   ///< lost with fewer members
  std::optional<nanoseconds> patience{};
  std::optional<worker_id> only_worker{}; ///< takes part
  std::optional<closing> how{};           ///< instead of by_samples

  int policies = 0;
  std::vector<std::pair<worker_id, nanoseconds>> arrivals{};
  bool asked_about_nobody = false;
};

class scripted final : public round_policy {
public:
  explicit scripted(script& does) : does_(does) { ++does_.policies; }

  std::set<member> begin(const open_round&, const std::set<member>& alive) override {
    does_.asked_about_nobody |= alive.empty();
    return does_.only_worker ? std::set<member>{{*does_.only_worker, {}}} : alive;
  }
  std::optional<closing> close(const open_round& round) override {
    if (round.pushed.size() < does_.wanted && !round.full() && !round.out_of_patience)
      return std::nullopt;
    return does_.how ? does_.how : by_samples(round);
  }
  bool lost(const open_round& round) override {
    does_.asked_about_nobody |= round.live.empty();
    return round.live.size() < does_.needed;
  }
  std::optional<nanoseconds> patience(const open_round& round) const override {
    does_.asked_about_nobody |= round.live.empty();
    return does_.patience;
  }
  void arrived(const push& msg, nanoseconds elapsed) override { does_.arrivals.emplace_back(msg.id.worker, elapsed); }

private:
  script& does_;
};

round_rule rule_of(script& does) {
  return round_rule{[&does](const protocol_spec&, std::uint64_t) { return std::make_unique<scripted>(does); }};
}

push push_from(std::uint32_t worker, std::uint64_t base = 0, std::uint32_t epoch = 1, nanoseconds at = 0) {
  return {.epoch = e(epoch),
          .id = {w(worker), {}, {10 * epoch + base + 1}},
          .base = v(base),
          .gradient = t(100 * (base + 1) + worker),
          .samples = 10,
          .at = at};
}

report discarded(std::uint32_t worker, std::uint64_t base) {
  return {.event = report::kind::push_discarded, .ver = v(base), .worker = w(worker)};
}

TEST(RoundRule, WorkerThatStillComputesIsNotSentTheNextVersion) {
  script does{.wanted = 1};
  round_rule rule = rule_of(does);
  rule.on(plan_of(1, {0, 1}));
  const rule_effects closed = rule.on(push_from(0));
  EXPECT_EQ(only<send_params>(closed), (send_params{.to = {w(0)}, .ver = v(1), .epoch = e(1), .position = 20, .period = 1}));
  EXPECT_EQ(rule.waiting_for(), (std::vector{w(0), w(1)})) << "it is waited for all the same";
}

TEST(RoundRule, LatePushIsDiscardedAndItsWorkerGetsTheNewestAtOnce) {
  script does{.wanted = 1};
  round_rule rule = rule_of(does);
  rule.on(plan_of(1, {0, 1}));
  rule.on(push_from(0));
  rule.on(push_from(0, 1));
  EXPECT_EQ(rule.on(push_from(1)),
            (rule_effects{discard{t(101)}, discarded(1, 0),
                          send_params{.to = {w(1)}, .ver = v(2), .epoch = e(1), .position = 40, .period = 1}}));
  // From now on it is busy with version 2.
  EXPECT_EQ(only<send_params>(rule.on(push_from(0, 2))).to, (std::vector{w(0)}));
}

/// Its worker was sent parameters twice, and has pushed for both: it works on the newest already.
TEST(RoundRule, SecondAnswerToOlderParametersIsNotAnswered) {
  script does{.wanted = 1};
  round_rule rule = rule_of(does);
  rule.on(plan_of(1, {0, 1}));
  rule.on(push_from(0));
  rule.on(push_from(1));
  EXPECT_EQ(count<send_params>(rule.on(push_from(0))), 0u);
  EXPECT_EQ(count<send_params>(rule.on(push_from(1))), 0u);
}

TEST(RoundRule, LatePushOfSomebodyWhoTakesNoPartIsNotAnswered) {
  script does{.wanted = 1};
  round_rule rule = rule_of(does);
  rule.on(plan_of(1, {0, 1}));
  does.only_worker = w(0);
  rule.on(push_from(0));
  EXPECT_EQ(rule.on(push_from(1)), (rule_effects{discard{t(101)}, discarded(1, 0)}));
  EXPECT_EQ(rule.on(push_from(7)), (rule_effects{discard{t(107)}, discarded(7, 0)})) << "a foreigner";
}

TEST(RoundRule, SecondPushInARoundIsRefusedWithItsReason) {
  script does;
  round_rule rule = rule_of(does);
  rule.on(plan_of(1, {0, 1}));
  rule.on(push_from(0));
  push again = push_from(0);
  again.gradient = t(7);
  report why{.event = report::kind::push_refused, .ver = v(0), .worker = w(0)};
  why.text = "its worker has pushed for this round already";
  EXPECT_EQ(rule.on(again), (rule_effects{discard{t(7)}, why})) << "not answered: the round's end is";
}

TEST(RoundRule, PushFromTheFutureIsRefusedWithItsReasonAndItsWorkerToldWhereTheJobIs) {
  script does;
  round_rule rule = rule_of(does);
  rule.on(plan_of(1, {0, 1}));
  report why{.event = report::kind::push_refused, .ver = v(1), .worker = w(0)};
  why.text = "it is from the future";
  const send_params where{.to = {w(0)}, .ver = v(0), .epoch = e(1), .position = 0, .period = 1};
  EXPECT_EQ(rule.on(push_from(0, 1)), (rule_effects{discard{t(200)}, why, where}));
  why.ver = v(0);
  EXPECT_EQ(rule.on(push_from(0, 0, 2)), (rule_effects{discard{t(100)}, why, where})) << "of a plan that nobody has made";
}

TEST(RoundRule, WhatThePolicyDoesNotUseIsDiscardedAndCounted) {
  script does;
  does.how = closing{.weights = {{{w(1), {}}, 0.75}}, .samples = 30, .step = {.lr_scale = 0.5}, .residual = 1e-9};
  round_rule rule = rule_of(does);
  rule.on(plan_of(1, {0, 1}));
  rule.on(push_from(0));
  push used = push_from(1);
  used.loss = 2;
  const rule_effects closed = rule.on(used);
  EXPECT_EQ(closed.at(0), (rule_effect{discard{t(100)}}));
  EXPECT_EQ(closed.at(1), (rule_effect{discarded(0, 0)}));
  EXPECT_EQ(only<apply>(closed),
            (apply{.sum = {{t(101), 0.75}}, .ver = v(1), .epoch = e(1), .workers = 2, .step = {.lr_scale = 0.5}, .samples = 30}));
  const report made = all<report>(closed).back();
  EXPECT_EQ(made.contributions, 1u);
  EXPECT_EQ(made.loss, 2.0);
  EXPECT_EQ(made.residual, 1e-9);
}

TEST(RoundRule, WeightOfWhatCannotBeAddedIsIgnored) {
  script does;
  does.how = closing{.weights = {{{w(0), {}}, 1}, {{w(1), {}}, 1}}};
  round_rule rule = rule_of(does);
  rule.on(plan_of(1, {0, 1}));
  push wild = push_from(0), empty = push_from(1);
  wild.finite = false;
  empty.samples = 0;
  rule.on(wild);
  const rule_effects closed = rule.on(empty);
  EXPECT_TRUE(only<apply>(closed).sum.empty());
  EXPECT_EQ(only<report>(closed).contributions, 0u);
}

TEST(RoundRule, SlowestOfTheRoundIsNamed) {
  script does;
  round_rule rule = rule_of(does);
  rule.on(plan_of(1, {0, 1, 2}));
  for (const auto& [worker, took] : {std::pair{0u, 30}, {1u, 50}, {2u, 40}}) {
    push next = push_from(worker, 0, 1, 100 + took);
    next.compute = took;
    if (const rule_effects out = rule.on(next); worker == 2) {
      EXPECT_EQ(only<report>(out).worker, w(1));
      EXPECT_EQ(only<report>(out).compute, 50);
      EXPECT_EQ(only<report>(out).at, 150) << "the latest arrival, whichever it was";
    }
  }
}

TEST(RoundRule, TimingsAreThoseOfThePushesSinceTheLastCloseLateOnesAmongThem) {
  script does{.wanted = 2};
  round_rule rule = rule_of(does);
  rule.on(plan_of(1, {0, 1, 2}));
  const auto timed = [](push msg, nanoseconds compute) {
    msg.compute = compute;
    return msg;
  };
  rule.on(timed(push_from(0, 0, 1, 40), 30));
  EXPECT_EQ(only<report>(rule.on(timed(push_from(1, 0, 1, 50), 35))).timings,
            (std::vector<timing>{{w(0), 30, 40, 10}, {w(1), 35, 50, 10}}));
  rule.on(timed(push_from(2, 0, 1, 70), 60)); // late: sent at 0
  rule.on(timed(push_from(2, 1, 1, 90), 15)); // sent at 70
  EXPECT_EQ(only<report>(rule.on(timed(push_from(0, 1, 1, 95), 30))).timings,
            (std::vector<timing>{{w(2), 60, 70, 10}, {w(2), 15, 20, 10}, {w(0), 30, 45, 10}}));
  EXPECT_EQ(does.arrivals,
            (std::vector<std::pair<worker_id, nanoseconds>>{{w(0), 40}, {w(1), 50}, {w(2), 70}, {w(2), 20}, {w(0), 45}}));
}

TEST(RoundRule, PushThatNobodyWasSentParametersForHasNoTime) {
  script does;
  round_rule rule = rule_of(does);
  rule.on(plan_of(1, {0, 1}));
  rule.on(push_from(0, 0, 1, 10));
  rule.on(push_from(0, 0, 1, 20));
  EXPECT_EQ(does.arrivals.size(), 1u);
}

TEST(RoundRule, PeriodTravelsWithTheParametersAndMovesThePosition) {
  script does;
  round_rule rule = rule_of(does);
  plan four = plan_of(1, {0, 1}, /*batch=*/10, /*data_size=*/50);
  four.period = 4;
  EXPECT_EQ(only<send_params>(rule.on(four)).period, 4u);
  rule.on(push_from(0));
  // Batches of 20, 20, 10 (the epoch's end) and 20.
  EXPECT_EQ(only<send_params>(rule.on(push_from(1))).position, 70u);
}

TEST(RoundRule, SamplesOfARoundAreThoseOfAllItsLocalSteps) {
  open_round round{.plan = plan_of(1, {0, 1}, 10, 50), .position = 20};
  EXPECT_EQ(round.samples(), 20u);
  round.plan.period = 3;
  EXPECT_EQ(round.end(), 70u);
  EXPECT_EQ(round.samples(), 50u);
}

TEST(RoundRule, PatienceIsArmedWithTheRoundAndAskedOfEachAnew) {
  script does{.patience = 500};
  round_rule rule = rule_of(does);
  EXPECT_EQ(rule.on(plan_of(1, {0, 1})),
            (rule_effects{send_params{.to = {w(0), w(1)}, .ver = v(0), .epoch = e(1), .period = 1}, arm_timer{{1}, 500}}));
  rule.on(push_from(0));
  does.patience = 700;
  EXPECT_EQ(only<arm_timer>(rule.on(push_from(1))).delay, 700);
  does.patience.reset();
  rule.on(push_from(0, 1));
  EXPECT_EQ(only<arm_timer>(rule.on(push_from(1, 1))).delay, -1) << "disarmed";
  rule.on(push_from(0, 2));
  EXPECT_EQ(count<arm_timer>(rule.on(push_from(1, 2))), 0u) << "once";
}

TEST(RoundRule, RoundWhosePatienceHasRunOutIsAskedAboutAgainAndTheNextHasItsOwn) {
  script does{.patience = 500};
  round_rule rule = rule_of(does);
  rule.on(plan_of(1, {0, 1}));
  rule.on(push_from(0));
  const rule_effects closed = rule.on(expired{{1}, 500});
  EXPECT_EQ(only<apply>(closed).sum, (std::vector<term>{{t(100), 1}}));
  EXPECT_EQ(only<report>(closed).at, 500);
  EXPECT_EQ(only<send_params>(closed).to, (std::vector{w(0)}));
  EXPECT_EQ(rule.on(push_from(0, 1)), rule_effects{}) << "patient again";
}

TEST(RoundRule, TimerThatHasRunOutNeedsNoDisarming) {
  script does{.patience = 500};
  round_rule rule = rule_of(does);
  rule.on(plan_of(1, {0, 1}));
  does.patience.reset();
  rule.on(push_from(0));
  EXPECT_EQ(count<arm_timer>(rule.on(expired{{1}, 500})), 0u);
}

TEST(RoundRule, LostRoundIsDroppedAndBeginsAnewWithTheNextPlan) {
  script does{.needed = 3};
  round_rule rule = rule_of(does);
  rule.on(plan_of(1, {0, 1, 2}));
  rule.on(push_from(0));
  EXPECT_EQ(rule.on(worker_down{w(2), {}}), (rule_effects{discard{t(100)}, discarded(0, 0)}));
  EXPECT_TRUE(rule.waiting_for().empty());
  does.needed = 2;
  // Worker 1 still computes: it is sent nothing until its push of the lost round comes.
  EXPECT_EQ(rule.on(plan_of(2, {0, 1})),
            (rule_effects{send_params{.to = {w(0)}, .ver = v(0), .epoch = e(2), .position = 0, .period = 1}}));
  EXPECT_EQ(rule.on(push_from(1)),
            (rule_effects{discard{t(101)}, discarded(1, 0),
                          send_params{.to = {w(1)}, .ver = v(0), .epoch = e(2), .position = 0, .period = 1}}));
  rule.on(push_from(1, 0, 2));
  EXPECT_EQ(only<apply>(rule.on(push_from(0, 0, 2))).ver, v(1));
}

TEST(RoundRule, LostRoundBeginsAnewAtOnceUnderAPlanThatIsThereAlready) {
  script does{.needed = 3};
  round_rule rule = rule_of(does);
  rule.on(plan_of(1, {0, 1, 2}));
  rule.on(push_from(0));
  rule.on(plan_of(2, {0, 1, 2, 3}));
  EXPECT_EQ(rule.on(worker_down{w(2), {}}),
            (rule_effects{discard{t(100)}, discarded(0, 0),
                          send_params{.to = {w(0), w(3)}, .ver = v(0), .epoch = e(2), .position = 0, .period = 1}}));
}

TEST(RoundRule, RoundThatWouldBeLostFromTheStartWaitsForThePlanWithoutTheDead) {
  script does{.wanted = 1, .needed = 2};
  round_rule rule = rule_of(does);
  rule.on(plan_of(1, {0, 1}));
  rule.on(plan_of(2, {0, 2, 3}));
  rule.on(worker_down{w(2), {}});
  rule.on(worker_down{w(3), {}});
  const rule_effects closed = rule.on(push_from(0));
  EXPECT_EQ(count<apply>(closed), 1u);
  EXPECT_EQ(count<send_params>(closed), 0u) << "of plan 2 only worker 0 lives";
  does.needed = 1;
  EXPECT_EQ(only<send_params>(rule.on(plan_of(3, {0}))),
            (send_params{.to = {w(0)}, .ver = v(1), .epoch = e(3), .position = 20, .period = 1}));
}

TEST(RoundRule, PolicyIsNeverAskedAboutARoundOfNobody) {
  script does{.patience = 500};
  round_rule rule = rule_of(does);
  rule.on(plan_of(1, {0}));
  EXPECT_EQ(rule.on(worker_down{w(0), {}}), (rule_effects{arm_timer{{1}, -1}}));
  EXPECT_EQ(rule.on(expired{{1}, 500}), rule_effects{});
  EXPECT_EQ(rule.on(plan_of(2, {})), rule_effects{}) << "as when the last worker dies during the last evaluation";
  EXPECT_FALSE(does.asked_about_nobody);
}

TEST(RoundRule, PolicyStaysAsLongAsPlansNameTheSameProtocol) {
  script does;
  round_rule rule = rule_of(does);
  rule.on(plan_of(1, {0}));
  rule.on(plan_of(2, {0}));
  rule.on(push_from(0));
  EXPECT_EQ(does.policies, 1);
  plan other = plan_of(3, {0});
  other.protocol.parameters["quorum"] = std::int64_t{2};
  rule.on(other);
  EXPECT_EQ(does.policies, 1) << "the round keeps the plan that it began with";
  rule.on(push_from(0, 1, 2));
  EXPECT_EQ(does.policies, 2);
}

} // namespace
} // namespace troupe::protocols
