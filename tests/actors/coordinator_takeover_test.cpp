// SPDX-License-Identifier: BSD-3-Clause
// A coordinator whose decisions outlive it, and one that goes on with a job where another was lost.
#include <algorithm>
#include <utility>

#include "actors/cluster/decisions/returning_job.hpp"
#include "actors/node/place_roles.hpp"
#include "tests/actors/decided_job.hpp"

namespace troupe::actors {
namespace {

namespace ledger = protocols::ledger;
using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;

TEST_F(Decided, APlanIsToldOnceItIsDecided) {
  begin();
  EXPECT_THAT(told<protocols::plan>(), ElementsAre(0, 0, 0));
  ASSERT_EQ(slow.asked.size(), 1U);
  const auto& what = std::get<ledger::planned>(slow.asked[0]);
  EXPECT_EQ(std::pair(what.number, what.life), std::pair(ledger::job_number{5}, 2U));
  EXPECT_EQ(what.plan.workers.size(), 4U);
  decide();
  EXPECT_THAT(told<protocols::plan>(), ElementsAre(1, 1, 1));
  EXPECT_EQ(scripts[2]->job->orphan_s, 30);
  EXPECT_EQ(scripts[2]->job->term, 9U);
}

TEST_F(Decided, WhatHappensMeanwhileComesBehindWhatWaits) {
  begin();
  decide();
  say(role_lost{1, role_lost::kind::worker, 0, "it died"});
  say(role_lost{1, role_lost::kind::worker, 1, "it died"});
  EXPECT_THAT(told<protocols::plan>(), ElementsAre(1, 1, 1));
  EXPECT_THAT(told<protocols::worker_down>(), ElementsAre(0, 0, 0)) << "it is part of what is decided";
  decide();
  EXPECT_THAT(planned_workers(), ElementsAre(1, 2, 3));
  decide();
  EXPECT_THAT(planned_workers(), ElementsAre(2, 3));
  EXPECT_THAT(told<protocols::worker_down>(), ElementsAre(2, 2, 2));
}

TEST_F(Decided, AProcessIsAskedBackOnceItsIncarnationIsDecided) {
  begin();
  decide_all();
  kill(nodes[1]);
  decide_all();
  const auto again = comes_back(1);
  EXPECT_FALSE(again->job) << "nobody else ever has this incarnation";
  EXPECT_EQ(std::get<ledger::incarnated>(slow.asked.back()), (ledger::incarnated{5, 2, false, 1, 1}));
  decide();
  ASSERT_TRUE(again->job);
  EXPECT_EQ(again->job->incarnation, 1U);
}

TEST_F(Decided, ALeaderThatCannotDecideAnyMoreEndsWithoutAWord) {
  begin();
  decide();
  say(role_lost{1, role_lost::kind::worker, 0, "it died"});
  decide({{}, "another one leads"});
  EXPECT_THAT(told<stop_job>(), ElementsAre(0, 0, 0)) << "whoever leads goes on with the job";
  EXPECT_THAT(told<protocols::plan>(), ElementsAre(1, 1, 1));
  EXPECT_EQ(seen->ends, 0);
}

TEST_F(Decided, ASingleOneWhoseJournalFailsGoesOnWithoutIt) {
  decided.alone = true;
  begin();
  decide({{}, "the disk is full"});
  EXPECT_THAT(told<protocols::plan>(), ElementsAre(1, 1, 1));
  say(role_lost{1, role_lost::kind::worker, 0, "it died"});
  EXPECT_THAT(planned_workers(), ElementsAre(1, 2, 3));
}

TEST_F(Decided, APlanForWhichThereIsNoRoomEndsTheJobAndSaysSo) {
  begin();
  decide({"the journal has no room for a plan of 4 workers", {}});
  EXPECT_TRUE(seen->result.failed);
  EXPECT_EQ(seen->result.reason, "the journal has no room for a plan of 4 workers");
}

TEST_F(Decided, NodesHearOfTheEndOnceThatIsDecided) {
  begin();
  decide();
  say(stop_job{true, "the user does not want it"});
  EXPECT_EQ(seen->ends, 1);
  EXPECT_THAT(told<stop_job>(), ElementsAre(0, 0, 0)) << "another leader may have to go on with it";
  say(end_decided{});
  EXPECT_THAT(told<stop_job>(), ElementsAre(1, 1, 1));
}

/// Three nodes have the job at step 40, under plan 4; the ledger decides at once.
class TakenOver : public Decided {
protected:
  TakenOver() {
    ledger::course course{.key = 77};
    course.plan = {.epoch = {4}, .workers = {{{0}, {}}, {{1}, {}}, {{2}, {}}, {{3}, {}}}, .period = 1, .batch = 10};
    course.plan.protocol = job.protocol;
    decided.taken_over = course;
    for (std::uint32_t i = 0; i < 3; ++i) {
      adopted_part part;
      part.standing = {.job_key = 77, .node = i, .epoch = {4}, .names = {"node-0", "node-1", "node-2"}};
      std::vector<member_node> all(3);
      for (std::uint32_t n = 0; n < 3; ++n)
        all[n].name = "node-" + std::to_string(n);
      part.places = place_roles(job, all);
      part.prepared = {.data_size = 100, .floats = 7};
      for (const auto& worker : part.places.workers)
        if (worker.node == i)
          part.standing.workers.push_back({{worker.index}, {}});
      for (const auto& holder : part.places.holders)
        if (holder.node == i)
          part.standing.holders.push_back(holder.index);
      scripts[i]->part = part;
    }
    scripts[0]->part->standing.evaluates = true;
    scripts[0]->part->lead = lead_word{{.plans = {course.plan}, .made = {40}, .samples = 40}, {.gradients = 160}, true};
    job.stop = {.steps = 1000};
  }
  void take_over() {
    begin();
    decide_all();
  }
  /// Which has thought about what it has of the job.
  void answers(std::size_t node) {
    caf::anon_send(nodes[node], node_notice{});
    run();
    decide_all();
  }
};

TEST_F(TakenOver, NobodyIsPreparedOrStartedAgain) {
  take_over();
  for (const auto& script : scripts) {
    EXPECT_FALSE(script->job);
    EXPECT_FALSE(script->places);
    ASSERT_TRUE(script->adopted);
    EXPECT_EQ(script->adopted->job_key, 77U);
    EXPECT_EQ(script->adopted->term, 9U);
  }
  EXPECT_TRUE(seen->started);
  EXPECT_THAT(seen->events, Contains("the job is at step 40, with another coordinator"));
  const auto plans = scripts[1]->all<protocols::plan>();
  ASSERT_EQ(plans.size(), 2U);
  EXPECT_EQ(plans[0].epoch.value, 4U) << "it may have missed it";
  EXPECT_EQ(plans[1].epoch.value, 5U);
  EXPECT_EQ(plans[1].workers, plans[0].workers);
  ASSERT_EQ(decisions.size(), 1U);
  EXPECT_EQ(std::get<ledger::planned>(decisions[0]).plan.epoch.value, 5U) << "what is decided already is not decided again";
  close_round(41, 41);
  EXPECT_THAT(seen->steps, ElementsAre(41));
}

TEST_F(TakenOver, WorkersOfANodeThatHasNotComeBackAreLost) {
  not_back = {2};
  take_over();
  EXPECT_THAT(planned_workers(), ElementsAre(0, 1));
  EXPECT_THAT(seen->events, Contains(HasSubstr("node node-2 has not come back to the coordinator that leads now")));
  const auto again = comes_back(2);
  decide_all();
  ASSERT_TRUE(again->job) << "it joins as any node that was lost";
  EXPECT_EQ(again->job->incarnation, 1U);
}

TEST_F(TakenOver, AnAggregatorThatIsGoneDoesNotComeBackWithItsNode) {
  job.protocol.fan_in = decided.taken_over->plan.protocol.fan_in = 2;
  decided.taken_over->plan.gone = {{1}};
  const auto places = place_roles(job, std::vector<member_node>(3));
  ASSERT_TRUE(places.holders[1].aggregates);
  const auto node = places.holders[1].node;
  for (const auto& script : scripts) // they do not know where roles are that are gone
    script->part->places.holders = places.holders;
  take_over();
  kill(nodes[node]);
  decide_all();
  const auto again = comes_back(node);
  decide_all();
  ASSERT_TRUE(again->places);
  EXPECT_EQ(again->places->holders[1].node, nowhere);
  EXPECT_EQ(seen->ends, 0);
}

TEST_F(TakenOver, ARoleThatDiedWhileNobodyLedIsLostNow) {
  scripts[1]->part->lost = {{1, role_lost::kind::worker, 1, "its device failed"}};
  take_over();
  EXPECT_THAT(planned_workers(), ElementsAre(0, 2, 3));
  EXPECT_THAT(seen->events, Contains(HasSubstr("worker 1 (node-1) is lost: its device failed")));
}

TEST_F(TakenOver, ANodeThatComesBackAnewBeforeTheOthersHaveAnsweredJoinsTheJob) {
  not_back = {2};
  scripts[1]->thinks = true;
  take_over();
  const auto again = comes_back(2);
  EXPECT_FALSE(again->job) << "it is not known yet where its roles were";
  answers(1);
  EXPECT_EQ(seen->ends, 0);
  ASSERT_TRUE(again->job);
  EXPECT_EQ(again->job->incarnation, 1U);
}

TEST_F(TakenOver, WhatIsLostBeforeTheOthersHaveAnsweredIsLostNow) {
  scripts[1]->thinks = true;
  take_over();
  say(role_lost{0, role_lost::kind::evaluator, 0, "its device failed"});
  say(peer_unreachable{0, 2, 0, false, "reset"});
  answers(1);
  ASSERT_TRUE(scripts[2]->job) << "it was put out, and is asked back";
  EXPECT_EQ(scripts[2]->job->incarnation, 1U);
  EXPECT_THAT(seen->events, Contains(HasSubstr("evaluator 0 (node-0) is lost: its device failed")));
  EXPECT_EQ(seen->ends, 0);
}

TEST_F(TakenOver, ANodeThatDiesBeforeTheOthersHaveAnsweredIsLostNow) {
  scripts[1]->thinks = true;
  take_over();
  kill(nodes[2]);
  answers(1);
  EXPECT_THAT(planned_workers(), ElementsAre(0, 1));
  EXPECT_EQ(seen->ends, 0);
}

TEST_F(TakenOver, WhatTheLeadReportsBeforeTheOthersHaveAnsweredCountsOnce) {
  scripts[1]->thinks = true;
  take_over();
  close_round(40, 40); // its answer has that one, too
  close_round(41, 41);
  evaluate(41);
  EXPECT_TRUE(seen->steps.empty());
  answers(1);
  EXPECT_THAT(seen->steps, ElementsAre(41));
  EXPECT_TRUE(seen->evaluations.empty()) << "nobody has asked for it";
}

TEST_F(TakenOver, AnEvaluationThatWasOpenIsRepeated) {
  scripts[0]->part->lead->report.held = true;
  take_over();
  EXPECT_THAT(told<protocols::fetch_order>(), ElementsAre(1, 0, 0));
  EXPECT_THAT(told<pause_order>(), ElementsAre(1, 1, 1));
  hold(40, 40); // the lead's report comes late
  evaluate(40);
  EXPECT_EQ(seen->evaluations.size(), 1U);
  EXPECT_THAT(told<protocols::resume_order>(), ElementsAre(1, 1, 1));
}

TEST_F(TakenOver, EvaluationsThatItsClientMayHaveMissedAreToldAgain) {
  scripts[0]->part->lead->tally.held = {{{20}, 20, 2'000'000'000}, {{30}, 30, 3'000'000'000}};
  for (const auto& [step, loss] : {std::pair{10U, 1.0}, {20U, 0.5}, {30U, 0.25}}) {
    auto& found = scripts[0]->part->evaluations.emplace_back();
    found.ver = {step};
    found.train_loss = loss;
  }
  take_over();
  ASSERT_EQ(seen->evaluations.size(), 2U) << "of the third the lead knows nothing";
  EXPECT_EQ(seen->evaluations[0].step, 20U);
  EXPECT_EQ(seen->evaluations[1].train_loss, 0.25);
  EXPECT_EQ(seen->evaluations[1].seconds, 3.0);
}

TEST_F(TakenOver, AJobWhoseShardIsGoneCannotGoOnAsItIs) {
  scripts[0]->part.reset();
  take_over();
  EXPECT_TRUE(seen->result.lost_before_start) << "it begins at a checkpoint";
  EXPECT_EQ(seen->result.reason, "shard 0 is on no node that has come back");
  EXPECT_THAT(seen->events, Contains("node node-0 has no part in the job any more: it has no part of that job"));
}

TEST_F(TakenOver, AJobWithoutAWorkerCannotGoOnAsItIs) {
  for (const auto node : {1, 2})
    for (const auto& who : scripts[node]->part->standing.workers)
      scripts[node]->part->lost.push_back(
          {static_cast<std::uint32_t>(node), role_lost::kind::worker, who.worker.value, "it died"});
  take_over();
  EXPECT_EQ(seen->result.reason, "none of its workers has come back");
}

TEST_F(TakenOver, ABackupThatIsInAShardsPlaceIsFoundThere) {
  job.cluster.replicas = 2;
  std::vector<member_node> all(3);
  for (const auto& script : scripts)
    script->part->places = place_roles(job, all);
  const auto by = scripts[0]->part->places.holders[1];
  ASSERT_EQ(by.backup_of, 0U);
  auto& course = *decided.taken_over;
  course.acting = {{{0}, {1}}};
  course.gone = {{1}};
  course.view = 1;
  scripts[by.node]->part->lead = std::exchange(scripts[0]->part->lead, {});
  scripts[by.node]->part->standing.holders = {0};
  not_back = {0};
  take_over();
  EXPECT_THAT(seen->events, Contains("the job is at step 40, with another coordinator"));
  const auto told = scripts[by.node]->all<protocols::takes_over>();
  ASSERT_EQ(told.size(), 1U) << "its node has not heard of that";
  EXPECT_THAT(told[0].holders, ElementsAre(protocols::holder_id{0})) << "a lead waits for all of these";
  EXPECT_EQ(scripts[by.node]->all<evaluator_place>().at(0).node, by.node) << "the evaluator is lost with its node";
  EXPECT_EQ(seen->ends, 0);
}

/// The first backup is lost; node 2 has been back once, and holder 2 is the shard's other copy there.
class TakenOverCopies : public TakenOver {
protected:
  TakenOverCopies() {
    job.cluster.replicas = 2;
    std::vector<member_node> all(3);
    for (std::uint32_t n = 0; n < 3; ++n)
      all[n].name = "node-" + std::to_string(n);
    before = place_roles(job, all);
    before.lose({1});
    before.nodes[2].incarnation = 1;
    auto& course = *decided.taken_over;
    course.nodes = {{2, {1}}};
    course.gone = {{1}};
    course.copies = {{{2}, {{0}, 2, false}}};
    course.first_copy = course.newest_copy = {2};
    after = before;
    after.add({.index = 2, .node = 2, .backup_of = 0, .catches_up = true});
    know(after);
    scripts[2]->part->standing.holders = {2};
  }
  void know(const job_places& places) {
    for (const auto& script : scripts)
      script->part->places = places;
  }
  std::vector<std::uint32_t> placed_on(std::size_t node) const {
    std::vector<std::uint32_t> out;
    for (const auto& each : scripts[node]->all<backup_place>())
      out.push_back(each.holder.index);
    return out;
  }
  job_places before, after;
};

TEST_F(TakenOverCopies, OneThatAllKnowOfGoesOnAndTakesItsShardsPlace) {
  take_over();
  EXPECT_THAT(told<backup_place>(), ElementsAre(0, 0, 0));
  say(protocols::caught_up{{2}});
  decide_all();
  EXPECT_THAT(seen->events, Contains("node node-2 has a whole copy of shard 0, as replica 2"));
  kill(nodes[0]);
  decide_all();
  const auto told = scripts[2]->all<protocols::takes_over>();
  ASSERT_EQ(told.size(), 1U);
  EXPECT_EQ(told[0].by, protocols::holder_id{2});
  EXPECT_EQ(seen->ends, 0);
}

TEST_F(TakenOverCopies, OneThatSaysThatItIsWholeBeforeTheJobIsTakenOverCounts) {
  scripts[1]->thinks = true;
  take_over();
  say(protocols::caught_up{{2}});
  answers(1);
  EXPECT_THAT(decisions, Contains(ledger::entry{ledger::copied{5, 2, {2}}}));
}

TEST_F(TakenOverCopies, OneOfWhichNotAllKnowBeginsAnew) {
  scripts[1]->part->places = before;
  take_over();
  EXPECT_THAT(decisions, Contains(ledger::entry{ledger::holder_lost{5, 2, {2}}}));
  EXPECT_THAT(decisions, Contains(ledger::entry{ledger::placed{5, 2, {3}, {0}, 2}})) << "under another number";
  for (std::size_t node = 0; node < 3; ++node)
    EXPECT_THAT(placed_on(node), ElementsAre(3)) << node;
  const auto told = scripts[0]->all<protocols::new_backup>();
  ASSERT_EQ(told.size(), 1U);
  EXPECT_EQ(told[0].holder, protocols::holder_id{3});
}

TEST_F(TakenOverCopies, WhoMissedALossHearsOfIt) {
  auto both = after;
  both.holders[1] = {.index = 1, .node = 1, .backup_of = 0};
  scripts[0]->part->places = both;
  take_over();
  const auto told = scripts[0]->all<protocols::holder_down>();
  ASSERT_EQ(told.size(), 1U) << "or the lead waits for it for ever";
  EXPECT_EQ(told[0].holder, protocols::holder_id{1});
  EXPECT_TRUE(scripts[1]->all<protocols::holder_down>().empty());
}

TEST_F(TakenOverCopies, WhoMissedOneThatIsWholeHearsOfIt) {
  decided.taken_over->copies[{2}].whole = true;
  scripts[1]->part->places = before;
  take_over();
  EXPECT_THAT(placed_on(1), ElementsAre(2));
  EXPECT_THAT(placed_on(0), ElementsAre());
  kill(nodes[0]);
  decide_all();
  EXPECT_EQ(scripts[1]->all<protocols::takes_over>().size(), 1U);
}

TEST_F(TakenOverCopies, OneThatIsAShardIsFoundThere) {
  auto& course = *decided.taken_over;
  course.copies[{2}].whole = true;
  course.acting = {{{0}, {2}}};
  course.view = 1;
  know(before); // none has heard of anything
  scripts[2]->part->lead = std::exchange(scripts[0]->part->lead, {});
  scripts[2]->part->standing.holders = {0};
  not_back = {0};
  take_over();
  EXPECT_THAT(seen->events, Contains("the job is at step 40, with another coordinator"));
  for (const std::size_t node : {1, 2}) {
    EXPECT_THAT(placed_on(node), ElementsAre(2));
    EXPECT_EQ(scripts[node]->all<protocols::takes_over>().size(), 1U);
  }
  EXPECT_EQ(seen->ends, 0);
}

TEST_F(TakenOverCopies, OneThatIsNotWholeIsNoCopy) {
  not_back = {0};
  take_over();
  EXPECT_EQ(seen->result.reason, "shard 0 is on no node that has come back");
}

TEST(ReturningJob, ACopyThatCameLaterCountsOnceItIsWhole) {
  ledger::course course;
  course.key = 7;
  course.copies = {{{4}, {{0}, 1, false}}};
  const job_standing there{.job_key = 7, .node = 1, .workers = {{{0}, {}}}, .holders = {4}};
  returning_job half{course, {"y"}};
  half.on("y", 5, there);
  EXPECT_FALSE(half.is_whole({.workers = 1, .shards = 1, .replicas = 2}));
  course.copies[{4}].whole = true;
  returning_job whole{course, {"y"}};
  whole.on("y", 5, there);
  EXPECT_TRUE(whole.is_whole({.workers = 1, .shards = 1, .replicas = 2}));
}

TEST(ReturningJob, IsWholeOnceACopyOfEachShardAndAWorkerAreThere) {
  ledger::course course;
  course.key = 7;
  returning_job back{course, {"x", "y", "z"}};
  EXPECT_FALSE(back.is_whole({.shards = 2, .replicas = 2}));
  const std::vector<std::string> names{"x", "y", "z"};
  back.on("x", 4, job_standing{.job_key = 7, .node = 0, .holders = {0}, .names = names});
  EXPECT_FALSE(back.is_whole({.shards = 2, .replicas = 2})) << "neither shard 1 nor a worker";
  back.on("y", 5, job_standing{.job_key = 7, .node = 1, .workers = {{{0}, {}}}, .holders = {3}, .names = names});
  EXPECT_TRUE(back.is_whole({.shards = 2, .replicas = 2})) << "holder 3 is shard 1's copy";
  EXPECT_FALSE(back.is_whole({.shards = 2, .replicas = 1}));
  EXPECT_THAT(back.awaited(), ElementsAre("z"));
  back.on("z", 6, {});
  EXPECT_TRUE(back.awaited().empty());
  EXPECT_EQ(back.members().size(), 2U);
}

TEST(ReturningJob, AnAggregatorIsNoCopyOfAShard) {
  ledger::course course;
  course.key = 7;
  returning_job back{course, {"x", "y"}};
  const protocols::tree_shape shape{.workers = 4, .shards = 1, .fan_in = 2, .replicas = 2};
  back.on("x", 1, job_standing{.job_key = 7, .node = 0, .workers = {{{0}, {}}}, .holders = {1, 2}});
  EXPECT_FALSE(back.is_whole(shape)) << "1 and 2 are aggregators";
  back.on("y", 2, job_standing{.job_key = 7, .node = 1, .holders = {3}});
  EXPECT_TRUE(back.is_whole(shape));
}

TEST(ReturningJob, APartInAnotherJobIsNone) {
  ledger::course course;
  course.key = 7;
  returning_job back{course, {"x"}};
  back.on("x", 4, job_standing{.job_key = 8, .node = 0, .workers = {{{0}, {}}}, .holders = {0}, .names = {"x"}});
  EXPECT_TRUE(back.awaited().empty());
  EXPECT_FALSE(back.is_whole({}));
}

} // namespace
} // namespace troupe::actors
