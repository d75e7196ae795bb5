// SPDX-License-Identifier: BSD-3-Clause
// The lead: gathering over several holders, translation, holding.
#include "protocols/lead.hpp"

#include <gtest/gtest.h>

#include "protocols/allreduce_rule.hpp"
#include "protocols/async_sgd.hpp"
#include "protocols/backup_workers.hpp"
#include "protocols/round_rule.hpp"
#include "protocols/sync_sgd.hpp"
#include "tests/protocols/making.hpp"

namespace troupe::protocols {
namespace {

lead sync_lead(std::uint32_t holders) {
  return {std::make_unique<round_rule>([](const protocol_spec&, std::uint64_t) { return std::make_unique<sync_sgd>(); }),
          tree_shape{.shards = holders}};
}

/// Worker's push number `clock` against version clock - 1, complete at this holder.
arrival arrived(std::uint32_t worker, std::uint32_t holder = 0, std::uint64_t clock = 1, std::int64_t samples = 10) {
  return {.holder = h(holder), .push = {.epoch = e(1), .id = {w(worker), {}, {clock}}, .base = v(clock - 1), .samples = samples}};
}

TEST(Lead, FirstPlanBecomesASendOrder) {
  lead subject = sync_lead(1);
  EXPECT_EQ(subject.on(plan_of(1, {0, 1})), (lead_effects{send_order{.epoch = e(1), .ver = v(0), .key = 1, .to = {w(0), w(1)}}}));
}

TEST(Lead, PushCountsOnceEveryHolderHasReportedIt) {
  lead subject = sync_lead(2);
  subject.on(plan_of(1, {0}));
  EXPECT_EQ(subject.on(arrived(0, 1)), lead_effects{});
  EXPECT_EQ(subject.waiting_for(), (std::vector{w(0)}));
  EXPECT_EQ(count<close>(subject.on(arrived(0, 0))), 1u);
}

TEST(Lead, SecondReportOfOneHolderDoesNotCount) {
  lead subject = sync_lead(2);
  subject.on(plan_of(1, {0}));
  subject.on(arrived(0, 1));
  EXPECT_EQ(subject.on(arrived(0, 1)), lead_effects{});
  EXPECT_EQ(subject.current(), v(0));
}

TEST(Lead, CloseCarriesWhatTheRoundIsAndTheParametersThatFollow) {
  lead subject = sync_lead(1);
  subject.on(plan_of(1, {0, 1}));
  subject.on(arrived(1, 0, 1, 30));
  const lead_effects out = subject.on(arrived(0, 0, 1, 10));
  EXPECT_EQ(out, (lead_effects{close{.epoch = e(1),
                                     .ver = v(1),
                                     .contributions = {{{w(0), {}, {1}}, 0.25}, {{w(1), {}, {1}}, 0.75}},
                                     .samples_before = 0,
                                     .workers = 2,
                                     .send_to = {w(0), w(1)},
                                     .send_epoch = e(1),
                                     .key = 2,
                                     .position = 20,
                                     .period = 1},
                               report{.event = report::kind::round_closed,
                                      .ver = v(1),
                                      .samples = 40,
                                      .contributions = 2,
                                      .timings = {{.worker = w(1), .samples = 30}, {.worker = w(0), .samples = 10}}}}));
  subject.on(arrived(0, 0, 2));
  EXPECT_EQ(only<close>(subject.on(arrived(1, 0, 2))).samples_before, 40u);
  EXPECT_EQ(subject.samples_applied(), 60u);
}

TEST(Lead, RecordsWhatEachVersionIsMadeOfIfItIsAsked) {
  lead subject = sync_lead(1);
  subject.on(plan_of(1, {0, 1}));
  const auto report_of = [&](std::uint64_t clock) {
    subject.on(arrived(1, 0, clock, 30));
    return only<report>(subject.on(arrived(0, 0, clock, 10)));
  };
  EXPECT_EQ(report_of(1).made, std::nullopt);
  subject.record_rounds();
  const round_record second{.ver = v(2),
                            .epoch = e(1),
                            .position = 20,
                            .samples_before = 40,
                            .contributions = {{{w(0), {}, {2}}, 0.25}, {{w(1), {}, {2}}, 0.75}}};
  EXPECT_EQ(report_of(2).made, second);
}

TEST(Lead, NewPlanTravelsWithTheCloseOfTheOldRound) {
  lead subject = sync_lead(1);
  subject.on(plan_of(1, {0}));
  plan wider = plan_of(2, {0, 1});
  wider.period = 4;
  EXPECT_EQ(subject.on(wider), lead_effects{});
  const close closed = only<close>(subject.on(arrived(0)));
  EXPECT_EQ(closed.epoch, e(1));
  EXPECT_EQ(closed.send_epoch, e(2));
  EXPECT_EQ(closed.send_to, (std::vector{w(0), w(1)}));
  EXPECT_EQ(closed.period, 4u);
}

TEST(Lead, LearningRateOfThePlanTravelsWithTheClose) {
  lead subject = sync_lead(1);
  plan slower = plan_of(1, {0});
  slower.lr_scale = 0.5;
  subject.on(slower);
  EXPECT_EQ(only<close>(subject.on(arrived(0))).step.lr_scale, 0.5);
  subject.on(plan_of(2, {0}));
  EXPECT_EQ(only<close>(subject.on(arrived(0, 0, 2))).step.lr_scale, 1) << "not 0.5 of it";
}

TEST(Lead, DiscardBecomesADropOrderByName) {
  lead subject = sync_lead(1);
  subject.on(plan_of(1, {0, 1}));
  EXPECT_EQ(only<drop_order>(subject.on(arrived(0, 0, 1, 0))).id, (push_id{w(0), {}, {1}})) << "an empty push adds no term";
}

TEST(Lead, WhatIsDecidedIsForgotten) {
  lead subject = sync_lead(1);
  subject.on(plan_of(1, {0, 1}));
  subject.on(arrived(0, 0, 1, 0));
  EXPECT_EQ(subject.open(), 0u) << "discarded";
  subject.on(arrived(1));
  EXPECT_EQ(subject.open(), 0u) << "applied";
}

TEST(Lead, ArrivalOfADecidedPushIsDropped) {
  lead subject = sync_lead(1);
  subject.on(plan_of(1, {0}));
  subject.on(arrived(0));
  EXPECT_EQ(subject.on(arrived(0)), (lead_effects{drop_order{{w(0), {}, {1}}}}));
}

TEST(Lead, ArrivalOfAPushThatTheRuleHoldsIsNothing) {
  lead subject = sync_lead(1);
  subject.on(plan_of(1, {0, 1}));
  subject.on(arrived(0));
  EXPECT_EQ(subject.on(arrived(0)), lead_effects{});
  EXPECT_EQ(only<close>(subject.on(arrived(1))).contributions.size(), 2u);
}

TEST(Lead, ReportOfOneHolderTooManyIsNothing) {
  lead subject = sync_lead(1);
  subject.on(plan_of(1, {0, 1}));
  subject.on(arrived(0, 0));
  EXPECT_EQ(subject.on(arrived(0, 1)), lead_effects{}) << "a drop_order would take the push out of the open round";
}

TEST(Lead, ArrivalOfADecidedPushIsDroppedUnderANewPlanToo) {
  lead subject = sync_lead(2);
  subject.on(plan_of(1, {0}));
  subject.on(arrived(0, 0));
  subject.on(arrived(0, 1));
  subject.on(plan_of(2, {0, 1}));
  EXPECT_EQ(subject.on(arrived(0, 0)), (lead_effects{drop_order{{w(0), {}, {1}}}}));
}

TEST(Lead, ForeignArrivalIsDroppedBeforeItIsComplete) {
  lead subject = sync_lead(2);
  subject.on(plan_of(1, {0}));
  EXPECT_EQ(subject.on(arrived(7)), (lead_effects{drop_order{{w(7), {}, {1}}}}));
}

TEST(Lead, DeathDropsWhatIsNotComplete) {
  lead subject = sync_lead(2);
  subject.on(plan_of(1, {0, 1}));
  subject.on(arrived(0, 0));
  EXPECT_EQ(subject.on(worker_down{w(0), {}}), (lead_effects{drop_order{{w(0), {}, {1}}}}));
  EXPECT_EQ(subject.on(arrived(0, 1)), (lead_effects{drop_order{{w(0), {}, {1}}}})) << "the other holder drops it too";
}

TEST(Lead, DeathLeavesOtherWorkersAndOtherLivesAlone) {
  lead subject = sync_lead(2);
  subject.on(plan_of(1, {0, 1}));
  subject.on(arrived(0, 0));
  EXPECT_EQ(subject.on(worker_down{w(1), {}}), lead_effects{});
  EXPECT_EQ(subject.on(worker_down{w(0), {1}}), lead_effects{});
}

TEST(Lead, DeathDropsACompletePushOfTheOpenRound) {
  lead subject = sync_lead(1);
  subject.on(plan_of(1, {0, 1}));
  subject.on(arrived(0));
  EXPECT_EQ(only<drop_order>(subject.on(worker_down{w(0), {}})).id, (push_id{w(0), {}, {1}}));
}

TEST(Lead, HoldsAtTheCloseThatReachesTheSamples) {
  lead subject = sync_lead(1);
  subject.on(hold_order{.at_samples = 15});
  subject.on(plan_of(1, {0}));
  EXPECT_EQ(only<close>(subject.on(arrived(0, 0, 1))).send_to, (std::vector{w(0)})) << "10 of 15";
  EXPECT_FALSE(subject.held());

  const lead_effects out = subject.on(arrived(0, 0, 2));
  EXPECT_TRUE(subject.held());
  EXPECT_TRUE(only<close>(out).send_to.empty());
  EXPECT_EQ(std::get<report>(out.back()), (report{.event = report::kind::held, .ver = v(2), .samples = 20}));
  EXPECT_TRUE(subject.waiting_for().empty());

  EXPECT_EQ(subject.on(resume_order{}),
            (lead_effects{send_order{.epoch = e(1), .ver = v(2), .key = 3, .to = {w(0)}, .position = 20, .period = 1}}));
  EXPECT_FALSE(subject.held());
  EXPECT_EQ(subject.on(resume_order{}), lead_effects{});
}

TEST(Lead, MarksTheFirstVersionFromTheOrderedOneOn) {
  lead subject = sync_lead(1);
  subject.on(plan_of(1, {0}));
  EXPECT_EQ(subject.on(checkpoint_order{v(2)}), lead_effects{});
  EXPECT_FALSE(only<close>(subject.on(arrived(0, 0, 1))).checkpoint);
  EXPECT_TRUE(only<close>(subject.on(arrived(0, 0, 2))).checkpoint);
  EXPECT_EQ(subject.marked().made, v(2));
  EXPECT_FALSE(only<close>(subject.on(arrived(0, 0, 3))).checkpoint) << "an order is for one";
  EXPECT_EQ(subject.marked().made, v(2));
  subject.on(checkpoint_order{v(1)});
  EXPECT_TRUE(only<close>(subject.on(arrived(0, 0, 4))).checkpoint);
}

TEST(Lead, MarksTheVersionAtWhichItHoldsWhereTheOrderSaysSo) {
  using saves = hold_order::saves;
  const auto marks = [](hold_order order) {
    lead subject = sync_lead(1);
    subject.on(order);
    subject.on(plan_of(1, {0}));
    subject.on(arrived(0, 0, 1));
    const lead_effects out = subject.on(arrived(0, 0, 2));
    EXPECT_TRUE(subject.held());
    return only<close>(out).checkpoint;
  };
  EXPECT_FALSE(marks({.at_samples = 20, .at_version = 2}));
  EXPECT_TRUE(marks({.at_samples = 20, .checkpoint = saves::always}));
  EXPECT_FALSE(marks({.at_samples = 20, .at_version = 3, .checkpoint = saves::at_version}));
  EXPECT_TRUE(marks({.at_samples = 30, .at_version = 2, .checkpoint = saves::at_version}));
}

TEST(Lead, GoesOnFromAMarkedVersionWithOtherWorkers) {
  lead first = sync_lead(1);
  first.on(checkpoint_order{v(2)});
  first.on(plan_of(1, {0, 1}));
  for (const std::uint64_t clock : {1, 2}) {
    first.on(arrived(0, 0, clock));
    first.on(arrived(1, 0, clock));
  }
  first.on(arrived(1, 0, 3)); // of the round that follows: nothing of it is kept

  lead second{std::make_unique<round_rule>([](const protocol_spec&, std::uint64_t) { return std::make_unique<sync_sgd>(); }),
              {},
              false,
              first.marked()};
  second.check(); // before its first plan, too
  EXPECT_EQ(second.current(), v(2));
  EXPECT_EQ(second.samples_applied(), 40u);
  EXPECT_EQ(second.on(plan_of(1, {4})),
            (lead_effects{send_order{.epoch = e(1), .ver = v(2), .key = 1, .to = {w(4)}, .position = 40, .period = 1}}));
  second.check();
  const close next = only<close>(second.on(arrived(4, 0, 3)));
  EXPECT_EQ(next.ver, v(3));
  EXPECT_EQ(next.samples_before, 40u);
  EXPECT_EQ(next.contributions, (std::vector<contribution>{{{w(4), {}, {3}}, 1}}));
}

TEST(Lead, AtRestKeepsWhereEachShardIsThatAppliesPushesAlone) {
  lead first{std::make_unique<async_sgd>(), {}, true};
  first.on(plan_of(1, {0, 1}));
  first.on(arrived(0, 0, 1));
  first.on(arrived(1, 0, 1));
  first.on(arrived(1, 0, 2));
  lead second{std::make_unique<async_sgd>(), {}, true, at_rest(first.state())};
  second.check();
  EXPECT_EQ(second.current(), v(3));
  EXPECT_EQ(second.samples_applied(), 30u);
  const auto begun = only<send_order>(second.on(plan_of(1, {5})));
  EXPECT_EQ(begun.ver, v(3));
  EXPECT_EQ(begun.position, 50u) << "slices that were given out and never came back are not given out again";
  EXPECT_EQ(only<close>(second.on(arrived(5, 0, 1))).ver, v(4));
}

TEST(Lead, HoldsAtAVersion) {
  lead subject = sync_lead(1);
  subject.on(hold_order{.at_version = 2});
  subject.on(plan_of(1, {0}));
  subject.on(arrived(0, 0, 1));
  EXPECT_FALSE(subject.held());
  subject.on(arrived(0, 0, 2));
  EXPECT_TRUE(subject.held());
}

/// Its copy may have been told so, and the coordinator not.
TEST(Lead, WhoIsToGoOnFromAnEarlierVersionSaysAgainWhereItHolds) {
  lead subject = sync_lead(1);
  subject.on(hold_order{.at_version = 1});
  subject.on(plan_of(1, {0}));
  EXPECT_EQ(subject.on(resume_order{.held = v(0)}), lead_effects{});
  subject.on(arrived(0, 0, 1));
  EXPECT_EQ(subject.on(resume_order{.held = v(0)}),
            (lead_effects{report{.event = report::kind::held, .ver = v(1), .samples = 10}}));
  EXPECT_TRUE(subject.held());
  EXPECT_EQ(count<send_order>(subject.on(resume_order{.held = v(1)})), 1u);
  EXPECT_EQ(subject.on(resume_order{.held = v(0)}), lead_effects{}) << "it goes on";
}

TEST(Lead, HoldsNowAtTheNextVersion) {
  lead subject = sync_lead(1);
  subject.on(plan_of(1, {0}));
  EXPECT_EQ(subject.on(hold_order{.now = true}), lead_effects{});
  EXPECT_FALSE(subject.held());
  subject.on(arrived(0, 0, 1));
  EXPECT_TRUE(subject.held());
}

TEST(Lead, LimitThatIsReachedAlreadyHoldsAtTheNextVersion) {
  lead subject = sync_lead(1);
  subject.on(plan_of(1, {0}));
  subject.on(arrived(0, 0, 1));
  EXPECT_EQ(subject.on(hold_order{.at_samples = 5}), lead_effects{});
  subject.on(arrived(0, 0, 2));
  EXPECT_TRUE(subject.held());
}

TEST(Lead, NewHoldOrderReplacesTheOldOne) {
  lead subject = sync_lead(1);
  subject.on(plan_of(1, {0}));
  subject.on(hold_order{.at_samples = 5, .now = true});
  subject.on(hold_order{.at_samples = 15});
  subject.on(arrived(0, 0, 1));
  EXPECT_FALSE(subject.held());
  subject.on(arrived(0, 0, 2));
  EXPECT_TRUE(subject.held());
}

TEST(Lead, OrderThatCameWhileHeldTakesEffectAfterTheResume) {
  lead subject = sync_lead(1);
  subject.on(hold_order{.at_version = 1});
  subject.on(plan_of(1, {0}));
  subject.on(arrived(0, 0, 1));
  EXPECT_EQ(subject.on(hold_order{.at_version = 2}), lead_effects{});
  EXPECT_EQ(count<send_order>(subject.on(resume_order{})), 1u);
  subject.on(arrived(0, 0, 2));
  EXPECT_TRUE(subject.held());
}

TEST(Lead, WithoutAFurtherOrderItHoldsOnce) {
  lead subject = sync_lead(1);
  subject.on(hold_order{.at_samples = 10});
  subject.on(plan_of(1, {0}));
  subject.on(arrived(0, 0, 1));
  subject.on(resume_order{});
  subject.on(arrived(0, 0, 2));
  EXPECT_FALSE(subject.held());
}

TEST(Lead, ResumeSendsNothingToWhoeverDiedWhileHeld) {
  lead subject = sync_lead(1);
  subject.on(hold_order{.now = true});
  subject.on(plan_of(1, {0, 1}));
  subject.on(arrived(0));
  subject.on(arrived(1));
  subject.on(worker_down{w(0), {}});
  EXPECT_EQ(only<send_order>(subject.on(resume_order{})).to, (std::vector{w(1)}));
}

TEST(Lead, DeathThatEndsARoundWhileHeldMakesItsVersionAfterTheResume) {
  lead subject{
      std::make_unique<round_rule>([](const protocol_spec&, std::uint64_t) { return std::make_unique<backup_workers>(1); }), {}};
  plan two = plan_of(1, {0, 1}, 1, 3); // the second round is of one sample, and that is worker 0's
  subject.on(two);
  subject.on(hold_order{.at_version = 1});
  subject.on(arrived(0));
  ASSERT_TRUE(subject.held());
  const lead_effects died = subject.on(worker_down{w(0), {}});
  EXPECT_EQ(count<close>(died), 0u) << "it holds";
  EXPECT_EQ(subject.current(), v(1));
  EXPECT_EQ(only<send_order>(subject.on(fetch_order{})).ver, v(1));
  EXPECT_EQ(only<close>(subject.on(resume_order{})).ver, v(2));
  EXPECT_EQ(subject.current(), v(2));
}

TEST(Lead, WhatFollowsAVersionThatWaitsForTheResumeWaitsToo) {
  lead subject{
      std::make_unique<round_rule>([](const protocol_spec&, std::uint64_t) { return std::make_unique<backup_workers>(1); }), {}};
  subject.on(plan_of(1, {0, 1}, 1, 3));
  subject.on(hold_order{.at_version = 1});
  subject.on(arrived(0));
  subject.on(worker_down{w(0), {}});
  subject.on(worker_down{w(1), {}});
  subject.on(plan_of(2, {2}, 1, 3));
  const lead_effects out = subject.on(resume_order{});
  ASSERT_TRUE(std::holds_alternative<close>(out.front()));
  EXPECT_EQ(only<send_order>(out).ver, v(2));
  EXPECT_EQ(only<send_order>(out).to, (std::vector{w(2)}));
}

TEST(Lead, ResumeSendsNothingToWhoeverDiedAfterAVersionThatWaitedForIt) {
  lead subject{
      std::make_unique<round_rule>([](const protocol_spec&, std::uint64_t) { return std::make_unique<backup_workers>(1); }), {}};
  subject.on(plan_of(1, {0, 1}, 1, 3));
  subject.on(hold_order{.at_version = 1});
  subject.on(arrived(0));
  subject.on(plan_of(2, {0, 1, 2, 3}, 1, 3)); // whom the round after that begins with
  subject.on(worker_down{w(0), {}});
  subject.on(worker_down{w(2), {}});
  EXPECT_EQ(only<close>(subject.on(resume_order{})).send_to, (std::vector{w(3)}));
}

/// Who was to send what it holds at had died as well, so nothing else would end the hold.
TEST(Lead, ThatNobodyHasTheParametersAnyMoreIsSaidWhileItHoldsToo) {
  lead subject{std::make_unique<allreduce_rule>(), {}};
  subject.on(plan_of(1, {0, 1}));
  subject.on(hold_order{.now = true});
  subject.on(arrived(1, 0, 1));
  subject.on(arrived(1, 0, 2));
  subject.on(arrived(0, 0, 1));
  ASSERT_TRUE(subject.held());
  EXPECT_EQ(subject.on(plan_of(2, {1})), lead_effects{}) << "version 2 waits";
  const lead_effects out = subject.on(plan_of(3, {2}));
  EXPECT_EQ(only<report>(out).event, report::kind::lost);
  EXPECT_EQ(out.size(), 1u);
  EXPECT_EQ(subject.current(), v(1));
}

TEST(Lead, RoundThatBeganAnewWhileHeldIsSentAtTheResume) {
  lead subject = sync_lead(1);
  subject.on(hold_order{.now = true});
  subject.on(plan_of(1, {0}));
  subject.on(arrived(0));
  subject.on(worker_down{w(0), {}});
  EXPECT_EQ(subject.on(plan_of(2, {1})), lead_effects{});
  EXPECT_EQ(subject.on(resume_order{}),
            (lead_effects{send_order{.epoch = e(2), .ver = v(1), .key = 2, .to = {w(1)}, .position = 10, .period = 1}}));
}

TEST(Lead, FetchSendsTheNewestVersionToTheEvaluator) {
  lead subject = sync_lead(1);
  subject.on(hold_order{.now = true});
  subject.on(plan_of(1, {0}));
  subject.on(arrived(0));
  EXPECT_EQ(subject.on(fetch_order{}), (lead_effects{send_order{.epoch = e(1), .ver = v(1), .key = 2, .to = {evaluator}}}));
}

/// A rule that applies each push alone and answers its pusher: what a lead must not preclude.
class each_alone final : public rule {
public:
  rule_effects on(const plan&) override { return {}; }
  rule_effects on(const push& msg) override {
    version_ = next(version_);
    return {apply{.sum = {{msg.gradient, 1}},
                  .ver = version_,
                  .epoch = msg.epoch,
                  .workers = 2,
                  .step = {.lr_scale = 0.25},
                  .samples = msg.samples,
                  .compensate = {0.04, true, t(9)}},
            send_params{.to = {msg.id.worker}, .ver = version_, .epoch = msg.epoch, .answers = msg.id.clock},
            send_params{.to = {w(5)}, .ver = version_, .epoch = msg.epoch, .answers = {17}}, retain{t(9)}, arm_timer{{1}, 50}};
  }
  rule_effects on(const worker_down&) override { return {}; }
  rule_effects on(const expired& msg) override { return {release{{msg.timer.value}}}; }
  version current() const override { return version_; }
  std::vector<worker_id> waiting_for() const override { return {}; }
  rule_state state() const override { return added_rule_state{{static_cast<double>(version_.value)}}; }
  void restore(const rule_state& from) override {
    if (const auto* known = std::get_if<added_rule_state>(&from))
      version_ = {static_cast<std::uint64_t>(known->memory.at(0))};
  }

private:
  version version_;
};

TEST(Lead, RuleThatAppliesEachPushAloneIsTranslatedVerbByVerb) {
  lead subject{std::make_unique<each_alone>(), {}, true};
  subject.on(plan_of(1, {0, 1}));
  EXPECT_EQ(subject.on(arrived(1)),
            (lead_effects{close{.epoch = e(1),
                                .ver = v(1),
                                .contributions = {{{w(1), {}, {1}}, 1}},
                                .step = {.lr_scale = 0.25},
                                .workers = 2,
                                .send_to = {w(1)},
                                .send_epoch = e(1),
                                .key = 1,
                                .compensate = {0.04, true, t(9)}},
                          send_order{.epoch = e(1), .ver = v(1), .key = 17, .to = {w(5)}}, retain{t(9)}, arm_timer{{1}, 50}}));
  EXPECT_EQ(subject.on(expired{{3}, 0}), (lead_effects{release{t(3)}}));
}

} // namespace
} // namespace troupe::protocols
