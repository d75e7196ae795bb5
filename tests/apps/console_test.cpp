// SPDX-License-Identifier: BSD-3-Clause
// What the console says about a cluster.
#include "apps/console/rates.hpp"
#include "apps/console/snapshot.hpp"
#include "apps/console/stragglers.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace troupe::apps::console {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

actors::actor_report actor(const std::string& id, const std::string& state, std::vector<std::string> waits_for = {},
                           double since_s = 1) {
  return {.id = id,
          .role = id.substr(0, id.find(' ')),
          .node = "b",
          .job = 1,
          .state = state,
          .since_s = since_s,
          .waits_for = std::move(waits_for)};
}

snapshot of(std::vector<actors::actor_report> actors) {
  snapshot at;
  at.reports.nodes.push_back({.node = "b", .job = 1, .actors = std::move(actors)});
  return at;
}

std::string cause(const answer& out) {
  const auto& causes = out.json.at("causes").as_array();
  return causes.size() == 1 ? std::string{causes[0].as_string()} : std::to_string(causes.size()) + " causes";
}

TEST(Why, FollowsTheWaitsToTheirEnd) {
  const auto at = of({actor("coordinator 0", "runs", {"shard 0"}), actor("shard 0", "collects", {"worker 1"}),
                      actor("worker 0", "waits for parameters", {"shard 0"}), actor("worker 1", "computes", {}, 7.5)});
  for (const auto* from : {"coordinator", "shard 0", "worker 0", "worker:1", "worker1"})
    EXPECT_EQ(cause(why(at, from)), "worker 1 on node b: it computes for 7.5 s") << from;
}

TEST(Why, WhoeverDoesNotAnswerIsTheCause) {
  auto stuck = actor("worker 1", "does not answer: no answer in time");
  stuck.stuck = true;
  EXPECT_THAT(cause(why(of({actor("shard 0", "collects", {"worker 1"}), stuck}), "shard 0")),
              HasSubstr("worker 1 on node b: it does not answer"));
}

TEST(Why, ANodeThatDoesNotAnswerIsNamed) {
  auto at = of({actor("shard 0", "collects", {"worker 1"})});
  at.reports.nodes.push_back({.node = "c", .job = 1, .silent = "no answer in time"});
  at.reports.nodes.push_back({.node = "d", .job = 2, .silent = "of another job"});
  const auto out = cause(why(at, "1/shard 0"));
  EXPECT_THAT(out, HasSubstr("worker 1: it is on a node that does not answer: node c (no answer in time)"));
  EXPECT_THAT(out, Not(HasSubstr("node d")));
}

/// A shard on node a, a worker on node b, a lane between them in each direction.
snapshot of_two(double to_worker_s, double to_shard_s) {
  snapshot at;
  at.reports.nodes.push_back(
      {.node = "a",
       .job = 1,
       .actors = {actor("shard 0", "collects", {"worker 0"})},
       .links = {{.peer = "b", .queued_bytes = 3 << 20, .credit_bytes = 1 << 20, .stalled_s = to_worker_s}}});
  at.reports.nodes.push_back({.node = "b",
                              .job = 1,
                              .actors = {actor("worker 0", "waits for parameters", {"shard 0"})},
                              .links = {{.peer = "a", .queued_bytes = 100, .credit_bytes = 1 << 20, .stalled_s = to_shard_s}}});
  at.reports.nodes[0].actors[0].node = "a";
  return at;
}

TEST(Why, WhatNobodySeesMayBeOnASilentNode) {
  auto at = of({actor("shard 0", "collects", {"worker 1"})});
  EXPECT_TRUE(why(at, "worker 1").wrong);
  at.reports.nodes.push_back({.node = "c", .silent = "no answer in time"});
  EXPECT_EQ(cause(why(at, "worker 1")),
            "worker 1 cannot be seen; it may be on a node that does not answer: node c (no answer in time)");
  EXPECT_FALSE(why(at, "worker:1").wrong);
  EXPECT_TRUE(why(at, "wroker 1").wrong); // no role has that name
}

