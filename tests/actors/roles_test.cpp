// SPDX-License-Identifier: BSD-3-Clause
// The coordinator among nodes that are scripts.
#include "tests/actors/scripted_nodes.hpp"

namespace troupe::actors {
namespace {

using testing::Each;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

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
  auto again = std::make_shared<script>();
  again->files = {table_of("99112233aa")};
  nodes.push_back(system.spawn<node_actor::stateful_impl<scripted_node_state>>(again));
  say(node_back{1, caf::actor_cast<caf::actor>(nodes.back())});
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

TEST_F(Coordinator, ANodeThatIsBackJoinsTheRunningJob) {
  begin();
  kill(nodes[1]);
  EXPECT_THAT(planned_workers(), ElementsAre(2, 3));
  auto again = std::make_shared<script>();
  nodes.push_back(system.spawn<node_actor::stateful_impl<scripted_node_state>>(again));
  say(node_back{1, caf::actor_cast<caf::actor>(nodes.back())});
  ASSERT_TRUE(again->job && again->places);
  EXPECT_EQ(again->job->self, 1U);
  EXPECT_EQ(again->job->incarnation, 1U);
  EXPECT_THAT(told<node_place>(), ElementsAre(1, 0, 1)) << "the others let go of the old lane before the new process dials";
  EXPECT_THAT(planned_workers(), ElementsAre(0, 1, 2, 3));
  EXPECT_EQ(scripts[0]->all<protocols::plan>().back().workers[1].incarnation.value, 1U);
  EXPECT_EQ(scripts[0]->all<protocols::plan>().back().workers[2].incarnation.value, 0U);

  say(role_lost{1, true, 0, "it died", 0});
  EXPECT_THAT(planned_workers(), ElementsAre(0, 1, 2, 3)) << "news of the process that was replaced";
  say(role_lost{1, true, 0, "it died", 1});
  EXPECT_THAT(planned_workers(), ElementsAre(1, 2, 3));
}

TEST_F(Coordinator, AnAnswerOfAProcessThatWasReplacedStartsNobody) {
  begin();
  kill(nodes[1]);
  const std::vector processes{std::make_shared<script>(), std::make_shared<script>()};
  for (const auto& process : processes) {
    process->silent = true;
    nodes.push_back(system.spawn<node_actor::stateful_impl<scripted_node_state>>(process));
    say(node_back{1, caf::actor_cast<caf::actor>(nodes.back())});
  }
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
  const std::vector processes{std::make_shared<script>(), std::make_shared<script>()};
  for (const auto& process : processes) {
    process->silent = true;
    nodes.push_back(system.spawn<node_actor::stateful_impl<scripted_node_state>>(process));
    say(node_back{1, caf::actor_cast<caf::actor>(nodes.back())});
  }
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
  auto again = std::make_shared<script>();
  again->silent = true;
  nodes.push_back(system.spawn<node_actor::stateful_impl<scripted_node_state>>(again));
  say(node_back{1, caf::actor_cast<caf::actor>(nodes.back())});
  const auto heard = seen->events;
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
  auto again = std::make_shared<script>();
  nodes.push_back(system.spawn<node_actor::stateful_impl<scripted_node_state>>(again));
  say(node_back{2, caf::actor_cast<caf::actor>(nodes.back())});
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

/// A deadline that has always passed at the next look.
class Progress : public Coordinator {
protected:
  Progress() { job.cluster.progress_s = 1e-9; }
  void look() {
    schedule.advance_time(std::chrono::seconds{1});
    run();
  }
};

TEST_F(Progress, AWorkerThatDoesNotProgressLeavesTheJob) {
  begin();
  scripts[0]->awaited = {1, 2};
  scripts[1]->actors = {{.id = "worker 1", .state = "computes step 40", .since_s = 61}};
  look();
  EXPECT_THAT(planned_workers(), ElementsAre(0, 3));
  EXPECT_THAT(seen->events,
              ElementsAre("worker 1 (node-1) is lost: no step for 0 s; worker 1: computes step 40 for 61 s; the round "
                          "closes without it",
                          "worker 2 (node-2) is lost: no step for 0 s; worker 2 does not answer; the round closes "
                          "without it"));
  EXPECT_EQ(seen->ends, 0);
}

TEST_F(Progress, WhomTheOperatorHasPausedIsWaitedFor) {
  job.evaluate.every_samples = 40;
  begin();
  scripts[0]->awaited = {1};
  scripts[1]->actors = {{.id = "worker 1", .paused = true}};
  scripts[0]->actors = {{.id = "shard 0", .paused = true}, {.id = "evaluator 0", .paused = true}};
  look();
  scripts[0]->awaited = {};
  look();
  close_round(1, 40);
  hold(1, 40);
  look();
  look();
  EXPECT_THAT(planned_workers(), ElementsAre(0, 1, 2, 3));
  EXPECT_TRUE(scripts[0]->orders.empty());
  EXPECT_EQ(seen->ends, 0);
}

TEST_F(Progress, HoldersThatDoNotProgressEndTheJobByName) {
  begin();
  scripts[0]->actors = {{.id = "shard 0", .state = "steps", .since_s = 31}};
  look();
  EXPECT_TRUE(seen->result.failed);
  EXPECT_EQ(seen->result.reason,
            "no step for 0 s, and the round waits for no worker; shard 0: steps for 31 s; cluster.progress_s "
            "sets the deadline");
}

TEST_F(Progress, AnEvaluatorIsReplacedOnceAndThenEndsTheJob) {
  job.evaluate.every_samples = 40;
  begin();
  close_round(1, 40);
  hold(1, 40);
  scripts[0]->actors = {{.id = "evaluator 0", .state = "evaluates", .since_s = 61}};
  look();
  EXPECT_EQ(seen->events.back(),
            "the evaluation of step 1 has taken 0 s; evaluator 0: evaluates for 61 s; a new one takes its place");
  ASSERT_EQ(scripts[0]->orders.size(), 1U);
  EXPECT_EQ(scripts[0]->orders[0].role, "evaluator");
  EXPECT_THAT(told<protocols::fetch_order>(), ElementsAre(2, 0, 0));
  evaluate(1);
  EXPECT_THAT(told<protocols::resume_order>(), ElementsAre(1, 1, 1)) << "the job goes on";
  close_round(2, 80);
  hold(2, 80);
  look();
  EXPECT_TRUE(seen->result.failed);
  EXPECT_THAT(seen->result.reason,
              HasSubstr("the evaluation of step 2 has taken 0 s; evaluator 0: evaluates for 61 s, the second"));
}

TEST(ProgressDeadlines, FollowWhatWasSeen) {
  using seconds = progress_deadlines::seconds;
  progress_deadlines seen(0);
  EXPECT_EQ(seen.of_evaluation(), seconds{300});
  seen.evaluation_took(seconds{2});
  EXPECT_EQ(seen.of_evaluation(), seconds{60});
  seen.evaluation_took(seconds{20});
  seen.evaluation_took(seconds{1});
  EXPECT_EQ(seen.of_evaluation(), seconds{200});
  for (const double time : {8.0, 2.0}) {
    seen.round_took(seconds{time}, 1);
    EXPECT_FALSE(seen.of_round(1)) << "nobody knows yet";
  }
  seen.round_took(seconds{12}, 4); // of four steps each
  EXPECT_EQ(seen.of_round(1), seconds{60});
  EXPECT_EQ(seen.of_round(10), seconds{600}) << "a longer period";
  for (int i = 0; i < 64; ++i)
    seen.round_took(seconds{0.1}, 1);
  EXPECT_EQ(seen.of_round(1), seconds{30});
  progress_deadlines set(5);
  EXPECT_EQ(set.of_evaluation(), seconds{5});
  EXPECT_EQ(set.of_round(100), seconds{5});
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
  say(role_lost{1, true, 1, "its compute actor failed"});
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
  say(role_lost{1, true, 1, "its device failed"});
  say(role_lost{1, true, 1, "it died"});
  EXPECT_EQ(seen->events.size(), 1U);
  EXPECT_THAT(told<protocols::plan>(), ElementsAre(2, 2, 2));
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
  say(role_lost{0, false, 0, "out of memory"});
  EXPECT_TRUE(seen->result.failed);
  EXPECT_THAT(seen->result.reason, HasSubstr("shard 0"));
  EXPECT_THAT(seen->result.reason, HasSubstr("out of memory"));
}

TEST_F(Coordinator, ALostAggregatorTakesTheWorkersBelowIt) {
  job.protocol.fan_in = 2; // aggregators 1 and 2, of workers 0 and 1, 2 and 3
  begin();
  say(role_lost{1, false, 1, "it died"});
  EXPECT_THAT(planned_workers(), ElementsAre(2, 3));
  EXPECT_THAT(told<protocols::holder_down>(), ElementsAre(1, 1, 1));
  EXPECT_EQ(seen->ends, 0);
}

TEST_F(Coordinator, ALossBeforeTheStartFailsTheRun) {
  scripts[2]->silent = true;
  begin();
  say(role_lost{1, true, 0, "no memory"});
  EXPECT_EQ(seen->ends, 1);
  EXPECT_THAT(seen->result.reason, HasSubstr("worker 0 (node-1)"));
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
  caf::anon_send(coordinator, role_lost{0, false, 0, "out of memory"});
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

int main(int argc, char** argv) {
  troupe::actors::init_message_types();
  testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
