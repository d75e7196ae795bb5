// SPDX-License-Identifier: BSD-3-Clause
// Rounds and evaluations that last, and who is to blame.
#include "tests/actors/scripted_nodes.hpp"

#include <algorithm>

#include "actors/roles/coordinator/nodes/progress_deadlines.hpp"
#include "actors/roles/coordinator/nodes/stray_worker.hpp"

namespace troupe::actors {
namespace {

using testing::Each;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

/// A deadline that has always passed at the next look.
class Progress : public Coordinator {
protected:
  Progress() { job.cluster.progress_s = 1e-9; }
  void look_once() {
    schedule.advance_time(std::chrono::seconds{1});
    run();
  }
  /// On either of their nodes.
  void workers_say(const std::vector<actor_report>& reports) { scripts[1]->actors = scripts[2]->actors = reports; }
  /// Nobody is to blame before it.
  void look_after_a_round() {
    ++step_;
    close_round(step_, 40 * step_);
    look_once();
  }
  /// To blame is who is found so twice in a row.
  void look() {
    look_once();
    look_once();
  }

private:
  std::uint64_t step_ = 0;
};

TEST_F(Progress, AWorkerThatDoesNotProgressLeavesTheJob) {
  begin();
  scripts[0]->late.workers = {1, 2};
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

TEST_F(Progress, AWorkerThatMovesAgainComesBackLaterEachTime) {
  begin();
  scripts[0]->actors = {{.id = "shard 0"}};
  for (const int pause : {1, 4, 16}) {
    SCOPED_TRACE(pause);
    const actor_report still{.id = "worker 1", .state = "computes", .waits_for = {"compute 1"}};
    scripts[0]->late.workers = {1};
    scripts[1]->actors = {still};
    look();
    scripts[0]->late = {};
    EXPECT_THAT(planned_workers(), ElementsAre(0, 2, 3));
    const auto orders = scripts[1]->orders.size();
    for (const auto& not_yet : {still, actor_report{.id = "worker 1", .waits_for = {"loader 1"}},
                                actor_report{.id = "worker 1", .paused = true}, actor_report{.id = "worker 1", .stuck = true},
                                actor_report{.id = "worker 1", .ended = true}, actor_report{.id = "worker 2"}}) {
      scripts[1]->actors = {not_yet};
      look_after_a_round();
    }
    scripts[1]->actors = {{.id = "worker 1", .waits_for = {"shard 0"}}};
    for (int i = 1; i < pause; ++i)
      look_after_a_round();
    EXPECT_EQ(scripts[1]->orders.size(), orders);
    look_after_a_round();
    ASSERT_EQ(scripts[1]->orders.size(), orders + 1);
    EXPECT_EQ(scripts[1]->orders.back().verb, role_verb::restart);
    EXPECT_EQ(seen->events.back(), "worker 1 (node-1) is restarted, as it moves again");
    EXPECT_THAT(planned_workers(), ElementsAre(0, 1, 2, 3));
  }
  EXPECT_EQ(seen->ends, 0);
}

TEST_F(Progress, AWorkerThatHasComeBackByItselfIsNotRestarted) {
  begin();
  scripts[0]->late.workers = {1};
  scripts[1]->actors = {{.id = "worker 1", .waits_for = {"compute 1"}}};
  look();
  EXPECT_EQ(ask(actor_order{.verb = role_verb::restart, .actor = "worker 1"}), "worker 1 is restarted");
  scripts[0]->late = {};
  scripts[0]->actors = {{.id = "shard 0"}};
  scripts[1]->actors = {{.id = "worker 1"}};
  look_after_a_round();
  EXPECT_EQ(scripts[1]->orders.size(), 1U);
}

TEST_F(Progress, AWorkerThatMovesAgainAndCannotBeStartedIsNamed) {
  begin();
  scripts[0]->late.workers = {1};
  scripts[1]->actors = {{.id = "worker 1", .waits_for = {"compute 1"}}};
  look();
  scripts[0]->late = {};
  scripts[0]->actors = {{.id = "shard 0"}};
  scripts[1]->actors = {{.id = "worker 1"}};
  scripts[1]->cannot_obey = "its device has no room";
  look_after_a_round();
  EXPECT_EQ(seen->events.back(), "worker 1 (node-1) moves again, and does not come back: its device has no room");
}

TEST_F(Progress, WhomTheOperatorHasPausedIsWaitedFor) {
  job.evaluate.every_samples = 40;
  begin();
  scripts[0]->late.workers = {1};
  scripts[1]->actors = {{.id = "worker 1", .paused = true}};
  scripts[0]->actors = {{.id = "shard 0", .paused = true}, {.id = "evaluator 0", .paused = true}};
  look();
  scripts[0]->late = {};
  look();
  close_round(1, 40);
  hold(1, 40);
  look();
  look();
  EXPECT_THAT(planned_workers(), ElementsAre(0, 1, 2, 3));
  EXPECT_TRUE(scripts[0]->orders.empty());
  EXPECT_EQ(seen->ends, 0);
}

TEST_F(Progress, ABackupThatDoesNotProgressIsLostAndItsNodeAskedBack) {
  job.cluster.replicas = 2;
  begin();
  scripts[0]->late.holders = {1};
  scripts[0]->actors = {{.id = "shard 0"}};
  scripts[1]->actors = {{.id = "replica 1", .state = "catches up", .since_s = 31}};
  look();
  EXPECT_THAT(seen->events, testing::IsSupersetOf({"replica 1 (node-1) is lost: no step for 0 s; replica 1: catches up for 31 s",
                                                   "node node-1 is back"}));
  EXPECT_THAT(told<protocols::holder_down>(), ElementsAre(1, 0, 1));
  EXPECT_EQ(scripts[1]->job->incarnation, 1U);
  EXPECT_THAT(planned_workers(), ElementsAre(0, 1, 2, 3));
  EXPECT_EQ(scripts[0]->all<backup_place>().back().holder.node, 1U) << "where another copy begins";
  EXPECT_EQ(seen->ends, 0);
}

TEST_F(Progress, ABackupOnANodeThatIsNeededIsLostAlone) {
  job.cluster.shards = 2;
  job.cluster.replicas = 2;
  job.cluster.where = placement::colocated;
  begin();
  say(role_lost{2, role_lost::kind::holder, 2, "no memory"}); // the copy of shard 0, which is on node 0 beside that of shard 1
  scripts[0]->late.holders = {3};
  scripts[0]->actors = {{.id = "shard 0"}, {.id = "replica 3"}};
  scripts[2]->actors = {{.id = "shard 1"}};
  scripts[1]->actors = {{.id = "shard 1"}};
  look();
  EXPECT_THAT(seen->events, ElementsAre(HasSubstr("replica 2 (node-2) is lost"), HasSubstr("replica 3 (node-0) is lost")));
  EXPECT_THAT(planned_workers(), ElementsAre(0, 1, 2, 3));
  EXPECT_EQ(seen->ends, 0);
}

TEST_F(Progress, AShardThatStandsStillLosesItsPlaceToItsBackup) {
  job.cluster.replicas = 2;
  begin();
  scripts[0]->late.holders = {0, 1};
  scripts[1]->actors = {{.id = "replica 1"}};
  look();
  EXPECT_THAT(seen->events, testing::IsSupersetOf({"shard 0 (node-0) is lost: no step for 0 s; shard 0 does not answer",
                                                   "its backup on node node-1 is shard 0 from now on", "node node-0 is back"}));
  EXPECT_THAT(told<protocols::takes_over>(), ElementsAre(0, 1, 1));
  EXPECT_EQ(scripts[0]->job->incarnation, 1U);
  EXPECT_EQ(seen->ends, 0);
}

TEST_F(Progress, WhoWaitsForAShardThatStandsStillIsNotToBlame) {
  job.cluster.replicas = 2;
  begin();
  scripts[0]->late.workers = {0, 3};
  workers_say({{.id = "replica 1"}, {.id = "worker 0", .waits_for = {"shard 0"}}, {.id = "worker 3", .waits_for = {"shard 0"}}});
  look();
  EXPECT_THAT(seen->events, testing::IsSupersetOf({"shard 0 (node-0) is lost: no step for 0 s; shard 0 does not answer",
                                                   "its backup on node node-1 is shard 0 from now on"}));
  EXPECT_THAT(planned_workers(1), ElementsAre(0, 1, 2, 3));
  EXPECT_EQ(seen->ends, 0);
}

TEST_F(Progress, WhoWaitsForAShardThatAnswersIsGivenItsParametersAnew) {
  begin();
  scripts[0]->late.workers = {0};
  scripts[0]->actors = {{.id = "shard 0"}};
  workers_say({{.id = "worker 0", .state = "waits for parameters", .since_s = 31, .waits_for = {"shard 0"}}});
  look();
  EXPECT_THAT(seen->events,
              ElementsAre(HasSubstr("worker 0 (node-1) is lost: no step for 0 s; worker 0: waits for parameters for 31 s")));
}

TEST_F(Progress, WhoIsFoundOnceIsNotToBlame) {
  job.cluster.replicas = 2;
  begin();
  scripts[1]->actors = {{.id = "replica 1"}};
  for (const auto node : {1, 2})
    scripts[node]->actors.push_back({.id = "worker 0", .waits_for = {"shard 0"}});
  for (const std::uint64_t step : {1, 2}) { // each is made just in time
    scripts[0]->late.workers = {0};
    look_once();
    close_round(step, 40 * step);
  }
  const std::vector<actor_report> busy = {{.id = "shard 0", .stuck = true}}, again = {{.id = "shard 0"}};
  for (const int turn : {1, 2}) {
    scripts[0]->actors = busy;
    look_once();
    scripts[0]->actors = {};
    scripts[0]->more_actors = again;
    scripts[0]->late.workers = {};
    scripts[0]->late.holders = {1};
    look_once();
    scripts[0]->late = {};
    look_once();
    EXPECT_THAT(seen->events, testing::IsEmpty()) << turn;
    scripts[0]->more_actors = {};
  }
  EXPECT_EQ(seen->ends, 0);
}

TEST_F(Progress, AShardThatStandsStillWithoutACopyEndsTheJobByName) {
  begin();
  scripts[0]->late.workers = {0};
  workers_say({{.id = "worker 0", .waits_for = {"shard 0"}}});
  look();
  EXPECT_TRUE(seen->result.failed);
  EXPECT_EQ(seen->result.reason,
            "no step for 0 s; shard 0 does not answer, and no copy of it can take its place; cluster.progress_s "
            "sets the deadline");
}

TEST_F(Progress, WhoHasTakenOverInTheSameMomentIsNotToBlame) {
  job.cluster.shards = job.cluster.replicas = 2;
  begin();
  const auto places = *scripts[0]->places;
  ASSERT_EQ(places.holders[0].node, 0U);
  ASSERT_EQ(places.holders[1].node, 0U) << "both stand still";
  for (const auto& copy : {places.holders[2], places.holders[3]})
    scripts[copy.node]->actors.push_back({.id = places.id_of(protocols::holder_id{copy.index}, 2)});
  scripts[0]->late.holders = {0, 1, 2, 3};
  look();
  EXPECT_THAT(seen->events, testing::IsSupersetOf({HasSubstr("is shard 0 from now on"), HasSubstr("is shard 1 from now on")}));
  EXPECT_EQ(scripts[0]->job->incarnation, 1U);
  EXPECT_EQ(scripts[1]->job->incarnation, 0U);
  EXPECT_EQ(scripts[2]->job->incarnation, 0U);
  EXPECT_EQ(seen->ends, 0);
}

TEST_F(Progress, WhoWaitsForWhomTheOperatorHasPausedIsWaitedForToo) {
  begin();
  scripts[0]->late.workers = {0, 1};
  scripts[0]->actors = {{.id = "shard 0", .paused = true}};
  workers_say({{.id = "worker 0", .waits_for = {"shard 0"}},
               {.id = "worker 1", .waits_for = {"loader 1"}},
               {.id = "loader 1", .paused = true}});
  look();
  EXPECT_THAT(seen->events, testing::IsEmpty());
  EXPECT_EQ(seen->ends, 0);
}

TEST_F(Progress, AmongPeersWhoWaitsForNoOtherIsLost) {
  job.protocol.name = "allreduce";
  begin();
  workers_say({{.id = "worker 0", .waits_for = {"worker 1"}},
               {.id = "worker 1", .state = "computes", .since_s = 31},
               {.id = "worker 2", .waits_for = {"coordinator 0"}},
               {.id = "worker 3", .waits_for = {"worker 0"}}});
  look();
  EXPECT_THAT(seen->events, ElementsAre(HasSubstr("worker 1 (node-1) is lost: no step for 0 s; worker 1: computes for 31 s")));
  EXPECT_THAT(planned_workers(), ElementsAre(0, 2, 3));
}

TEST_F(Progress, WherePeersWaitForEachOtherTheJobEnds) {
  job.protocol.name = "allreduce";
  begin();
  workers_say({{.id = "worker 0", .waits_for = {"worker 1"}},
               {.id = "worker 1", .waits_for = {"worker 2"}},
               {.id = "worker 2", .waits_for = {"worker 3"}},
               {.id = "worker 3", .waits_for = {"worker 0"}}});
  look();
  EXPECT_EQ(seen->result.reason, "no step for 0 s, and all workers wait for each other; cluster.progress_s sets the deadline");
}

TEST_F(Progress, AnEvaluationThatWaitsForAWorkersReplicaGoesOnWithoutIt) {
  job.protocol.name = "gossip";
  job.evaluate.every_samples = 40;
  begin();
  close_round(1, 40);
  hold(1, 40);
  ASSERT_THAT(told<protocols::fetch_order>(), Each(testing::Ge(1U)));
  scripts[0]->actors = {{.id = "evaluator 0", .waits_for = {"worker 2"}}};
  look();
  EXPECT_THAT(seen->events, ElementsAre(HasSubstr("worker 2 (node-2) is lost: no step for 0 s; worker 2 does not answer")));
  EXPECT_EQ(seen->ends, 0);
}

TEST_F(Progress, AnAggregatorThatStandsStillIsLostAlone) {
  job.protocol.fan_in = 2; // aggregators 1 and 2, of workers 0 and 1, 2 and 3
  begin();
  scripts[0]->late.holders = {0};
  for (const auto node : {0, 1, 2})
    scripts[node]->actors = {{.id = "shard 0"}, {.id = "aggregator 1"}};
  look();
  EXPECT_THAT(seen->events, ElementsAre(HasSubstr("aggregator 2 (node-")));
  EXPECT_THAT(planned_workers(), ElementsAre(0, 1, 2, 3));
  EXPECT_EQ(seen->ends, 0);
}

TEST_F(Progress, AnEvaluationThatWaitsForAShardThatStandsStillGoesOnWithItsBackup) {
  job.cluster.replicas = 2;
  job.evaluate.every_samples = 40;
  begin();
  close_round(1, 40);
  hold(1, 40);
  const auto evaluator = scripts[0]->places->evaluator;
  scripts[1]->actors = {{.id = "replica 1"}};
  scripts[evaluator]->actors.push_back({.id = "evaluator 0"});
  look();
  EXPECT_THAT(seen->events, testing::Contains("its backup on node node-1 is shard 0 from now on"));
  EXPECT_THAT(seen->events, Each(Not(HasSubstr("evaluator 0 (node-0) is lost"))));
  EXPECT_EQ(seen->ends, 0);
}

TEST_F(Progress, ABackupThatTheOperatorHasPausedIsWaitedFor) {
  job.cluster.replicas = 2;
  begin();
  scripts[0]->late.holders = {1};
  scripts[1]->actors = {{.id = "replica 1", .paused = true}};
  look();
  look();
  EXPECT_THAT(seen->events, testing::IsEmpty());
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

TEST_F(Progress, AnEvaluatorIsReplacedAndEndsTheJobIfItsSuccessorGetsNowhereEither) {
  job.evaluate.every_samples = 40;
  begin();
  close_round(1, 40);
  hold(1, 40);
  scripts[0]->actors = {{.id = "shard 0"}, {.id = "evaluator 0", .state = "evaluates", .since_s = 61}};
  look();
  EXPECT_THAT(seen->events,
              ElementsAre("evaluator 0 (node-0) is lost: the evaluation of step 1 has taken 0 s, and evaluator 0: evaluates for "
                          "61 s; cluster.progress_s sets the deadline; a new one takes its place"));
  ASSERT_EQ(scripts[0]->orders.size(), 1U);
  EXPECT_EQ(scripts[0]->orders[0].role, "evaluator");
  EXPECT_THAT(told<protocols::fetch_order>(), ElementsAre(2, 0, 0));
  evaluate(1);
  EXPECT_THAT(told<protocols::resume_order>(), ElementsAre(1, 1, 1)) << "the job goes on";
  close_round(2, 80);
  hold(2, 80);
  look();
  EXPECT_EQ(scripts[0]->orders.size(), 2U);
  EXPECT_EQ(seen->ends, 0) << "the first was another version's";
  look();
  EXPECT_TRUE(seen->result.failed);
  EXPECT_THAT(seen->result.reason, HasSubstr("evaluator 0 (node-0) is lost again: the evaluation of step 2 has taken 0 s"));
}

TEST(StrayWorker, ComesBackLaterEachTimeUntilThatIsForgotten) {
  stray_worker stray;
  EXPECT_FALSE(stray.is_out());
  const auto looks = [&stray] {
    int count = 1;
    while (!stray.moves())
      ++count;
    return count;
  };
  stray_worker::clock::time_point now{}; // of a host that has just begun
  std::vector<int> found;
  for (int i = 0; i < 9; ++i) {
    now += std::chrono::minutes{59};
    stray.lost(now);
    EXPECT_TRUE(stray.is_out());
    found.push_back(looks());
    stray.has_part();
    EXPECT_FALSE(stray.is_out());
  }
  EXPECT_THAT(found, ElementsAre(1, 4, 16, 64, 256, 1024, 4096, 4096, 4096));
  stray.lost(now + std::chrono::minutes{61});
  EXPECT_EQ(looks(), 1);
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

} // namespace
} // namespace troupe::actors