TEST(Why, AnActorOfAJobThatWaitsIsNotThereForTheJobsReason) {
  snapshot at;
  at.cluster.jobs.push_back({.number = 7,
                             .name = "small",
                             .protocol = "sync",
                             .state = "waits: it needs 2 nodes: node b is gone: connection lost, at 12:03:05"});
  EXPECT_EQ(cause(why(at, "shard 0")),
            "shard 0 would be of job 7 (small), which waits: it needs 2 nodes: node b is gone: connection lost, at 12:03:05");
  EXPECT_TRUE(why(at, "shrad 0").wrong);
}

TEST(Why, WhatWaitsForEachOtherWaitsForTheLaneBetween) {
  for (const auto* from : {"shard 0", "worker 0"}) {
    EXPECT_THAT(cause(why(of_two(4, 0), from)),
                AllOf(HasSubstr("the lane from node a to node b: 3.1 MB wait in it, over its credit of 1.0 MB, and"),
                      HasSubstr("nothing has gone for 4.0 s")));
    EXPECT_THAT(cause(why(of_two(0, 2), from)),
                AllOf(HasSubstr("the lane from node b to node a: 100 B wait in it, and"), HasSubstr("for 2.0 s")));
    EXPECT_EQ(cause(why(of_two(0.1, 0.1), from)), "0 causes") << "a lane at work";
  }
}

TEST(Why, ALaneWithoutAConnectionIsTheCause) {
  auto at = of_two(0, 0);
  at.reports.nodes[0].links[0].away_s = 1.5;
  for (const auto* from : {"shard 0", "worker 0"})
    EXPECT_THAT(cause(why(at, from)),
                HasSubstr("the lane from node a to node b: its connection broke 1.5 s ago, and is dialed again"));
}

TEST(Why, ASilentPeerIsTheCause) {
  auto at = of_two(0, 0);
  at.reports.nodes[0].links[0].silent_s = 0.7;
  for (const auto* from : {"shard 0", "worker 0"})
    EXPECT_THAT(cause(why(at, from)), HasSubstr("the lane from node a to node b: nothing has come from there for 0.7 s"));
}

TEST(Why, WhoeverHasEndedOrIsInAHandlerIsTheCause) {
  auto busy = actor("compute 1", "computes", {}, 7.5);
  busy.stuck = true;
  busy.handler_s = 7.4;
  EXPECT_EQ(cause(why(of({actor("worker 1", "computes", {"compute 1"}), busy}), "worker 1")),
            "compute 1 on node b: it computes for 7.5 s, and has not answered for 7.4 s");
  auto gone = actor("worker 1", "has ended");
  gone.ended = true;
  gone.last_error = "out of memory";
  EXPECT_EQ(cause(why(of({actor("shard 0", "collects", {"worker 1"}), gone}), "shard 0")),
            "worker 1 on node b: it has ended: out of memory");
}

/// The actors of a job are not looked at in one moment: this one was asked before it got what it is to compute.
TEST(Why, WhoeverIsIdleIsTheCauseOnlyOfAWaitThatLasts) {
  const auto at = [](double waits_s, double idle_s) {
    return of({actor("shard 0", "collects", {"worker 0", "worker 1"}), actor("worker 0", "computes", {"compute 0"}, waits_s),
               actor("compute 0", "idle", {}, idle_s), actor("worker 1", "computes", {}, 2)});
  };
  for (const auto& moment : {at(0.1, 900), at(900, 0.1)}) {
    EXPECT_EQ(cause(why(moment, "shard 0")), "worker 1 on node b: it computes for 2.0 s");
    EXPECT_EQ(cause(why(moment, "worker 0")), "0 causes");
    EXPECT_THAT(why(moment, "worker 0").text, HasSubstr("compute 0 (b) idle for")) << "it is shown";
  }
  for (const auto& moment : {at(3, 900), at(900, 3)})
    EXPECT_EQ(cause(why(moment, "worker 0")), "compute 0 on node b: it is idle, and worker 0 has waited for it for 3.0 s");
  EXPECT_EQ(cause(why(at(3, 900), "compute 0")), "compute 0 on node b: it has been idle for 900 s");
}

