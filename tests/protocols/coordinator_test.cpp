// SPDX-License-Identifier: BSD-3-Clause
// The coordinator: membership, evaluation points, the end of a job.
#include "protocols/coordinator.hpp"

#include <cmath>

#include <gtest/gtest.h>

#include "tests/protocols/started.hpp"

namespace troupe::protocols {
namespace {

/// Two workers of batch 10, an epoch of 100 samples, an evaluation each epoch, 3 epochs.
coordinator_options two_workers() {
  return {.workers = 2, .batch = 10, .data_size = 100, .stop = {.epochs = 3}};
}

down lost(std::uint32_t worker, std::uint32_t incarnation = 0) {
  return {{w(worker), {incarnation}}, "its node was lost"};
}

coordinator_effects round_trip(coordinator& subject, std::uint64_t ver, std::uint64_t samples, double accuracy = 0) {
  EXPECT_EQ(subject.on(held{.ver = v(ver), .samples = samples}), (coordinator_effects{evaluate{v(ver)}}));
  return subject.on(evaluated{.ver = v(ver), .test_accuracy = accuracy});
}

TEST(Coordinator, FirstPlanWaitsForAllWorkersAndTheHoldGoesBeforeIt) {
  coordinator_options options = two_workers();
  options.period = 4;
  options.protocol.fan_in = 2;
  coordinator subject{options};
  EXPECT_EQ(subject.on(join(1)), coordinator_effects{});
  EXPECT_FALSE(subject.started());
  plan first = plan_of(1, {0, 1}, 10, 100);
  first.period = 4;
  first.protocol.fan_in = 2;
  EXPECT_EQ(subject.on(join(0)), (coordinator_effects{hold{{.at_samples = 100}}, send_plan{first}}));
  EXPECT_TRUE(subject.started());
  EXPECT_EQ(subject.current(), first);
}

TEST(Coordinator, RepeatedJoinIsNothing) {
  coordinator subject{two_workers()};
  subject.on(join(0));
  EXPECT_EQ(subject.on(join(0)), coordinator_effects{});
  subject.on(join(1));
  EXPECT_EQ(subject.on(join(1)), coordinator_effects{});
}

TEST(Coordinator, LaterJoinMakesTheNextPlan) {
  coordinator subject = started(two_workers());
  EXPECT_EQ(subject.on(join(2)), (coordinator_effects{send_plan{plan_of(2, {0, 1, 2}, 10, 100)}}));
}

TEST(Coordinator, WhatAPersonChangesComesWithTheNextPlanAndStays) {
  coordinator subject{two_workers()};
  EXPECT_EQ(subject.on(decision{.period = 5}), coordinator_effects{}) << "nothing runs yet";
  subject.on(join(0));
  subject.on(join(1));
  plan next = plan_of(2, {0, 1}, 10, 100);
  next.period = 5;
  next.lr_scale = 0.25;
  EXPECT_EQ(subject.on(decision{.period = 5, .lr_scale = 0.25, .why = "so"}), (coordinator_effects{say{"so"}, send_plan{next}}));
  next.epoch = e(3);
  next.lr_scale = 2;
  EXPECT_EQ(subject.on(decision{.lr_scale = 2, .why = "else"}), (coordinator_effects{say{"else"}, send_plan{next}}))
      << "the period stays";
  EXPECT_EQ(only<send_plan>(subject.on(join(2))).plan.lr_scale, 2);
}

TEST(Coordinator, DeathTellsTheRulesThenMakesTheNextPlan) {
  coordinator subject = started(two_workers());
  EXPECT_EQ(subject.on(lost(0)), (coordinator_effects{send_worker_down{{w(0), {}}}, send_plan{plan_of(2, {1}, 10, 100)}}));
  EXPECT_EQ(subject.on(lost(0)), coordinator_effects{}) << "twice";
}

TEST(Coordinator, DeathOfAnOldLifeIsNothing) {
  coordinator subject = started(two_workers());
  subject.on(join(0, 2));
  EXPECT_EQ(subject.on(lost(0, 1)), coordinator_effects{});
  EXPECT_EQ(subject.on(lost(7)), coordinator_effects{});
}

TEST(Coordinator, DeathOfALaterLifeEndsTheOneThatIsThere) {
  coordinator subject = started(two_workers());
  EXPECT_EQ(subject.on(lost(0, 1)), (coordinator_effects{send_worker_down{{w(0), {}}}, send_plan{plan_of(2, {1}, 10, 100)}}));
  EXPECT_EQ(subject.on(join(0, 1)), coordinator_effects{}) << "it is dead";
}

TEST(Coordinator, WorkerComesBackWithANewLifeOnly) {
  coordinator subject = started(two_workers());
  subject.on(lost(0));
  EXPECT_EQ(subject.on(join(0)), coordinator_effects{}) << "it is dead";
  plan back = plan_of(3, {0, 1}, 10, 100);
  back.workers[0].incarnation = {1};
  EXPECT_EQ(subject.on(join(0, 1)), (coordinator_effects{send_plan{back}}));
}

TEST(Coordinator, JoinOfANewerLifeEndsTheOlderOne) {
  coordinator subject = started(two_workers());
  const coordinator_effects out = subject.on(join(0, 1));
  ASSERT_EQ(out.size(), 2u);
  EXPECT_EQ(out[0], (coordinator_effect{send_worker_down{{w(0), {}}}}));
  EXPECT_EQ(only<send_plan>(out).plan.workers, (std::vector<member>{{w(0), {1}}, {w(1), {}}}));
}

TEST(Coordinator, JobWithoutWorkersFailsAndNamesThem) {
  coordinator subject = started(two_workers());
  subject.on(lost(1));
  const coordinator_effects out = subject.on(down{{w(0), {}}, "killed"});
  EXPECT_EQ(only<stop>(out), (stop{true, "no workers are left: worker 1 (its node was lost), worker 0 (killed)"}));
  EXPECT_EQ(count<send_plan>(out), 0u);
  EXPECT_TRUE(subject.stopped());
}

TEST(Coordinator, DeathBeforeTheFirstPlanFailsTheJob) {
  coordinator subject{two_workers()};
  subject.on(join(0));
  EXPECT_EQ(subject.on(lost(1)), (coordinator_effects{stop{true, "worker 1 was lost before the job began: its node was lost"}}));
}

TEST(Coordinator, ShardLostFailsTheJob) {
  coordinator_options options = two_workers();
  options.shards = 3;
  coordinator subject = started(options);
  EXPECT_EQ(subject.on(holder_down{h(2), "killed"}),
            (coordinator_effects{stop{true, "shard 2 was lost, and the parameters that it held with it: killed"}}));
}

TEST(Coordinator, AnAggregatorThatIsLostIsGoneInTheNextPlanAndNoWorkerIsLostWithIt) {
  coordinator_options options = two_workers();
  options.workers = 4;
  options.protocol.fan_in = 2;
  coordinator subject = started(options);
  // Holder 0 is the shard, 1 takes workers 0 and 1, 2 takes 2 and 3.
  plan rest = plan_of(2, {0, 1, 2, 3}, 10, 100);
  rest.protocol.fan_in = 2;
  rest.gone = {h(2)};
  rest.rooted = e(2);
  EXPECT_EQ(subject.on(holder_down{h(2), "killed"}), (coordinator_effects{send_plan{rest}}));
  EXPECT_EQ(subject.on(holder_down{h(2), "killed"}), coordinator_effects{}) << "twice is once";
  subject.on(lost(3));
  rest.epoch = e(4);
  rest.workers.back().incarnation = {1};
  EXPECT_EQ(only<send_plan>(subject.on(join(3, 1))).plan, rest) << "its places are those of plan 2";
  rest.epoch = e(5);
  rest.workers.push_back(member{w(4), {}});
  EXPECT_EQ(only<send_plan>(subject.on(join(4))).plan, rest) << "one that comes later";
}

TEST(Coordinator, WithoutAnyAggregatorLeftTheJobGoesOn) {
  coordinator_options options = two_workers();
  options.workers = 4;
  options.protocol.fan_in = 2;
  coordinator subject = started(options);
  subject.on(holder_down{h(2), "killed"});
  const plan rest = only<send_plan>(subject.on(holder_down{h(1), "killed"})).plan;
  EXPECT_EQ(rest.gone, (std::set{h(1), h(2)}));
  EXPECT_EQ(rest.rooted, e(3));
}

TEST(Coordinator, AggregatorLostBeforeTheFirstPlanFailsTheJob) {
  coordinator_options options = two_workers();
  options.workers = 4;
  options.protocol.fan_in = 2;
  coordinator subject{options};
  EXPECT_TRUE(only<stop>(subject.on(holder_down{h(1), "killed"})).failed);
}

TEST(Coordinator, WhereThereIsNoCentreADeathMakesItEvaluateAnew) {
  coordinator_options options = two_workers();
  options.decentralized = true;
  coordinator subject = started(options);
  EXPECT_EQ(count<evaluate>(subject.on(down{{w(0), {}}, "killed"})), 0U) << "nothing is being evaluated";
  subject = started(options);
  subject.on(held{.ver = v(5), .samples = 100});
  const coordinator_effects out = subject.on(down{{w(0), {}}, "killed"});
  EXPECT_EQ(only<evaluate>(out).ver, v(5));
  EXPECT_TRUE(std::holds_alternative<send_plan>(out[1]) && std::holds_alternative<evaluate>(out[2]))
      << "the plan without it first";
  subject = started(two_workers());
  subject.on(held{.ver = v(5), .samples = 100});
  EXPECT_EQ(count<evaluate>(subject.on(down{{w(0), {}}, "killed"})), 0U) << "the shards hold it";
}

TEST(Coordinator, WhereThereIsNoCentreTheLastEvaluationNeedsAWorker) {
  coordinator_options options = two_workers();
  options.decentralized = true;
  coordinator subject = started(options);
  subject.on(held{.ver = v(15), .samples = 300});
  subject.on(down{{w(0), {}}, "killed"});
  EXPECT_TRUE(only<stop>(subject.on(down{{w(1), {}}, "killed"})).failed);
}

TEST(Coordinator, HeldMeansEvaluateThenTheNextLimitThenResume) {
  coordinator_options options = two_workers();
  options.stop.epochs = 9;
  coordinator subject = started(options);
  EXPECT_EQ(round_trip(subject, 5, 100), (coordinator_effects{hold{{.at_samples = 200}}, resume{{v(5)}}}));
  // What overshoots does not move the points that follow.
  EXPECT_EQ(round_trip(subject, 11, 215), (coordinator_effects{hold{{.at_samples = 300}}, resume{{v(11)}}}));
}

TEST(Coordinator, HeldTwiceOrEvaluatedUnaskedIsNothing) {
  coordinator subject = started(two_workers());
  EXPECT_EQ(subject.on(evaluated{.ver = v(0), .test_accuracy = 1}), coordinator_effects{});
  subject.on(held{.ver = v(5), .samples = 100});
  EXPECT_EQ(subject.on(held{.ver = v(5), .samples = 100}), coordinator_effects{});
  EXPECT_EQ(subject.on(evaluated{.ver = v(4)}), coordinator_effects{}) << "of another version";
  EXPECT_EQ(count<resume>(subject.on(evaluated{.ver = v(5)})), 1u);
}

/// The lead may go on for the last coordinator.
TEST(Coordinator, HeldLaterThanWhatIsEvaluatedIsEvaluatedInstead) {
  coordinator subject = started(two_workers());
  subject.on(held{.ver = v(5), .samples = 100});
  EXPECT_EQ(subject.on(held{.ver = v(6), .samples = 120}), (coordinator_effects{evaluate{v(6)}}));
  EXPECT_EQ(subject.on(held{.ver = v(5), .samples = 100}), coordinator_effects{}) << "it came late";
  EXPECT_EQ(subject.on(evaluated{.ver = v(5)}), coordinator_effects{});
  EXPECT_EQ(only<resume>(subject.on(evaluated{.ver = v(6)})).order.held, v(6));
  EXPECT_EQ(subject.held_samples(), 120U);

  coordinator_options options = two_workers();
  options.decentralized = true;
  subject = started(options);
  subject.on(held{.ver = v(5), .samples = 100});
  EXPECT_EQ(subject.on(held{.ver = v(6), .samples = 120}), coordinator_effects{}) << "the evaluation says what was made since";
}

/// Likewise, and it does not hold there.
TEST(Coordinator, EvaluatedLaterThanWhatWasHeldTheJobGoesOn) {
  coordinator_options options = two_workers();
  options.stop.target_accuracy = 0.5;
  coordinator subject = started(options);
  subject.on(held{.ver = v(5), .samples = 100});
  EXPECT_EQ(subject.on(evaluated{.ver = v(6), .test_accuracy = 1}),
            (coordinator_effects{hold{{.at_samples = 200}}, resume{{v(6)}}}));
  EXPECT_EQ(subject.held_version(), v(5));
  EXPECT_FALSE(subject.target_reached()) << "of how many samples it is nobody has said";

  options.decentralized = true;
  subject = started(options);
  subject.on(held{.ver = v(5), .samples = 100});
  EXPECT_EQ(subject.on(evaluated{.ver = v(6)}), coordinator_effects{});
}

TEST(Coordinator, WhereThereIsNoCentreFinishedStepsCountThatTheLeadHasNotHeardOf) {
  coordinator_options options = two_workers();
  options.decentralized = true;
  coordinator subject = started(options);
  const auto counted = [&](std::uint32_t worker) {
    subject.on(
        report{.event = report::kind::round_closed, .contributions = 1, .timings = {{.worker = w(worker), .samples = 10}}});
  };
  for (int i = 0; i < 5; ++i)
    counted(0), counted(1);
  subject.on(held{.ver = v(10), .samples = 100});
  const evaluated found{.ver = v(10), .made = {{{w(0), {}}, {7, 70}}, {{w(1), {}}, {5, 50}}, {{w(1), {1}}, {9, 90}}}};
  EXPECT_EQ(subject.on(found), (coordinator_effects{hold{{.at_samples = 200}}, resume{{v(10)}}}));
  EXPECT_EQ(subject.held_version(), v(12)) << "two of worker 0; worker 1 has no second incarnation";
  EXPECT_EQ(subject.held_samples(), 120U);
}

TEST(Coordinator, JobEndsWithTheEvaluationAtItsLastEpoch) {
  coordinator subject = started(two_workers());
  round_trip(subject, 5, 100);
  round_trip(subject, 10, 200);
  EXPECT_EQ(round_trip(subject, 15, 300), (coordinator_effects{stop{false, "trained for 3 epochs"}}));
  EXPECT_TRUE(subject.stopped());
  EXPECT_FALSE(subject.target_reached());
}

TEST(Coordinator, StopBetweenTwoEvaluationsIsHeldForToo) {
  coordinator_options options = two_workers();
  options.stop.epochs = 1.25;
  coordinator subject = started(options);
  EXPECT_EQ(only<hold>(round_trip(subject, 5, 100)).order.at_samples, 125u);
  EXPECT_EQ(only<stop>(round_trip(subject, 7, 140)).reason, "trained for 1.25 epochs");
}

TEST(Coordinator, OneEpochIsSaidInTheSingular) {
  coordinator_options options = two_workers();
  options.stop.epochs = 1;
  coordinator subject = started(options);
  EXPECT_EQ(only<stop>(round_trip(subject, 5, 100)).reason, "trained for 1 epoch");
}

TEST(Coordinator, PartOfASampleIsAWholeOne) {
  coordinator_options options = two_workers();
  options.stop.epochs = 0.101;
  coordinator subject{options};
  subject.on(join(0));
  EXPECT_EQ(only<hold>(subject.on(join(1))).order.at_samples, 11u);
}

TEST(Coordinator, FewestOfEpochsAndSamplesEndTheJob) {
  coordinator_options options = two_workers();
  options.stop.samples = 50;
  coordinator subject{options};
  subject.on(join(0));
  EXPECT_EQ(only<hold>(subject.on(join(1))).order.at_samples, 50u);
  EXPECT_EQ(only<stop>(round_trip(subject, 3, 60)).reason, "used 50 samples");

  options.stop.samples = 500;
  options.evaluate_every_samples = 1000;
  coordinator epochs{options};
  epochs.on(join(0));
  EXPECT_EQ(only<hold>(epochs.on(join(1))).order.at_samples, 300u);
}

TEST(Coordinator, StepsEndTheJobAtTheirVersion) {
  coordinator_options options = two_workers();
  options.stop.epochs = 0;
  options.stop.steps = 7;
  coordinator subject{options};
  subject.on(join(0));
  EXPECT_EQ(only<hold>(subject.on(join(1))).order, (hold_order{.at_samples = 100, .at_version = 7}));
  EXPECT_EQ(only<hold>(round_trip(subject, 5, 100)).order, (hold_order{.at_samples = 200, .at_version = 7}));
  EXPECT_EQ(round_trip(subject, 7, 140), (coordinator_effects{stop{false, "made 7 steps"}}));
}

TEST(Coordinator, WhereTheJobMayEndTheVersionIsForACheckpoint) {
  using saves = hold_order::saves;
  const auto first_hold = [](auto change) {
    coordinator_options options = two_workers(); // evaluated each 100 samples, ends at 300
    options.checkpoint_at_end = true;
    change(options);
    coordinator subject{options};
    subject.on(join(0));
    return only<hold>(subject.on(join(1))).order;
  };
  EXPECT_EQ(first_hold([](auto&) {}).checkpoint, saves::at_version) << "no steps are set: never";
  EXPECT_EQ(first_hold([](auto& options) { options.evaluate_every_samples = 300; }).checkpoint, saves::always);
  EXPECT_EQ(first_hold([](auto& options) { options.evaluate_every_samples = 400; }).checkpoint, saves::always);
  EXPECT_EQ(first_hold([](auto& options) { options.stop.target_accuracy = 0.9; }).checkpoint, saves::always);
  EXPECT_EQ(first_hold([](auto& options) { options.checkpoint_at_end = false; }).checkpoint, saves::never);
}

TEST(Coordinator, GoesOnFromACheckpointAsIfItHadBeenThere) {
  coordinator_options options = two_workers();
  options.stop.seconds = 2e-6;
  options.evaluate_every_ns = 600;
  options.from = {.ver = v(12), .samples = 250, .trained = 1500};
  coordinator subject{options};
  EXPECT_EQ(subject.held_version(), v(12));
  subject.on(join(0));
  const coordinator_effects out = subject.on(join(1));
  EXPECT_EQ(only<hold>(out).order.at_samples, 300u);
  std::map<timer_id, nanoseconds> timers;
  for (const auto& effect : out)
    if (const auto* timer = std::get_if<arm_timer>(&effect))
      timers[timer->timer] = timer->delay;
  EXPECT_EQ(timers, (std::map<timer_id, nanoseconds>{{timer_id{1}, 300}, {timer_id{2}, 500}}));
}

TEST(Coordinator, TargetEndsTheJobWhenAnEvaluationReachesIt) {
  coordinator_options options = two_workers();
  options.stop.target_accuracy = 0.97;
  coordinator subject = started(options);
  EXPECT_EQ(count<resume>(round_trip(subject, 5, 100, 0.96)), 1u);
  EXPECT_EQ(round_trip(subject, 10, 200, 0.97), (coordinator_effects{stop{false, "reached an accuracy of 0.97"}}));
  EXPECT_TRUE(subject.target_reached());
}

/// Holds at a version and evaluates it.
coordinator_effects evaluated_with(coordinator& subject, std::uint64_t ver, double test_loss,
                                   std::optional<double> validation_loss = {}) {
  subject.on(held{.ver = v(ver), .samples = ver * 10});
  return subject.on(evaluated{.ver = v(ver), .test_loss = test_loss, .validation_loss = validation_loss});
}

TEST(Coordinator, PatienceEndsTheJobAfterSoManyEvaluationsWithoutALowerLoss) {
  coordinator_options options = two_workers();
  options.stop.patience = 2;
  coordinator subject = started(options);
  EXPECT_EQ(count<resume>(evaluated_with(subject, 1, 0.5)), 1u);
  EXPECT_TRUE(subject.is_at_best());
  EXPECT_EQ(count<resume>(evaluated_with(subject, 2, 0.5)), 1u) << "as low is not lower";
  EXPECT_FALSE(subject.is_at_best());
  EXPECT_EQ(count<resume>(evaluated_with(subject, 3, 0.4)), 1u);
  EXPECT_EQ(count<resume>(evaluated_with(subject, 4, std::nan(""))), 1u);
  EXPECT_EQ(evaluated_with(subject, 5, 0.6),
            (coordinator_effects{stop{false, "no lower loss than 0.4, of step 3, in 2 evaluations"}}));
}

TEST(Coordinator, PatienceGoesByWhatIsHeldOutIfAnythingIs) {
  coordinator_options options = two_workers();
  options.stop.patience = 1;
  coordinator subject = started(options);
  EXPECT_EQ(count<resume>(evaluated_with(subject, 1, 0.5, 0.5)), 1u);
  EXPECT_EQ(count<resume>(evaluated_with(subject, 2, 0.6, 0.4)), 1u);
  EXPECT_EQ(count<stop>(evaluated_with(subject, 3, 0.1, 0.4)), 1u);
}

TEST(Coordinator, AnEvaluationThatTheLastCoordinatorHeardOfCountsOnce) {
  coordinator_options options = two_workers();
  options.stop.patience = 2;
  coordinator subject = started(options);
  EXPECT_TRUE(subject.recall({.ver = v(1), .test_loss = 0.5}));
  EXPECT_FALSE(subject.recall({.ver = v(2), .test_loss = 0.7}));
  EXPECT_EQ(count<resume>(evaluated_with(subject, 2, 0.7)), 1u);
  EXPECT_EQ(count<stop>(evaluated_with(subject, 3, 0.7)), 1u);
}

TEST(Coordinator, WherePatienceMayEndTheJobAVersionIsSaved) {
  coordinator_options options = two_workers();
  options.stop.patience = 2;
  options.evaluate_every_samples = 10;
  options.checkpoint_at_end = true;
  coordinator subject = started(options);
  using saves = hold_order::saves;
  EXPECT_EQ(only<hold>(evaluated_with(subject, 1, 0.5)).order.checkpoint, saves::at_version);
  EXPECT_EQ(only<hold>(evaluated_with(subject, 2, 0.5)).order.checkpoint, saves::always);
}

TEST(Coordinator, EvaluationByTimeHoldsNowAndArmsAgainAfterwards) {
  coordinator_options options = two_workers();
  options.evaluate_every_ns = 500;
  coordinator subject{options};
  subject.on(join(0));
  const coordinator_effects first = subject.on(join(1));
  const arm_timer timer = only<arm_timer>(first);
  EXPECT_EQ(timer.delay, 500);
  EXPECT_EQ(only<hold>(first).order, (hold_order{.at_samples = 300})) << "the stop; no evaluation by samples";
  EXPECT_EQ(subject.on(expired{timer.timer, 500}), (coordinator_effects{hold{{.at_samples = 300, .now = true}}}));
  EXPECT_EQ(round_trip(subject, 2, 40), (coordinator_effects{hold{{.at_samples = 300}}, resume{{v(2)}}, timer}));
}

TEST(Coordinator, EvaluationBySamplesAndByTimeBothApply) {
  coordinator_options options = two_workers();
  options.evaluate_every_ns = 500;
  options.evaluate_every_samples = 30;
  coordinator subject{options};
  subject.on(join(0));
  EXPECT_EQ(only<hold>(subject.on(join(1))).order.at_samples, 30u);
}

TEST(Coordinator, TimeIsUpHoldsNowAndEndsWithAnEvaluation) {
  coordinator_options options = two_workers();
  options.stop.epochs = 0;
  options.stop.seconds = 9;
  coordinator subject{options};
  subject.on(join(0));
  const arm_timer timer = only<arm_timer>(subject.on(join(1)));
  EXPECT_EQ(timer.delay, 9'000'000'000);
  EXPECT_EQ(subject.on(expired{timer.timer, 9'000'000'000}), (coordinator_effects{hold{{.at_samples = 100, .now = true}}}));
  EXPECT_EQ(round_trip(subject, 2, 40), (coordinator_effects{stop{false, "trained for 9 s"}}));
}

TEST(Coordinator, TimeThatIsUpDuringAnEvaluationEndsTheJobWithIt) {
  coordinator_options options = two_workers();
  options.stop.seconds = 1e-6;
  coordinator subject{options};
  subject.on(join(0));
  const arm_timer timer = only<arm_timer>(subject.on(join(1)));
  subject.on(held{.ver = v(5), .samples = 100});
  EXPECT_EQ(subject.on(expired{timer.timer, 1000}), coordinator_effects{});
  EXPECT_FALSE(only<stop>(subject.on(evaluated{.ver = v(5)})).failed);
  EXPECT_TRUE(subject.stopped());
}

TEST(Coordinator, UnknownTimerIsNothing) {
  coordinator subject = started(two_workers());
  EXPECT_EQ(subject.on(expired{{77}, 0}), coordinator_effects{});
}

TEST(Coordinator, DeathDuringAnEvaluationMakesAPlanAndTheEvaluationGoesOn) {
  coordinator subject = started(two_workers());
  subject.on(held{.ver = v(5), .samples = 100});
  EXPECT_EQ(count<send_plan>(subject.on(lost(0))), 1u);
  EXPECT_EQ(count<resume>(subject.on(evaluated{.ver = v(5)})), 1u);
}

TEST(Coordinator, LastEvaluationNeedsNoWorkers) {
  coordinator subject = started(two_workers());
  subject.on(held{.ver = v(15), .samples = 300});
  subject.on(lost(0));
  EXPECT_EQ(count<stop>(subject.on(lost(1))), 0u);
  EXPECT_EQ(only<stop>(subject.on(evaluated{.ver = v(15)})), (stop{false, "trained for 3 epochs"}));
}

TEST(Coordinator, AnyOtherEvaluationDoes) {
  coordinator subject = started(two_workers());
  subject.on(held{.ver = v(5), .samples = 100});
  subject.on(lost(0));
  EXPECT_TRUE(only<stop>(subject.on(lost(1))).failed);
}

TEST(Coordinator, RoundsWithoutAUsableGradientEndTheJob) {
  coordinator_options options = two_workers();
  options.max_rounds_without_update = 3;
  coordinator subject = started(options);
  const report barren{.event = report::kind::round_closed, .contributions = 0};
  const report fruitful{.event = report::kind::round_closed, .contributions = 1};
  const report other{.event = report::kind::push_not_finite};
  subject.on(barren);
  subject.on(barren);
  EXPECT_EQ(subject.on(fruitful), coordinator_effects{});
  subject.on(barren);
  EXPECT_EQ(subject.on(other), coordinator_effects{});
  EXPECT_EQ(subject.on(barren), coordinator_effects{});
  EXPECT_TRUE(only<stop>(subject.on(barren)).failed);
}

TEST(Coordinator, AfterTheEndEverythingIsNothing) {
  coordinator subject = started(two_workers());
  subject.on(lost(0));
  subject.on(lost(1));
  ASSERT_TRUE(subject.stopped());
  EXPECT_EQ(subject.on(join(5)), coordinator_effects{});
  EXPECT_EQ(subject.on(lost(5)), coordinator_effects{});
  EXPECT_EQ(subject.on(holder_down{}), coordinator_effects{});
  EXPECT_EQ(subject.on(held{}), coordinator_effects{});
  EXPECT_EQ(subject.on(evaluated{}), coordinator_effects{});
  EXPECT_EQ(subject.on(expired{{2}, 0}), coordinator_effects{});
  EXPECT_EQ(subject.on(report{.event = report::kind::round_closed}), coordinator_effects{});
}

} // namespace
} // namespace troupe::protocols
