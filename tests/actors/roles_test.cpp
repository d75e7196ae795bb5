// SPDX-License-Identifier: BSD-3-Clause
// The coordinator among nodes that are scripts.
#include "tests/actors/scripted_nodes.hpp"

namespace troupe::actors {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

TEST_F(Coordinator, AJobBeginsWhenEveryNodeIsReady) {
  scripts[2]->silent = true;
  begin();
  EXPECT_FALSE(scripts[0]->places) << "node-2 is not prepared";
  EXPECT_FALSE(seen->started);
}

TEST_F(Coordinator, EveryNodeLearnsWhoItIsAndWhoLivesWhere) {
  begin();
  for (std::uint32_t i = 0; i < 3; ++i) {
    ASSERT_TRUE(scripts[i]->job && scripts[i]->places);
    EXPECT_EQ(scripts[i]->job->self, i);
    EXPECT_EQ(scripts[i]->job->job_key, 77U);
    EXPECT_EQ(scripts[i]->places->nodes[2].lane_port, 7002);
    EXPECT_EQ(scripts[i]->places->workers[3], (role_place{3, 2}));
  }
  EXPECT_TRUE(seen->started);
  EXPECT_THAT(told<protocols::plan>(), ElementsAre(1, 1, 1));
  EXPECT_THAT(planned_workers(2), ElementsAre(0, 1, 2, 3));
}

TEST_F(Coordinator, TheLeadKnowsWhereToHoldBeforeThePlanMakesWorkersRun) {
  job.evaluate.every_samples = 40;
  begin();
  EXPECT_THAT(told<protocols::hold_order>(), ElementsAre(1, 0, 0));
  const auto* first = std::get_if<protocols::hold_order>(&scripts[0]->heard.front());
  ASSERT_NE(first, nullptr);
  EXPECT_EQ(first->at_samples, 40U);
}

TEST_F(Coordinator, ANodeThatCannotPrepareFailsTheRunWithItsReason) {
  scripts[1]->cannot_prepare = "no such file: mnist.gz";
  begin();
  EXPECT_EQ(seen->ends, 1);
  EXPECT_TRUE(seen->result.failed);
  EXPECT_THAT(seen->result.reason, HasSubstr("node-1"));
  EXPECT_THAT(seen->result.reason, HasSubstr("no such file: mnist.gz"));
  EXPECT_THAT(told<stop_job>(), ElementsAre(1, 1, 1));
  EXPECT_FALSE(seen->started);
}

TEST_F(Coordinator, SeveralNodesThatCannotPrepareFailTheRunOnce) {
  for (auto& each : scripts)
    each->cannot_prepare = "out of memory";
  begin();
  EXPECT_EQ(seen->ends, 1);
  EXPECT_TRUE(seen->result.failed);
}

TEST_F(Coordinator, ANodeThatCannotStartFailsTheRunWithItsReason) {
  scripts[2]->cannot_start = "no lane to node 0: refused";
  begin();
  EXPECT_TRUE(seen->result.failed);
  EXPECT_THAT(seen->result.reason, HasSubstr("node-2"));
  EXPECT_THAT(seen->result.reason, HasSubstr("no lane to node 0: refused"));
  EXPECT_THAT(told<protocols::plan>(), ElementsAre(0, 0, 0));
}

file_probe table_of(const std::string& digest) {
  return {.path = "data/train.csv", .bytes = 7, .sha256 = digest};
}

TEST_F(Coordinator, ANodeWhoseDataDiffersFromTheFirstOnesFailsTheRunBeforeItStarts) {
  for (auto& each : scripts)
    each->files = {table_of("00112233aa")};
  scripts[2]->files = {table_of("99112233aa")};
  begin();
  EXPECT_EQ(seen->ends, 1);
  EXPECT_TRUE(seen->result.failed);
  EXPECT_EQ(seen->result.reason,
            "node node-2: data/train.csv differs from node node-0's (7 bytes, SHA-256 99112233..., there 7 bytes, 00112233...); "
            "copy one of them to all nodes");
  EXPECT_FALSE(seen->result.lost_before_start) << "it would fail again";
  EXPECT_FALSE(scripts[1]->places) << "nobody has started";
  EXPECT_THAT(told<stop_job>(), ElementsAre(1, 1, 1));
}

TEST_F(Coordinator, NodesWhoseDataAreTheSameStart) {
  for (auto& each : scripts)
    each->files = {table_of("00112233aa")};
  scripts[1]->files[0].path = "data/train.csv.gz"; // the same, packed: nobody knows
  begin();
  EXPECT_EQ(seen->ends, 0);
  EXPECT_TRUE(scripts[1]->places);
}

TEST_F(Coordinator, ANodeThatIsBackWithOtherDataIsTurnedAwayAndTheJobGoesOn) {
  for (auto& each : scripts)
    each->files = {table_of("00112233aa")};
  begin();
  kill(nodes[1]);
  const auto again = comes_back(1, false, {table_of("99112233aa")});
  EXPECT_FALSE(again->places);
  EXPECT_EQ(again->all<stop_job>().size(), 1U);
  EXPECT_THAT(planned_workers(), ElementsAre(2, 3));
  EXPECT_THAT(seen->events.back(),
              HasSubstr("node node-1 is back and the job goes on without it: data/train.csv differs from node node-0's"));
  EXPECT_EQ(seen->ends, 0);
}

TEST_F(Coordinator, ANodeThatNeverAnswersIsNamed) {
  scripts[2]->silent = true;
  begin();
  EXPECT_EQ(seen->ends, 0);
  schedule.trigger_timeouts();
  run();
  EXPECT_EQ(seen->ends, 1);
  EXPECT_THAT(seen->result.reason, HasSubstr("node-2"));
  EXPECT_THAT(seen->result.reason, HasSubstr("no answer in time"));
}

TEST_F(Coordinator, ANodeThatIsLostBeforeTheStartFailsTheRun) {
  scripts[2]->silent = true;
  begin();
  kill(nodes[2]);
  EXPECT_EQ(seen->ends, 1);
  EXPECT_THAT(seen->result.reason, HasSubstr("node-2"));
  EXPECT_THAT(told<stop_job>(), ElementsAre(1, 1, 0));
}

TEST_F(Coordinator, TheRunEndsThoughEveryNodeIsGone) {
  scripts = {scripts[0]};
  job.cluster = {.nodes = 1, .workers = 1, .shards = 1};
  begin();
  kill(nodes[0]);
  EXPECT_EQ(seen->ends, 1) << "whoever waits for the result waits for ever";
  EXPECT_TRUE(seen->result.failed);
}

TEST_F(Coordinator, AHeldVersionIsEvaluatedAndTrainingGoesOn) {
  job.evaluate.every_samples = 40;
  begin();
  close_round(1, 40);
  hold(1, 40);
  EXPECT_THAT(told<protocols::fetch_order>(), ElementsAre(1, 0, 0));
  EXPECT_THAT(told<protocols::resume_order>(), ElementsAre(0, 0, 0));
  evaluate(1, 0.75);
  ASSERT_EQ(seen->evaluations.size(), 1U);
  EXPECT_EQ(seen->evaluations[0].step, 1U);
  EXPECT_EQ(seen->evaluations[0].samples, 40U);
  EXPECT_EQ(seen->evaluations[0].test_accuracy, 0.75);
  EXPECT_THAT(told<protocols::resume_order>(), ElementsAre(1, 1, 1));
  EXPECT_EQ(scripts[0]->all<protocols::hold_order>().back().at_samples, 80U);
  EXPECT_EQ(seen->ends, 0);
}

TEST_F(Coordinator, WhereThereIsNoCentreEveryNodeIsAskedForItsReplicas) {
  job.protocol.name = "gossip";
  job.evaluate.every_samples = 40;
  begin();
  hold(7, 40);
  EXPECT_THAT(told<protocols::fetch_order>(), ElementsAre(1, 1, 1));
  EXPECT_EQ(scripts[2]->all<protocols::fetch_order>()[0].ver.value, 7U);
  kill(nodes[1]); // two workers
  EXPECT_THAT(told<protocols::fetch_order>(), ElementsAre(3, 1, 3)) << "each death repeats the request";
}

TEST_F(Coordinator, TheTrainingClockStandsStillDuringAnEvaluation) {
  job.evaluate.every_samples = 40;
  job.stop.epochs = 0.4;
  begin();
  hold(1, 40);
  evaluate(1);
  EXPECT_EQ(seen->ends, 1);
  EXPECT_EQ(seen->evaluations[0].seconds, seen->result.seconds) << "the clock ran on after the hold";
}

TEST_F(Coordinator, TheEndIsEvaluatedCountedAndTold) {
  begin();
  close_round(1, 40);
  close_round(2, 80);
  close_round(3, 100);
  hold(3, 100);
  evaluate(3);
  EXPECT_EQ(seen->steps, (std::vector<std::uint64_t>{1, 2, 3}));
  EXPECT_EQ(seen->ends, 1);
  const auto& result = seen->result;
  EXPECT_FALSE(result.failed) << result.reason;
  EXPECT_EQ(result.steps, 3U);
  EXPECT_EQ(result.samples, 100U);
  EXPECT_EQ(result.gradients, 12U);
  EXPECT_EQ(result.epochs, 1.0);
  EXPECT_EQ(result.bytes_sent, 30U);     // of three nodes
  EXPECT_EQ(result.resident_bytes, 30U); // of the largest
  EXPECT_EQ(result.parameters.bytes(), 4U);
  ASSERT_TRUE(result.last);
  EXPECT_EQ(result.last->step, 3U);
  EXPECT_THAT(told<stop_job>(), ElementsAre(1, 1, 1));
}

TEST_F(Coordinator, AReachedTargetEndsTheRun) {
  job.stop.target_accuracy = 0.9;
  job.evaluate.every_samples = 40;
  begin();
  hold(1, 40);
  evaluate(1, 0.89);
  EXPECT_FALSE(seen->result.target_reached);
  hold(2, 80);
  evaluate(2, 0.9);
  EXPECT_EQ(seen->ends, 1);
  EXPECT_TRUE(seen->result.target_reached);
  EXPECT_EQ(seen->result.time_to_target_s, seen->result.seconds);
}

TEST_F(Coordinator, GradientsThatAreNotFiniteAreSaidOnceAndCounted) {
  begin();
  for (std::uint64_t step = 3; step < 6; ++step)
    say(protocols::report{.event = kind::push_not_finite, .ver = {step}, .worker = {2}});
  EXPECT_THAT(seen->events, ElementsAre("step 3: the gradient of worker 2 (node-2) is not finite; it was left out"));
  say(stop_job{});
  EXPECT_EQ(seen->result.gradients, 3U);
  EXPECT_EQ(seen->result.discarded, 3U);
  EXPECT_THAT(seen->events, ElementsAre(testing::_, "3 gradients were not finite, the last at step 5"));
}

TEST_F(Coordinator, AnInterruptedRunEndsWithItsNewestParameters) {
  begin();
  close_round(1, 40);
  hold(1, 40);
  evaluate(1);
  close_round(2, 80);
  say(stop_job{false, "interrupted"});
  EXPECT_EQ(seen->ends, 0);
  EXPECT_THAT(told<protocols::fetch_order>(), ElementsAre(2, 0, 0)) << "the second is not waited for by a hold";
  say(stop_job{false, "interrupted"});
  EXPECT_EQ(told<protocols::fetch_order>()[0], 2U) << "once is enough";
  close_round(3, 120);
  close_round(4, 160); // decided after the parameters were sent
  collect(3);
  EXPECT_EQ(seen->ends, 1);
  EXPECT_TRUE(seen->result.interrupted);
  EXPECT_EQ(seen->result.steps, 3U);
  EXPECT_EQ(seen->result.samples, 120U);
  EXPECT_EQ(seen->result.weights_step, 3U);
  EXPECT_EQ(seen->result.parameters.bytes(), 8U) << "not the four of the evaluation";
  EXPECT_EQ(seen->result.last->step, 1U);
  EXPECT_THAT(told<stop_job>(), ElementsAre(1, 1, 1));
}

TEST_F(Coordinator, ARunInterruptedDuringAnEvaluationDoesNotWaitForIt) {
  begin();
  close_round(1, 100);
  hold(1, 100);
  collect(1);
  say(stop_job{false, "interrupted"});
  EXPECT_EQ(seen->ends, 1);
  EXPECT_EQ(seen->result.weights_step, 1U);
  EXPECT_EQ(told<protocols::fetch_order>()[0], 1U) << "the evaluation's";
}

TEST_F(Coordinator, NewestParametersThatDoNotComeAreThoseOfTheLastEvaluation) {
  begin();
  close_round(1, 40);
  hold(1, 40);
  evaluate(1);
  close_round(2, 80);
  say(stop_job{false, "interrupted"});
  schedule.advance_time(std::chrono::seconds{9});
  run();
  EXPECT_EQ(seen->ends, 0);
  schedule.advance_time(std::chrono::seconds{1});
  run();
  EXPECT_EQ(seen->ends, 1);
  EXPECT_EQ(seen->result.reason, "interrupted");
  EXPECT_EQ(seen->result.steps, 2U);
  EXPECT_EQ(seen->result.weights_step, 1U);
  EXPECT_EQ(seen->result.parameters.bytes(), 4U);
  EXPECT_THAT(seen->events.back(), HasSubstr("some shard does not answer; the run leaves those of step 1, its last evaluation"));
}

TEST_F(Coordinator, NewestParametersNeedNoWorker) {
  begin();
  close_round(1, 40);
  say(stop_job{false, "interrupted"});
  kill(nodes[1]);
  kill(nodes[2]);
  EXPECT_EQ(seen->ends, 0);
  collect(1);
  EXPECT_EQ(seen->result.weights_step, 1U);
  EXPECT_EQ(seen->result.reason, "interrupted");
}

TEST_F(Coordinator, NewestReplicasAreAskedOfEverybody) {
  job.protocol.name = "gossip";
  begin();
  close_round(7, 40);
  say(stop_job{false, "interrupted"});
  EXPECT_THAT(told<protocols::fetch_order>(), ElementsAre(1, 1, 1));
  collect(7);
  EXPECT_EQ(seen->result.weights_step, 7U);
}

TEST_F(Coordinator, AJobThatFailsKeepsWhatWasEvaluatedLast) {
  begin();
  close_round(1, 40);
  hold(1, 40);
  evaluate(1);
  close_round(2, 80);
  kill(nodes[0]);
  EXPECT_TRUE(seen->result.failed);
  EXPECT_EQ(seen->result.weights_step, 1U);
  EXPECT_EQ(seen->result.parameters.bytes(), 4U);
}

TEST_F(Coordinator, ARunInterruptedBeforeItsFirstStepHasNothingToWaitFor) {
  begin();
  say(stop_job{false, "interrupted"});
  EXPECT_EQ(seen->ends, 1);
  EXPECT_TRUE(seen->result.interrupted);
  EXPECT_FALSE(seen->result.weights_step);
}

TEST_F(Coordinator, ARunCanBeInterruptedBeforeItStarts) {
  scripts[2]->silent = true;
  begin();
  say(stop_job{false, "interrupted"});
  EXPECT_EQ(seen->ends, 1);
  EXPECT_TRUE(seen->result.interrupted);
}

TEST_F(Coordinator, WhatHappensWhileTheRunEndsDoesNotChangeItsResult) {
  begin();
  caf::anon_send(coordinator, role_lost{0, role_lost::kind::holder, 0, "out of memory"});
  caf::anon_send(coordinator, stop_job{false, "interrupted"});
  caf::anon_send(coordinator, protocols::report{.event = kind::round_closed, .ver = {9}, .samples = 90, .contributions = 4});
  run();
  EXPECT_EQ(seen->ends, 1);
  EXPECT_TRUE(seen->result.failed);
  EXPECT_FALSE(seen->result.interrupted);
  EXPECT_EQ(seen->result.steps, 0U);
}

TEST_F(Coordinator, WhenItFailsEveryNodeIsToldToStop) {
  begin();
  seen->fails_with = "no paper";
  close_round(1, 40);
  EXPECT_EQ(seen->ends, 1);
  EXPECT_EQ(seen->result.reason, "the coordinator failed: no paper");
  EXPECT_THAT(told<stop_job>(), ElementsAre(1, 1, 1));
}

} // namespace
} // namespace troupe::actors