TEST(Why, AShardThatOnlyOthersWaitBesideIsFound) {
  auto behind = actor("shard 1", "is behind a slow link");
  behind.waits_on = "what is under way";
  EXPECT_EQ(
      cause(why(of({actor("shard 0", "collects", {"worker 0"}), behind, actor("worker 0", "waits for parameters", {"shard 0"})}),
                "worker 0")),
      "shard 1 on node b: it is behind a slow link for 1.0 s: what is under way");
}

TEST(Why, AWaitThatIsGivenUpHasItsDeadline) {
  auto waits = actor("coordinator 0", "runs", {"shard 0"});
  const auto all = [&waits] { return of({waits, actor("shard 0", "collects")}); };
  EXPECT_THAT(why(all(), "coordinator 0").text, Not(HasSubstr("given up")));
  EXPECT_TRUE(why(all(), "coordinator 0").json.at("chain").at(0).at("wait_deadline_s").is_null());
  waits.wait_deadline_s = 30;
  EXPECT_THAT(why(all(), "coordinator 0").text, HasSubstr(", waits for shard 0; given up after 30 s\n"));
  EXPECT_EQ(why(all(), "coordinator 0").json.at("chain").at(0).at("wait_deadline_s").as_double(), 30);
}

TEST(Why, ACircleEnds) {
  const auto out = why(of({actor("worker 0", "waits", {"shard 0"}), actor("shard 0", "collects", {"worker 0"})}), "worker 0");
  EXPECT_THAT(out.text, HasSubstr("they wait for each other"));
}

TEST(Why, ACircleAroundOneThatDoesNotAnswerIsItsFault) {
  auto other = actor("shard 1", "collects");
  other.stuck = true;
  const auto out =
      why(of({actor("worker 0", "waits", {"shard 0"}), actor("shard 0", "collects", {"worker 0"}), other}), "worker 0");
  EXPECT_EQ(cause(out), "shard 1 on node b: it collects for 1.0 s, and does not get to answer");
  EXPECT_THAT(out.text, Not(HasSubstr("wait for each other")));
}

/// A shard and a worker that wait for each other, so many steps into job 1.
snapshot circle(double at_s, std::uint64_t steps) {
  auto at = of({actor("worker 0", "waits", {"shard 0"}), actor("shard 0", "collects", {"worker 0"})});
  at.at_s = at_s;
  at.cluster.jobs.push_back({.number = 1, .name = "small", .protocol = "sync", .state = "runs", .steps = steps});
  return at;
}

TEST(Why, ACircleWhoseRoundsCloseIsNoDeadlock) {
  const auto moves = why(circle(10, 100), circle(12, 180), "worker 0");
  EXPECT_THAT(moves.text, HasSubstr("=> moving: 40 rounds/s\n"));
  EXPECT_THAT(moves.text, Not(HasSubstr("wait for each other")));
  EXPECT_EQ(moves.json.at("rounds_per_s").as_double(), 40);
  const auto stands = why(circle(10, 100), circle(12, 100), "worker 0");
  EXPECT_THAT(stands.text, HasSubstr("=> they wait for each other, and no round is closed\n"));
  EXPECT_TRUE(why(circle(10, 100), "worker 0").json.at("rounds_per_s").is_null()) << "one look does not tell";
}

TEST(Why, ACauseIsNamedWhetherRoundsCloseOrNot) {
  auto before = circle(10, 100), now = circle(12, 180);
  now.reports.nodes[0].actors[1].waits_for.clear();
  EXPECT_EQ(cause(why(before, now, "worker 0")), "shard 0 on node b: it collects for 1.0 s");
}

