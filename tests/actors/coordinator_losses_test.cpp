// SPDX-License-Identifier: BSD-3-Clause
// Nodes and roles that are lost, silent, late or back, as the coordinator sees them.
#include "tests/actors/scripted_nodes.hpp"

#include <algorithm>

namespace troupe::actors {
namespace {

using testing::Each;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

TEST_F(Coordinator, ANodeThatIsBackJoinsTheRunningJob) {
  begin();
  kill(nodes[1]);
  EXPECT_THAT(planned_workers(), ElementsAre(2, 3));
  const auto again = comes_back(1);
  ASSERT_TRUE(again->job && again->places);
  EXPECT_EQ(again->job->self, 1U);
  EXPECT_EQ(again->job->incarnation, 1U);
  EXPECT_THAT(told<node_place>(), ElementsAre(1, 0, 1)) << "the others let go of the old lane before the new process dials";
  EXPECT_THAT(planned_workers(), ElementsAre(0, 1, 2, 3));
  EXPECT_EQ(scripts[0]->all<protocols::plan>().back().workers[1].incarnation.value, 1U);
  EXPECT_EQ(scripts[0]->all<protocols::plan>().back().workers[2].incarnation.value, 0U);

  say(role_lost{1, role_lost::kind::worker, 0, "it died", 0});
  EXPECT_THAT(planned_workers(), ElementsAre(0, 1, 2, 3)) << "news of the process that was replaced";
  say(role_lost{1, role_lost::kind::worker, 0, "it died", 1});
  EXPECT_THAT(planned_workers(), ElementsAre(1, 2, 3));
}

TEST_F(Coordinator, AnAnswerOfAProcessThatWasReplacedStartsNobody) {
  begin();
  kill(nodes[1]);
  const std::vector processes{comes_back(1, true), comes_back(1, true)};
  caf::anon_send(nodes[3], node_notice{});
  run();
  EXPECT_FALSE(processes[0]->places);
  EXPECT_FALSE(processes[1]->places) << "it has not prepared the job";
  caf::anon_send(nodes[4], node_notice{});
  run();
  EXPECT_TRUE(processes[1]->places);
  EXPECT_THAT(planned_workers(), ElementsAre(0, 1, 2, 3));
}

TEST_F(Coordinator, ANodeThatDiesAgainWhileItPreparesIsForgottenForTheNext) {
  begin();
  kill(nodes[1]);
  const std::vector processes{comes_back(1, true), comes_back(1, true)};
  kill(nodes[3]); // its request fails, long after it was replaced
  caf::anon_send(nodes[4], node_notice{});
  run();
  EXPECT_TRUE(processes[1]->places);
  EXPECT_THAT(planned_workers(), ElementsAre(0, 1, 2, 3));
  EXPECT_THAT(seen->events, Each(Not(HasSubstr("could not"))));
}

TEST_F(Coordinator, ANodeThatDiesAgainWhileItPreparesIsNotSaidToBeBack) {
  begin();
  kill(nodes[1]);
  comes_back(1, true);
  auto heard = seen->events;
  heard.emplace_back("node node-1 does not come back: its process is gone (connection lost)");
  caf::anon_send(caf::actor_cast<caf::actor>(coordinator),
                 caf::down_msg{nodes.back().address(), caf::exit_reason::remote_link_unreachable});
  run();
  schedule.trigger_timeouts(); // between processes a request of the dead fails only so
  run();
  EXPECT_EQ(seen->events, heard);
  EXPECT_EQ(seen->ends, 0);
}

TEST_F(Coordinator, ANodeThatIsBackBeforeItWasMissedReplacesItself) {
  begin();
  const auto again = comes_back(2);
  EXPECT_THAT(told<protocols::worker_down>(), ElementsAre(2, 2, 0));
  EXPECT_THAT(planned_workers(), ElementsAre(0, 1, 2, 3));
}

TEST_F(Coordinator, ASilentNodeIsPutOutAndTakesPartAgainWhenItAnswers) {
  begin();
  scripts[1]->silent = true;
  say(peer_unreachable{.node = 0, .peer = 1, .silent = true, .reason = "silent for 1.1 s"});
  EXPECT_THAT(planned_workers(), ElementsAre(2, 3));
  ASSERT_EQ(seen->events.size(), 2U);
  EXPECT_EQ(seen->events[0],
            "worker 0 (node-1) is lost: node node-1 is silent for 1.1 s, says node node-0; the round closes without it");
  ASSERT_EQ(scripts[1]->job->incarnation, 1U) << "it is asked back at once, and answers when it can";
  EXPECT_THAT(told<node_place>(), ElementsAre(0, 0, 0));
  say(peer_unreachable{.node = 0, .peer = 1, .silent = true, .reason = "silent for 2.2 s"});
  EXPECT_EQ(seen->events.size(), 2U) << "it is out already";
  EXPECT_EQ(scripts[1]->job->incarnation, 1U);

  caf::anon_send(nodes[1], node_notice{}); // it goes on
  run();
  EXPECT_THAT(told<node_place>(), ElementsAre(1, 0, 1)) << "the others let go of the old lane before it dials";
  EXPECT_EQ(scripts[1]->places->nodes[1].incarnation, 1U);
  EXPECT_THAT(planned_workers(), ElementsAre(0, 1, 2, 3));
  EXPECT_EQ(scripts[0]->all<protocols::plan>().back().workers[0].incarnation.value, 1U);
  EXPECT_EQ(seen->events.back(), "node node-1 is back");

  say(peer_unreachable{.node = 0, .peer = 1, .incarnation = 0, .reason = "its old lane closed"});
  EXPECT_THAT(planned_workers(), ElementsAre(0, 1, 2, 3)) << "news of the life that was replaced";
  say(peer_unreachable{.node = 0, .peer = 1, .incarnation = 1, .silent = true, .reason = "silent for 1.1 s"});
  EXPECT_THAT(planned_workers(), ElementsAre(2, 3));
  kill(nodes[1]);
  EXPECT_THAT(seen->events.back(), HasSubstr("node node-1 does not come back: its process is gone"));
  EXPECT_EQ(seen->ends, 0);
}

class Lane : public Coordinator, public testing::WithParamInterface<bool> {};

TEST_P(Lane, OfTwoNodesWithoutOneThatWithoutParametersGoes) {
  begin();
  scripts[2]->silent = true;
  const std::uint32_t by = GetParam() ? 2 : 0;
  say(peer_unreachable{.node = by, .peer = 2 - by, .reason = "reset"});
  EXPECT_THAT(planned_workers(), ElementsAre(0, 1));
  EXPECT_THAT(seen->events[0], HasSubstr(fmt::format("nodes node-{} and node-{} have no lane: reset", by, 2 - by)));
  EXPECT_EQ(scripts[2]->job->incarnation, 1U);
  EXPECT_EQ(seen->ends, 0);
}
INSTANTIATE_TEST_SUITE_P(Coordinator, Lane, testing::Bool(),
                         [](const auto& each) { return each.param ? "AsTheWorkersSay" : "AsTheHoldersSay"; });

TEST_F(Coordinator, ASilentNodeWithParametersIsWaitedFor) {
  begin();
  say(peer_unreachable{.node = 1, .peer = 0, .silent = true, .reason = "silent for 1.1 s"});
  EXPECT_THAT(planned_workers(), ElementsAre(0, 1, 2, 3));
  EXPECT_EQ(seen->ends, 0);
  EXPECT_TRUE(seen->events.empty());
}

TEST_F(Coordinator, ASilentNodeWithTheLastWorkersIsWaitedFor) {
  begin();
  scripts[1]->silent = true;
  say(peer_unreachable{.node = 0, .peer = 1, .silent = true, .reason = "silent for 1.1 s"});
  say(peer_unreachable{.node = 0, .peer = 2, .silent = true, .reason = "silent for 1.1 s"});
  EXPECT_THAT(planned_workers(), ElementsAre(2, 3));
  EXPECT_EQ(seen->ends, 0);
  say(peer_unreachable{.node = 0, .peer = 2, .reason = "reset"});
  EXPECT_TRUE(seen->result.failed);
  EXPECT_THAT(seen->result.reason, HasSubstr("no workers are left"));
}

TEST_F(Coordinator, TwoNodesWithParametersAndNoLaneEndTheJob) {
  job.cluster.shards = 3;
  job.cluster.where = placement::colocated;
  begin();
  say(peer_unreachable{.node = 0, .peer = 1, .silent = true, .reason = "silent for 1.1 s"});
  EXPECT_EQ(seen->ends, 0) << "it may go on";
  say(peer_unreachable{.node = 0, .peer = 1, .reason = "reset"});
  EXPECT_TRUE(seen->result.failed);
  EXPECT_THAT(seen->result.reason, HasSubstr("shard 1 was lost"));
  EXPECT_THAT(seen->result.reason, HasSubstr("nodes node-0 and node-1 have no lane: reset"));
}

TEST_F(Coordinator, WhatANodeThatIsOutSaysCountsForNothing) {
  begin();
  kill(nodes[1]);
  say(peer_unreachable{.node = 1, .peer = 0, .reason = "reset"});
  say(peer_unreachable{.node = 7, .peer = 2, .reason = "reset"});
  say(peer_unreachable{.node = 0, .peer = 7, .reason = "reset"});
  EXPECT_THAT(planned_workers(), ElementsAre(2, 3));
  EXPECT_EQ(seen->ends, 0);
}

TEST_F(Coordinator, ANodeThatCannotTakePartAgainIsAskedOnceMore) {
  begin();
  scripts[1]->cannot_start = "no lane to node node-0: refused";
  say(peer_unreachable{.node = 0, .peer = 1, .reason = "reset"});
  EXPECT_THAT(planned_workers(), ElementsAre(2, 3));
  EXPECT_EQ(seen->events.back(), "node node-1 is back and could not start the job: no lane to node node-0: refused");
  scripts[1]->cannot_start.clear();
  schedule.advance_time(std::chrono::seconds{5});
  run();
  EXPECT_EQ(scripts[1]->job->incarnation, 2U) << "no life begins twice";
  EXPECT_THAT(planned_workers(), ElementsAre(0, 1, 2, 3));
}

TEST_F(Coordinator, ANodeThatCannotPrepareAgainIsLeftAlone) {
  begin();
  scripts[1]->cannot_prepare = "its program has no protocol \"mine\"";
  say(peer_unreachable{.node = 0, .peer = 1, .reason = "reset"});
  scripts[1]->cannot_prepare.clear();
  schedule.advance_time(std::chrono::seconds{5});
  run();
  EXPECT_EQ(scripts[1]->job->incarnation, 1U);
  EXPECT_THAT(planned_workers(), ElementsAre(2, 3));
}

TEST_F(Coordinator, AnEvaluatorThatDiesIsReplacedAndEndsTheJobIfItsSuccessorDoesNothingElse) {
  job.evaluate.every_samples = 40;
  begin();
  close_round(1, 40);
  hold(1, 40);
  say(role_lost{0, role_lost::kind::evaluator, 0, "no memory"});
  EXPECT_EQ(seen->events.back(), "evaluator 0 (node-0) is lost: no memory; a new one takes its place");
  ASSERT_EQ(scripts[0]->orders.size(), 1U);
  EXPECT_EQ(scripts[0]->orders[0].role, "evaluator");
  EXPECT_EQ(scripts[0]->orders[0].verb, role_verb::restart);
  EXPECT_THAT(told<protocols::fetch_order>(), ElementsAre(2, 0, 0)) << "the evaluation begins again";
  evaluate(1);
  evaluate(1);
  EXPECT_EQ(seen->evaluations.size(), 1U) << "what the first one had sent comes once";
  EXPECT_THAT(told<protocols::resume_order>(), ElementsAre(1, 1, 1)) << "the job goes on";
  say(role_lost{0, role_lost::kind::evaluator, 0, "no memory"});
  EXPECT_EQ(seen->ends, 0) << "that one has evaluated";
  EXPECT_EQ(scripts[0]->orders.size(), 2U);
  say(role_lost{0, role_lost::kind::evaluator, 0, "no memory"});
  EXPECT_TRUE(seen->result.failed);
  EXPECT_EQ(seen->result.reason, "evaluator 0 (node-0) is lost again: no memory");
}

TEST_F(Coordinator, AnEvaluatorThatDiesWhileTheJobTrainsIsReplacedAndNothingIsEvaluated) {
  begin();
  say(role_lost{0, role_lost::kind::evaluator, 0, "no memory"});
  EXPECT_EQ(scripts[0]->orders.size(), 1U);
  EXPECT_THAT(told<protocols::fetch_order>(), ElementsAre(0, 0, 0));
  EXPECT_EQ(seen->ends, 0);
}

TEST_F(Coordinator, ANodeThatLeavesTakesItsWorkersOutOfTheJob) {
  begin();
  bool gone = false;
  caf::scoped_actor asker{system};
  auto leave = [&](std::uint32_t node) {
    auto answer = asker->request(coordinator, caf::infinite, node_leaves{node});
    run();
    answer.receive([&](bool done) { gone = done; }, [](const caf::error&) { FAIL(); });
  };
  leave(1);
  EXPECT_TRUE(gone && planned_workers() == std::vector<std::uint32_t>({2, 3}));
  EXPECT_THAT(told<stop_job>(), ElementsAre(0, 1, 0));
  leave(2);
  EXPECT_FALSE(gone) << "they are the last workers";
  leave(0);
  EXPECT_FALSE(gone) << "it has the parameters";
  EXPECT_EQ(seen->ends, 0);
}

TEST_F(Coordinator, ALostWorkerIsSaidAndPlannedAround) {
  begin();
  say(role_lost{1, role_lost::kind::worker, 1, "its compute actor failed"});
  ASSERT_EQ(seen->events.size(), 1U);
  EXPECT_THAT(seen->events[0], HasSubstr("worker 1 (node-1) is lost: its compute actor failed"));
  EXPECT_THAT(told<protocols::worker_down>(), ElementsAre(1, 1, 1));
  EXPECT_EQ(scripts[0]->all<protocols::worker_down>()[0].worker.value, 1U);
  EXPECT_THAT(told<protocols::plan>(), ElementsAre(2, 2, 2));
  EXPECT_THAT(planned_workers(), ElementsAre(0, 2, 3));
  EXPECT_EQ(seen->ends, 0);
}

TEST_F(Coordinator, AWorkerIsLostOnceHoweverManySayIt) {
  begin();
  say(role_lost{1, role_lost::kind::worker, 1, "its device failed"});
  say(role_lost{1, role_lost::kind::worker, 1, "it died"});
  EXPECT_EQ(seen->events.size(), 1U);
  EXPECT_THAT(told<protocols::plan>(), ElementsAre(2, 2, 2));
}

TEST_F(Coordinator, AnEvaluatorGoesWithTheLeadWhereItsNodeIsLost) {
  job.cluster.replicas = 2;
  job.evaluate.every_samples = 40;
  begin();
  close_round(1, 40);
  hold(1, 40);
  kill(nodes[0]);
  EXPECT_THAT(told<protocols::takes_over>(), ElementsAre(0, 1, 1));
  EXPECT_EQ(scripts[1]->all<evaluator_place>().at(0).node, 1U);
  EXPECT_THAT(told<evaluator_place>(), ElementsAre(0, 1, 1));
  EXPECT_THAT(seen->events, testing::Contains("the evaluator is on node node-1 from now on"));
  const auto& heard = scripts[1]->heard;
  EXPECT_TRUE(std::holds_alternative<protocols::fetch_order>(heard.back())) << "once every node knows where it is";
  evaluate(1);
  EXPECT_EQ(seen->evaluations.size(), 1U);
  say(role_lost{1, role_lost::kind::evaluator, 0, "no memory"});
  EXPECT_EQ(seen->ends, 0) << "it is the first that fails by itself";
  EXPECT_EQ(scripts[1]->orders.size(), 1U);
}

TEST_F(Coordinator, ParametersOfAnEvaluatorElsewhereAreFetchedAtTheEnd) {
  scripts[0]->parameters = {1, 2, 3, 4, 5, 6, 7};
  job.stop.steps = 1;
  begin();
  close_round(1, 40);
  hold(1, 40);
  say(evaluation{{1}, 0.3, 0.4, 0.5, {}});
  ASSERT_EQ(seen->ends, 1);
  EXPECT_FALSE(seen->result.failed) << seen->result.reason;
  EXPECT_EQ(seen->result.weights_step, 1U);
  const auto all = seen->result.parameters.span<const float>();
  EXPECT_EQ(std::vector(all.begin(), all.end()), scripts[0]->parameters);
}

TEST_F(Coordinator, ParametersThatCannotBeFetchedAreNotSaidToBeThere) {
  scripts[0]->parameters = {1, 2, 3, 4, 5, 6, 7};
  job.stop.steps = 1;
  begin();
  scripts[0]->parameters.clear();
  close_round(1, 40);
  hold(1, 40);
  say(evaluation{{1}, 0.3, 0.4, 0.5, {}});
  ASSERT_EQ(seen->ends, 1);
  EXPECT_EQ(seen->result.weights_step, std::nullopt);
  EXPECT_THAT(seen->events, testing::Contains("the parameters of step 1 are not here: the evaluator is not here"));
}

TEST_F(Coordinator, ALostNodeTakesItsWorkersWithIt) {
  begin();
  kill(nodes[1]);
  EXPECT_THAT(seen->events, ElementsAre(HasSubstr("worker 0 (node-1) is lost"), HasSubstr("worker 1 (node-1) is lost")));
  EXPECT_THAT(planned_workers(), ElementsAre(2, 3));
  EXPECT_THAT(told<protocols::plan>(), ElementsAre(3, 1, 3)) << "a plan for each, and none to the dead";
}

TEST_F(Coordinator, ARunWithoutWorkersFailsAndSaysWhy) {
  begin();
  kill(nodes[1]);
  kill(nodes[2]);
  EXPECT_EQ(seen->ends, 1);
  EXPECT_TRUE(seen->result.failed);
  EXPECT_FALSE(seen->result.interrupted);
  EXPECT_THAT(seen->result.reason, HasSubstr("no workers are left"));
  EXPECT_THAT(told<stop_job>(), ElementsAre(1, 0, 0));
}

TEST_F(Coordinator, ALostShardFailsTheRunWithItsReason) {
  begin();
  say(role_lost{0, role_lost::kind::holder, 0, "out of memory"});
  EXPECT_TRUE(seen->result.failed);
  EXPECT_THAT(seen->result.reason, HasSubstr("shard 0"));
  EXPECT_THAT(seen->result.reason, HasSubstr("out of memory"));
}

TEST_F(Coordinator, ALostAggregatorTakesNoWorkerAlong) {
  job.protocol.fan_in = 2; // aggregators 1 and 2, of workers 0 and 1, 2 and 3
  begin();
  say(role_lost{1, role_lost::kind::holder, 1, "it died"});
  EXPECT_THAT(planned_workers(), ElementsAre(0, 1, 2, 3));
  EXPECT_THAT(told<protocols::plan>(), ElementsAre(2, 2, 2));
  EXPECT_THAT(scripts[0]->all<protocols::plan>().back().gone, ElementsAre(protocols::holder_id{1}));
  EXPECT_EQ(seen->ends, 0);
}

TEST_F(Coordinator, ANodeComesBackWithItsWorkersAndWithoutItsAggregator) {
  job.protocol.fan_in = 2;
  begin();
  ASSERT_EQ(scripts[0]->places->holders[1].node, 1U);
  kill(nodes[1]);
  EXPECT_THAT(planned_workers(), ElementsAre(2, 3));
  const auto again = comes_back(1);
  EXPECT_THAT(planned_workers(), ElementsAre(0, 1, 2, 3));
  EXPECT_THAT(scripts[0]->all<protocols::plan>().back().gone, ElementsAre(protocols::holder_id{1}));
  ASSERT_TRUE(again->places);
  EXPECT_EQ(again->places->holders[1].node, nowhere) << "or it would begin there, and nobody would push to it";
  EXPECT_TRUE(again->places->holders[1].aggregates);
}

TEST_F(Coordinator, ALossBeforeTheStartFailsTheRun) {
  scripts[2]->silent = true;
  begin();
  say(role_lost{1, role_lost::kind::worker, 0, "no memory"});
  EXPECT_EQ(seen->ends, 1);
  EXPECT_THAT(seen->result.reason, HasSubstr("worker 0 (node-1)"));
}

} // namespace
} // namespace troupe::actors
