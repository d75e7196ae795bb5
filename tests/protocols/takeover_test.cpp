// SPDX-License-Identifier: BSD-3-Clause
// A coordinator that goes on with a job where another one was lost.
#include "protocols/takeover.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/protocols/making.hpp"

namespace troupe::protocols {
namespace {

using testing::ElementsAre;

const coordinator_options two_workers{
    .workers = 2, .batch = 10, .data_size = 100, .evaluate_every_samples = 100, .stop = {.steps = 50}};

ledger::course course_of(std::vector<member> workers, std::uint32_t epoch = 4) {
  return {.key = 7, .plan = {.epoch = {epoch}, .workers = std::move(workers), .period = 3, .lr_scale = 0.5}};
}
const std::vector<member> both{{{0}, {}}, {{1}, {2}}};
const std::map<worker_id, incarnation> newest{{{0}, {}}, {{1}, {2}}};
const lead_report at_forty{.plans = {course_of(both).plan}, .made = {40}, .samples = 140};

coordinator next_one(const ledger::course& decided, const lead_report& lead, coordinator_options options = two_workers,
                     const std::map<worker_id, incarnation>& incarnations = newest) {
  coordinator out{options, nullptr, taken_over(options, decided, incarnations, lead)};
  out.check();
  return out;
}
template <class Effect>
std::vector<Effect> all_of(const coordinator_effects& effects) {
  std::vector<Effect> out;
  for (const auto& each : effects)
    if (const auto* one = std::get_if<Effect>(&each))
      out.push_back(*one);
  return out;
}

TEST(TakingOver, TheNewestPlanGoesOnUnderTheNextEpoch) {
  auto next = next_one(course_of(both), at_forty);
  const auto plans = all_of<send_plan>(next.take_office(at_forty));
  ASSERT_EQ(plans.size(), 2U);
  EXPECT_EQ(plans[0].plan, course_of(both).plan) << "some may have missed it";
  const auto plan = plans[1].plan;
  EXPECT_EQ(plan.epoch, plan_epoch{5});
  EXPECT_EQ(plan.workers, both);
  EXPECT_EQ(plan.period, 3U) << "a controller's decision stands";
  EXPECT_EQ(plan.lr_scale, 0.5);
  EXPECT_EQ(plan.batch, 10);
  next.check();
}

TEST(TakingOver, PlansUnderWhichSomethingMayBeOnItsWayAreToldAgainInTheirOrder) {
  auto said = at_forty;
  said.plans = {course_of(both, 2).plan, course_of(both, 3).plan};
  auto next = next_one(course_of(both), said);
  std::vector<std::uint32_t> epochs;
  for (const auto& each : all_of<send_plan>(next.take_office(said)))
    epochs.push_back(each.plan.epoch.value);
  EXPECT_THAT(epochs, ElementsAre(2, 3, 4, 5));
  said.plans = {plan{}, course_of(both).plan};
  auto another = next_one(course_of(both), said);
  EXPECT_EQ(all_of<send_plan>(another.take_office(said)).size(), 2U) << "each once";
}

/// The next coordinator may die between two messages.
TEST(TakingOver, ALeadThatHasHeardOfNoPlanHearsItsLimitBeforeTheFirst) {
  auto next = next_one(course_of(both), {});
  const auto effects = next.take_office({});
  ASSERT_TRUE(std::holds_alternative<hold>(effects.front()));
  EXPECT_EQ(std::get<hold>(effects.front()).order.at_version, 50U);
  EXPECT_EQ(all_of<hold>(effects).back(), std::get<hold>(effects.front()))
      << "a new lead hears it once more, behind what it must know";
}

TEST(TakingOver, TheNextEvaluationIsThatAfterWhatTheLeadHasApplied) {
  auto next = next_one(course_of(both), at_forty);
  const auto effects = next.take_office(at_forty);
  EXPECT_EQ(only<hold>(effects).order.at_samples, 200U);
  EXPECT_EQ(only<hold>(effects).order.at_version, 50U);
  EXPECT_EQ(only<resume>(effects).order.held, version{40}) << "which a lead that holds later ignores";
  EXPECT_EQ(all_of<evaluate>(effects).size(), 0U);
}

TEST(TakingOver, AnEvaluationThatWasOpenIsRepeatedAndCountsOnce) {
  auto held = at_forty;
  held.held = true;
  held.samples = 200;
  auto next = next_one(course_of(both), held);
  const auto effects = next.take_office(held);
  EXPECT_EQ(only<evaluate>(effects).ver, version{40});
  EXPECT_EQ(all_of<resume>(effects).size(), 0U);
  EXPECT_TRUE(next.on(protocols::held{{40}, 200, 0}).empty()) << "the lead's report comes late";
  const auto after = next.on(evaluated{.ver = {40}});
  EXPECT_EQ(only<hold>(after).order.at_samples, 300U);
  EXPECT_EQ(all_of<resume>(after).size(), 1U);
  EXPECT_TRUE(next.on(evaluated{.ver = {40}}).empty()) << "what the last coordinator had asked for comes, too";
}

TEST(TakingOver, AnEvaluationThatEndsTheJobEndsIt) {
  auto held = at_forty;
  held.held = true;
  held.made = {50};
  auto next = next_one(course_of(both), held);
  next.take_office(at_forty);
  EXPECT_FALSE(only<stop>(next.on(evaluated{.ver = {50}})).failed);
}

TEST(TakingOver, TimesAreOfTheTrainingSoFar) {
  auto options = two_workers;
  options.evaluate_every_samples = 0;
  options.evaluate_every_ns = 1000;
  options.stop.seconds = 5e-6;
  auto next = next_one(course_of(both), at_forty, options);
  const auto timers = all_of<arm_timer>(next.take_office({.trained = 4300}));
  ASSERT_EQ(timers.size(), 2U);
  EXPECT_EQ(timers[0].delay, 700) << "at multiples of the interval";
  EXPECT_EQ(timers[1].delay, 700) << "to the end";
}

TEST(TakingOver, NoIncarnationThatWasOutTakesPartAgain) {
  const std::map<worker_id, incarnation> incarnations{{{0}, {3}}, {{1}, {2}}};
  auto next = next_one(course_of({{{1}, {2}}}), at_forty, two_workers, incarnations);
  next.take_office(at_forty);
  EXPECT_TRUE(next.on(joined{{{0}, {3}}}).empty());
  EXPECT_TRUE(next.on(joined{{{1}, {1}}}).empty());
  const auto back = next.on(joined{{{0}, {4}}});
  EXPECT_THAT(only<send_plan>(back).plan.workers, ElementsAre(member{{0}, {4}}, member{{1}, {2}}));
  next.check();
}

TEST(TakingOver, TheLeadIsToldOfDeathsThatItMayNotHaveHeardOf) {
  const std::map<worker_id, incarnation> incarnations{{{0}, {}}, {{1}, {2}}};
  auto next = next_one(course_of({{{1}, {2}}}), at_forty, two_workers, incarnations);
  std::vector<member> down;
  for (const auto& each : all_of<send_worker_down>(next.take_office(at_forty)))
    down.push_back({each.notice.worker, each.notice.incarnation});
  EXPECT_THAT(down, ElementsAre(member{{0}, {}}, member{{1}, {}}, member{{1}, {1}}));
}

TEST(TakingOver, BackupsThatActAndThoseThatAreOutStaySo) {
  auto options = two_workers;
  options.shards = 2;
  options.replicas = 3;
  auto decided = course_of(both);
  decided.acting = {{{0}, {2}}};
  decided.gone = {{2}, {3}};
  decided.view = 1;
  auto next = next_one(decided, at_forty, options);
  std::vector<holder_id> told;
  for (const auto& each : all_of<send_new_backup>(next.take_office(at_forty)))
    told.push_back(each.notice.holder);
  EXPECT_THAT(told, ElementsAre(holder_id{4}, holder_id{5})) << "the lead hears of those that are left";
  const auto moved = only<send_takes_over>(next.on(holder_down{{0}, "it died, too"})).notice;
  EXPECT_EQ(std::tuple(moved.shard, moved.by, moved.view), std::tuple(holder_id{0}, holder_id{4}, 2U))
      << "the next backup, in the next view";
}

TEST(TakingOver, WhoeverMissedAPromotionIsToldOfAllThatAreLeft) {
  ledger::course decided;
  decided.acting = {{{0}, {2}}};
  decided.gone = {{2}, {3}};
  decided.view = 1;
  const auto missed = promotions({.workers = 2, .shards = 2, .replicas = 3}, decided);
  EXPECT_THAT(missed, ElementsAre(takes_over{{0}, {2}, 1, {holder_id{4}}, {{0}, {1}, {4}, {5}}}));
}

TEST(TakingOver, BackupsThatCameLaterCountOnceTheyAreWhole) {
  auto options = two_workers;
  options.shards = 2;
  options.replicas = 2; // 2 and 3 are the first backups
  auto decided = course_of(both);
  decided.gone = {{2}, {3}};
  decided.acting = {{{1}, {5}}};
  decided.copies = {{{4}, {{0}, 1, true}}, {{5}, {{1}, 1, true}}, {{7}, {{1}, 2, false}}};
  decided.first_copy = {4};
  decided.newest_copy = {7};
  auto next = next_one(decided, at_forty, options);
  std::vector<new_backup> told;
  for (const auto& each : all_of<send_new_backup>(next.take_office(at_forty)))
    told.push_back(each.notice);
  EXPECT_THAT(told, ElementsAre(new_backup{{4}, {0}}, new_backup{{7}, {1}})) << "5 is a shard now";
  auto another = next_one(decided, at_forty, options);
  EXPECT_TRUE(only<stop>(another.on(holder_down{{1}, "it died"})).failed) << "its copy is not whole";
  EXPECT_EQ(only<send_takes_over>(next.on(holder_down{{0}, "it died"})).notice.by, holder_id{4});
  next.on(caught_up{{7}});
  EXPECT_EQ(only<send_takes_over>(next.on(holder_down{{1}, "it died, too"})).notice.by, holder_id{7});
  EXPECT_THAT(promotions({.workers = 2, .shards = 2, .replicas = 2}, decided),
              ElementsAre(takes_over{{1}, {5}, 0, {holder_id{7}}, {{0}, {1}, {4}, {7}}}));
}

TEST(TakingOver, AnAggregatorThatIsGoneStaysOut) {
  auto options = two_workers;
  options.workers = 4;
  auto decided = course_of({{{2}, {}}, {{3}, {}}});
  decided.plan.protocol.fan_in = 2;
  decided.plan.gone = {{1}};
  auto next = next_one(decided, at_forty, options, {{{0}, {}}, {{1}, {}}, {{2}, {}}, {{3}, {}}});
  for (const auto& each : all_of<send_plan>(next.take_office(at_forty)))
    EXPECT_THAT(each.plan.gone, ElementsAre(holder_id{1}));
  EXPECT_TRUE(next.on(holder_down{{1}, "it died"}).empty());
}

TEST(TakingOver, APlanThatComesAgainForgetsNoCounts) {
  reported_steps subject;
  const auto plan_of = [](std::uint32_t epoch, std::vector<member> workers) {
    return plan{.epoch = {epoch}, .workers = std::move(workers)};
  };
  subject.on(plan_of(1, {{{0}, {}}}));
  subject.on(plan_of(2, {{{0}, {}}, {{1}, {}}}));
  report closed{.event = report::kind::round_closed};
  closed.timings = {{{1}, 0, 0, 5}};
  subject.on(closed);
  subject.on(plan_of(1, {{{0}, {}}}));
  subject.on(plan_of(2, {{{0}, {}}, {{1}, {}}}));
  EXPECT_EQ(subject.counted().at({1}).samples, 5U);
}

TEST(TakingOver, StepsThatTheLeadHasCountedAreNotCountedAgain) {
  auto options = two_workers;
  options.decentralized = true;
  auto said = at_forty;
  said.counted = {{{0}, {20, 100}}};
  auto next = next_one(course_of(both), said, options);
  next.take_office(at_forty);
  EXPECT_EQ(next.unheard({{both[0], {23, 130}}}), (step_count{3, 30}));
}

TEST(TakingOver, BeforeTheFirstPlanThereIsNothingToTakeOver) {
  coordinator next{two_workers, nullptr, taken_over(two_workers, {}, {}, {})};
  EXPECT_TRUE(next.take_office(at_forty).empty());
}

TEST(ReportedSteps, AreOfEachWorkersNewestIncarnation) {
  reported_steps steps;
  const auto round = [](std::uint32_t worker, std::int64_t samples) {
    return report{.event = report::kind::round_closed, .timings = {{.worker = {worker}, .samples = samples}}};
  };
  steps.on(plan{.epoch = {1}, .workers = {{{0}, {}}, {{1}, {}}}});
  steps.on(round(0, 10));
  steps.on(round(0, 5));
  steps.on(round(1, 7));
  steps.on(report{.event = report::kind::held, .timings = {{.worker = {0}, .samples = 1}}});
  EXPECT_EQ(steps.counted(), (std::map<worker_id, step_count>{{{0}, {2, 15}}, {{1}, {1, 7}}}));
  steps.on(plan{.epoch = {2}, .workers = {{{0}, {1}}}});
  EXPECT_EQ(steps.counted(), (std::map<worker_id, step_count>{{{1}, {1, 7}}})) << "another one counts anew";
  steps.on(plan{.epoch = {3}, .workers = {{{0}, {1}}, {{1}, {1}}}});
  EXPECT_TRUE(steps.counted().empty());
}

} // namespace
} // namespace troupe::protocols