TEST(Names, OfManyOfARoleAreFolded) {
  using ids = std::vector<std::string>;
  EXPECT_EQ(names_text({}), "");
  EXPECT_EQ(names_text({"worker 0", "worker 1", "worker 2", "worker 10"}), "worker 0, worker 1, worker 2, worker 10");
  ids workers;
  for (int i = 0; i < 24; ++i)
    if (i != 7 && i != 22)
      workers.push_back("worker " + std::to_string(i));
  EXPECT_EQ(names_text(workers), "22 workers (0-6, 8-21, 23)");
  workers.insert(workers.begin(), {"node b", "aggregator 3"});
  EXPECT_EQ(names_text(workers), "node b, aggregator 3, 22 workers (0-6, 8-21, 23)");
  ids every_other;
  for (int i = 0; i < 100; i += 2)
    every_other.push_back("worker " + std::to_string(i));
  EXPECT_EQ(names_text(every_other), "50 workers (0, 2, 4, 6, 8, 10, ...)");
}

TEST(Ps, ALongListOfThoseWaitedForIsFoldedForPeopleAlone) {
  const auto out = ps(of({actor("shard 0", "collects", {"worker 0", "worker 1", "worker 2", "worker 3", "worker 4"})}), "");
  EXPECT_THAT(out.text, HasSubstr("5 workers (0-4)\n"));
  EXPECT_EQ(out.json.at("actors").at(0).at("waits_for").as_array().size(), 5U);
}

TEST(Names, OfNobodyAreKnownAsSuchUnlessANodeIsSilent) {
  auto at = of({actor("worker 0", "computes")});
  EXPECT_FALSE(is_nobody(at, "worker:0"));
  EXPECT_TRUE(is_nobody(at, "worker 1"));
  at.reports.nodes.push_back({.node = "c", .job = 1, .silent = "no answer in time"});
  EXPECT_FALSE(is_nobody(at, "worker 1"));
  EXPECT_TRUE(is_nobody(at, "wroker 0"));
}

TEST(Nodes, SayForWhatADrainedOneWaits) {
  snapshot at;
  at.cluster.members = {{.node = {"a"}, .here = true},
                        {.node = {"b"}, .here = true, .leaving = true, .job = 3, .leaving_s = 12},
                        {.node = {"c"}, .here = true, .leaving = true, .leaving_s = 7.5}};
  at.cluster.jobs = {{.number = 3, .name = "small", .protocol = "sync", .state = "runs", .nodes = {"a", "b", "c"}}};
  const auto out = nodes(at);
  EXPECT_THAT(out.text, HasSubstr("leaves when job 3 ends; waits for 12 s  3"));
  EXPECT_THAT(out.text, HasSubstr("drained for 7.5 s\n")) << "the job that it has left is no longer its own";
  EXPECT_EQ(out.json.at("nodes").at(0).at("job").to_number<int>(), 3) << "the coordinator's takes part in all";
  EXPECT_EQ(out.json.at("nodes").at(1).at("state"), "leaves");
  EXPECT_EQ(out.json.at("nodes").at(1).at("leaving_s").as_double(), 12);
  EXPECT_EQ(out.json.at("nodes").at(2).at("job").to_number<int>(), 0);
}

TEST(Jobs, ThatHaveEndedAreListedWithTheirLosses) {
  actors::cluster_view view;
  view.jobs = {{.number = 4, .name = "other", .protocol = "sync", .state = "runs", .nodes = {"a"}, .steps = 5}};
  actors::progress far;
  far.step = 40;
  far.train_loss = 0.25;
  actors::history past;
  past.jobs = {{.number = 3,
                .name = "small",
                .protocol = "async",
                .state = "has ended: trained for 2 epochs",
                .ended = true,
                .now = far,
                .evaluated = actors::evaluation_point{.step = 38, .train_loss = 0.125, .test_loss = 0.5, .test_accuracy = 0.875}},
               {.number = 4, .name = "other", .protocol = "sync", .state = "runs"},
               {.number = 5, .name = "none", .protocol = "sync", .state = "has ended: interrupted", .ended = true}};
  const auto out = jobs(view, past);
  EXPECT_THAT(out.text,
              HasSubstr("3    small  async     40    0.1250      0.5000     0.8750    has ended: trained for 2 epochs\n"));
  EXPECT_THAT(out.text, HasSubstr("5    none   sync      0     -           -          -         has ended: interrupted\n"));
  EXPECT_EQ(out.json.at("jobs").as_array().size(), 1U);
  const auto& ended = out.json.at("ended").as_array();
  ASSERT_EQ(ended.size(), 2U);
  EXPECT_EQ(ended[0].at("test_accuracy").as_double(), 0.875);
  EXPECT_TRUE(ended[1].at("train_loss").is_null());
}

TEST(Why, AnUnknownActorIsRefusedWithALikelyName) {
  const auto out = why(of({actor("worker 0", "computes")}), "workr 0");
  EXPECT_TRUE(out.wrong);
  EXPECT_THAT(out.text, HasSubstr("did you mean worker 0?"));
}

TEST(Names, CarryTheJobOnlyWhereSeveralRun) {
  auto at = of({actor("worker 0", "computes")});
  EXPECT_EQ(name_of(at.actors()[0], at), "worker 0");
  auto other = actor("worker 0", "waits", {"shard 0"});
  other.job = 2;
  other.parent = "node c";
  at.reports.nodes.push_back({.node = "c", .job = 2, .actors = {other}});
  const auto all = at.actors();
  EXPECT_EQ(name_of(all[0], at), "1/worker 0");
  EXPECT_EQ(find_actor(all, at, "2/worker 0")->state, "waits");
  EXPECT_EQ(find_actor(all, at, "worker 0"), nullptr);
  const auto listed = ps(at, "worker").json.at("actors").as_array();
  EXPECT_EQ(listed.at(1).at("waits_for").at(0), "2/shard 0");
  EXPECT_EQ(listed.at(1).at("parent"), "2/node c");
}

TEST(Ps, SortsByRoleAndNumberAndFilters) {
  const auto at = of({actor("worker 10", "computes"), actor("worker 9", "computes"), actor("shard 0", "collects")});
  const auto out = ps(at, "worker");
  const auto& list = out.json.at("actors").as_array();
  ASSERT_EQ(list.size(), 2U);
  EXPECT_EQ(list[0].at("id").as_string(), "worker 9");
}

TEST(Stragglers, AreThoseBeyondThreeDeviations) {
  std::vector<actors::actor_report> workers;
  for (int i = 0; i < 5; ++i) {
    workers.push_back(actor("worker " + std::to_string(i), "waits for parameters"));
    workers.back().fields["compute_ms"] = i == 3 ? "50" : "10." + std::to_string(i);
  }
  const auto out = stragglers(of(workers));
  for (const auto& each : out.json.at("workers").as_array())
    EXPECT_EQ(!each.at("verdict").as_string().empty(), each.at("id").as_string() == "worker 3") << each.at("id");
  EXPECT_THAT(out.text, HasSubstr("4.9 times the median"));
}

TEST(Stragglers, AreNamedByThePartThatIsUnusual) {
  std::vector<actors::actor_report> workers;
  for (int i = 0; i < 5; ++i) {
    workers.push_back(actor("worker " + std::to_string(i), "waits for parameters"));
    workers.back().node = std::string(1, static_cast<char>('b' + i));
    workers.back().fields = {{"compute_ms", "10"}, {"queue_ms", i == 1 ? "8" : i == 2 ? "0.9" : "0.1"}};
  }
  auto at = of({actor("shard 0", "collects")});
  at.reports.nodes[0].node = at.reports.nodes[0].actors[0].node = "a";
  for (auto& worker : workers)
    at.reports.nodes.push_back(
        {.node = worker.node,
         .job = 1,
         .actors = {worker},
         .links = {{.peer = "a", .round_trip_s = worker.node == "e" ? 0.03 : 0.0002}, {.peer = "x", .round_trip_s = 9}}});
  const auto out = stragglers(at);
  std::vector<std::string> verdicts;
  for (const auto& each : out.json.at("workers").as_array())
    verdicts.emplace_back(each.at("verdict").as_string());
  EXPECT_THAT(verdicts, testing::ElementsAre("", "waits for its data: 80.0 times the median", "",
                                             "behind a slow lane: 150.0 times the median", ""))
      << "0.9 ms is unusual, and less than a tenth of a step";
}

/// The verdicts on workers whose steps take so long.
std::vector<std::string> verdicts_on(std::initializer_list<const char*> compute_ms) {
  std::vector<actors::actor_report> workers;
  for (const auto* ms : compute_ms) {
    workers.push_back(actor("worker " + std::to_string(workers.size()), "waits for parameters"));
    workers.back().fields["compute_ms"] = ms;
  }
  std::vector<std::string> out;
  const auto said = stragglers(of(workers));
  for (const auto& each : said.json.at("workers").as_array())
    out.emplace_back(each.at("verdict").as_string());
  return out;
}

TEST(Stragglers, OfFewAreThoseThatTakeHalfAgainAsLongAsTheFastest) {
  using testing::ElementsAre;
  EXPECT_THAT(verdicts_on({"10"}), ElementsAre(""));
  EXPECT_THAT(verdicts_on({"50", "10"}), ElementsAre("slow to compute: 5.0 times the fastest", ""));
  EXPECT_THAT(verdicts_on({"10", "16"}), ElementsAre("", "slow to compute: 1.6 times the fastest"));
  EXPECT_THAT(verdicts_on({"10", "15"}), ElementsAre("", ""));
  // The MAD is 30, and would excuse both.
  EXPECT_THAT(verdicts_on({"10", "40", "100"}),
              ElementsAre("", "slow to compute: 4.0 times the fastest", "slow to compute: 10.0 times the fastest"));
  // Of four it is 0.5, and the fastest is no longer the measure.
  EXPECT_THAT(verdicts_on({"1", "10", "11", "11"}), ElementsAre("", "", "", ""));
  EXPECT_THAT(verdicts_on({"10", "10", "10", "12"}), ElementsAre("", "", "", "slow to compute: 1.2 times the median"));
}

TEST(Stragglers, WhoeverHasNotMadeAStepIsNoMeasureForOthers) {
  using testing::ElementsAre;
  EXPECT_THAT(verdicts_on({"0.000", "10"}), ElementsAre("", ""));
  EXPECT_THAT(verdicts_on({"0.000", "0.000", "0.000", "0.000", "10"}), ElementsAre("", "", "", "", ""));
  EXPECT_THAT(verdicts_on({"0.000", "0.000", "10", "50"}), ElementsAre("", "", "", "slow to compute: 5.0 times the fastest"));
}

TEST(Stragglers, OfTwoALaneOfNoLengthIsNoMeasureForTheOther) {
  auto at = of({actor("shard 0", "collects"), actor("worker 0", "waits for parameters")});
  at.reports.nodes.push_back(
      {.node = "c", .job = 1, .actors = {actor("worker 1", "waits for parameters")}, .links = {{.peer = "b"}}});
  at.reports.nodes[0].actors[1].fields["compute_ms"] = at.reports.nodes[1].actors[0].fields["compute_ms"] = "10";
  at.reports.nodes[1].actors[0].node = "c";
  const auto verdict = [&](double round_trip_s) {
    at.reports.nodes[1].links[0].round_trip_s = round_trip_s;
    return std::string{stragglers(at).json.at("workers").at(1).at("verdict").as_string()};
  };
  EXPECT_EQ(verdict(0.004), "");
  EXPECT_EQ(verdict(0.006), "behind a slow lane: 6.00 ms");
}

TEST(Stragglers, TheRuleIsSaid) {
  const auto one = actor("worker 0", "waits for parameters");
  EXPECT_THAT(stragglers(of({one})).text, HasSubstr("slow is 1.5 times as long as the fastest"));
}

TEST(Stragglers, AStepThatIsUnderWayCountsToo) {
  std::vector<actors::actor_report> workers;
  for (int i = 0; i < 4; ++i) {
    workers.push_back(actor("worker " + std::to_string(i), i == 2 ? "computes" : "waits for parameters", {}, i == 2 ? 4.0 : 0.1));
    workers.back().fields["compute_ms"] = "10";
  }
  EXPECT_THAT(stragglers(of(workers)).text, HasSubstr("slow to compute: 400.0 times the median"));
}

} // namespace
} // namespace troupe::apps::console
