// SPDX-License-Identifier: BSD-3-Clause
// Allreduce: a worker's steps by hand, what it refuses, a death; the count at the lead.
#include "protocols/allreduce.hpp"
#include "protocols/allreduce_rule.hpp"

#include <utility>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "protocols/lead.hpp"
#include "tests/protocols/reducing.hpp"

namespace troupe::protocols {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

// -- the worker

TEST(Allreduce, ItBeginsAtTheInitialParametersOnceAllHaveThem) {
  allreduce_worker worker{life(1), {.which = algorithm::direct}};
  EXPECT_EQ(worker.on(plan_of(1, {0, 1})), worker_effects{});
  EXPECT_EQ(worker.on(standing(0, 1, 0)), worker_effects{}) << "the other is first";
  const worker_effects out = worker.on(params{.epoch = e(1), .parameters = t(50)});
  EXPECT_EQ(out, (worker_effects{adopt{v(0), t(50)}, send_peer{w(0), standing(1, 1, 0)}, cut(1, 0, 1, 2)}));
  EXPECT_EQ(worker.on(params{.epoch = e(1), .key = 9, .parameters = t(51)}), worker_effects{}) << "there are no others";
}

TEST(Allreduce, OnlyAnOwnersTermsAndSumsMayBeEncoded) {
  using collective::cargo;
  allreduce_worker worker = begun(plan_of(1, {0, 1}));
  EXPECT_EQ(only<send_peer>(worker.on(done(1, 100))).cargo, cargo::term);
  EXPECT_EQ(only<send_peer>(worker.on(chunk(1, 1, 0, {0, 1, 2}, 101))).cargo, cargo::sum);
  allreduce_worker by_ring = begun(plan_of(1, {0, 1}), algorithm::ring);
  EXPECT_EQ(only<send_peer>(by_ring.on(done(1, 100))).cargo, cargo::plain);
}

TEST(Allreduce, ItBeginsAtThePlaceOfTheInitialParameters) {
  allreduce_worker worker{life(0), {.which = algorithm::direct}};
  worker.on(plan_of(1, {0}));
  EXPECT_EQ(only<compute>(worker.on(params{.epoch = e(1), .position = 40, .parameters = t(50)})), cut(1, 40, 0, 1));
}

TEST(Allreduce, AnOldPlanIsNoPlan) {
  allreduce_worker worker = begun(plan_of(2, {0, 1}));
  EXPECT_EQ(worker.on(plan_of(1, {0, 1, 2})), worker_effects{});
  EXPECT_EQ(worker.on(plan_of(2, {0, 1})), worker_effects{});
}

TEST(Allreduce, WhoIsNotInThePlanSaysNothing) {
  allreduce_worker worker = begun(plan_of(1, {0, 1}));
  EXPECT_EQ(worker.on(plan_of(2, {1})), worker_effects{}) << "its step is still being computed";
  EXPECT_EQ(worker.on(done(1, 100)), worker_effects{discard{t(100)}});
}

// Of 10 and 5 samples: thirds, as a shard weighs them.
TEST(Allreduce, DirectWeighsEachGradientBySamplesInWorkerOrder) {
  allreduce_worker worker = begun(plan_of(1, {0, 1}));
  EXPECT_EQ(
      worker.on(done(1, 100)),
      (worker_effects{send_peer{
          w(1),
          {.from = life(0), .round = 1, .data = t(100), .is = kind::chunk, .epoch = e(1), .part = {1, 2, 2}, .facts = {10, 5}},
          collective::cargo::term}}));
  const worker_effects own = worker.on(chunk(1, 1, 0, {0, 1, 2}, 101, {5, 1}));
  ASSERT_EQ(own.size(), 3U);
  EXPECT_EQ(own[0], worker_effect(add_up{t(100), {0, 1, 2}, {{t(100), 10. / 15}, {t(101), 5. / 15}}}));
  EXPECT_EQ(own[1], worker_effect(discard{t(101)}));
  EXPECT_EQ(std::get<send_peer>(own[2]).message.facts, (facts{15, 6}));
  const worker_effects last = worker.on(chunk(1, 1, 1, {1, 2, 2}, 102, {15, 6}));
  ASSERT_EQ(last.size(), 5U);
  EXPECT_EQ(last[0], worker_effect(add_up{t(100), {1, 2, 2}, {{t(102), 1}}}));
  EXPECT_EQ(last[2], worker_effect(take_step{{.epoch = e(1), .ver = v(1), .workers = 2}, {t(100), 1}}));
  EXPECT_EQ(last[3], worker_effect(send_push{
                         {.epoch = e(1), .id = {w(0), {}, {1}}, .samples = 15, .loss = 0.4, .compute = 3, .applied = 15}}));
  EXPECT_EQ(last[4], worker_effect(cut(2, 20, 0, 2)));
}

TEST(Allreduce, ElsewhereEachGradientGoesByItsShareOfTheBatch) {
  allreduce_worker worker = begun(plan_of(1, {0, 1}), algorithm::ring);
  const worker_effects out = worker.on(done(1, 100));
  EXPECT_EQ(out[0], worker_effect(add_up{t(100), {}, {{t(100), 0.5}}}));
  const worker_effects sum = worker.on(chunk(1, 1, 0, {1, 2, 2}, 101));
  EXPECT_EQ(sum[0], worker_effect(add_up{t(100), {1, 2, 2}, {{t(101), 1}, {t(100), 1}}}));
}

/// One of four workers, two on each of two nodes, in its first step. `group`: 0, by nodes; else by numbers.
allreduce_worker one_of_four(std::uint32_t self, std::uint32_t group, const plan& with) {
  allreduce_worker out{life(self), {.which = algorithm::direct, .group = group}};
  if (group == 0)
    out.nodes_are({2, 2});
  return begun(with, std::move(out), life(self));
}

// Its first takes part for both workers of a node; terms go by their shares, for it does not know those of the other node.
TEST(Allreduce, WorkersOfANodeAreSummedFirst) {
  for (const std::uint32_t group : {0U, 2U}) {
    allreduce_worker first = one_of_four(0, group, plan_of(1, {0, 1, 2, 3}));
    EXPECT_EQ(first.on(done(1, 100)), worker_effects{add_up({t(100), {}, {{t(100), 0.25}}})}) << "it waits for its neighbour";
    EXPECT_THAT(first.waiting_for(), ElementsAre(w(1)));
    const worker_effects own = first.on(chunk(1, 1, 0, {0, 2, 2}, 101));
    EXPECT_EQ(own[0], worker_effect(add_up{t(100), {0, 2, 2}, {{t(100), 1}, {t(101), 1}}}));
    EXPECT_EQ(only<send_peer>(own).to, w(2)) << "the first of the other node";
    EXPECT_EQ(only<send_peer>(own).message.part, (segment_range{1, 2, 2}));
    EXPECT_EQ(only<send_peer>(own).message.facts, (facts{20, 10}));
    const worker_effects other = first.on(chunk(2, 1, 2, {0, 1, 2}, 102, {20, 10}));
    EXPECT_EQ(other[0], worker_effect(add_up{t(100), {0, 1, 2}, {{t(100), 1}, {t(102), 1}}}));
    const worker_effects last = first.on(chunk(2, 1, 3, {1, 2, 2}, 103, {40, 20}));
    EXPECT_EQ(only<send_peer>(last).to, w(1));
    EXPECT_EQ(only<send_peer>(last).message.part, (segment_range{0, 2, 2})) << "all of it";
    EXPECT_EQ(only<take_step>(last).sum, (term{t(100), 1}));
    EXPECT_EQ(only<send_push>(last).push.samples, 40);
  }
}

TEST(Allreduce, TheOthersOfANodeGiveAndTakeAllOfIt) {
  allreduce_worker other = one_of_four(3, 0, plan_of(1, {0, 1, 2, 3}));
  const worker_effects out = other.on(done(1, 100));
  EXPECT_EQ(only<send_peer>(out).to, w(2));
  EXPECT_EQ(only<send_peer>(out).message.part, (segment_range{0, 2, 2}));
  EXPECT_THAT(only<refuse>(other.on(chunk(1, 1, 0, {0, 2, 2}, 102))).why, HasSubstr("not in the schedule"));
  const worker_effects sum = other.on(chunk(2, 1, 1, {0, 2, 2}, 101, {40, 20}));
  EXPECT_EQ(sum[0], worker_effect(add_up{t(100), {0, 2, 2}, {{t(101), 1}}}));
  EXPECT_EQ(only<take_step>(sum).sum, (term{t(100), 1}));
}

// So the bits are those of the same groups anywhere.
TEST(Allreduce, AGroupThatIsGivenIsOneWhereThereIsNoOther) {
  allreduce_worker other = one_of_four(1, 4, plan_of(1, {0, 1, 2, 3}));
  const worker_effects out = other.on(done(1, 100));
  ASSERT_EQ(count<send_peer>(out), 1U);
  EXPECT_EQ(only<send_peer>(out).to, w(0));
  EXPECT_EQ(only<send_peer>(out).message.part, (segment_range{0, 1, 1}));
}

// Who is left of a node is its first; and where one node is left, its workers sum as they would alone.
TEST(Allreduce, GroupsAreOfThoseWhoAreThere) {
  for (const std::uint32_t group : {0U, 2U}) {
    allreduce_worker second = one_of_four(1, group, plan_of(1, {1, 2, 3}));
    const worker_effects out = second.on(done(1, 100));
    EXPECT_EQ(only<send_peer>(out).to, w(2)) << "it is alone, and the other two are a group";
    EXPECT_EQ(only<send_peer>(out).message.stage, 2U);
  }
  allreduce_worker left = one_of_four(2, 0, plan_of(1, {2, 3}));
  EXPECT_EQ(only<send_peer>(left.on(done(1, 100))).message.part, (segment_range{1, 2, 2}));
}

TEST(Allreduce, ARoundThatIsNotFiniteMakesAVersionWithoutAStep) {
  allreduce_worker worker = begun(plan_of(1, {0, 1}));
  worker.on(done(1, 100));
  worker.on(chunk(1, 1, 0, {0, 1, 2}, 101, {10, 5, false}));
  const worker_effects out = worker.on(chunk(1, 1, 1, {1, 2, 2}, 102, {20, 10, false}));
  EXPECT_EQ(count<take_step>(out), 0U);
  EXPECT_EQ(only<send_push>(out).push.samples, 0);
  EXPECT_EQ(only<send_push>(out).push.applied, 0U);
  EXPECT_FALSE(only<send_push>(out).push.finite);
  EXPECT_EQ(only<compute>(out), cut(2, 20, 0, 2));
}

// Gradients are means over the labels that count, and shares are of all samples.
TEST(Allreduce, LabelsThatAreIgnoredAreInNoMean) {
  allreduce_worker worker = begun(plan_of(1, {0, 1}), algorithm::ring);
  computed own = done(1, 100);
  own.ignored = 2;
  EXPECT_EQ(only<send_peer>(worker.on(own)).message.facts, (facts{10, 4, true, 2}));
  worker.on(chunk(1, 1, 0, {1, 2, 2}, 101, {10, 4, true, 2}));
  const worker_effects out = worker.on(chunk(1, 1, 1, {0, 1, 2}, 102, {20, 8, true, 4}));
  EXPECT_EQ(only<take_step>(out).sum, (term{t(100), 20. / 16}));
}

TEST(Allreduce, AStepKnowsHowManySamplesCameBefore) {
  allreduce_worker worker = at_version_one();
  worker.on(done(2, 200));
  worker.on(chunk(1, 2, 0, {0, 1, 2}, 201));
  EXPECT_EQ(only<take_step>(worker.on(chunk(1, 2, 1, {1, 2, 2}, 202, {20, 10}))).round.samples_before, 20U);
}

TEST(Allreduce, ItStopsByItselfWhereTheCoordinatorSays) {
  allreduce_worker worker = begun(plan_of(1, {0, 1}));
  worker.on(hold_order{.at_samples = 20});
  worker.on(done(1, 100));
  worker.on(chunk(1, 1, 0, {0, 1, 2}, 101));
  const worker_effects out = worker.on(chunk(1, 1, 1, {1, 2, 2}, 102, {20, 10}));
  EXPECT_EQ(count<take_step>(out), 1U);
  EXPECT_EQ(count<compute>(out), 0U);
  EXPECT_EQ(only<send_peer>(worker.on(fetch_order{v(1)})).message.made, (step_count{1, 20}));
  EXPECT_EQ(worker.on(hold_order{.at_version = 2}), (worker_effects{cut(2, 20, 0, 2)}));
}

/// What is saved of the first version, once the peer's gradient and its part of the sum have come.
std::vector<save_replica> saved_of_first(allreduce_worker& worker, const facts& peers = {10, 5}) {
  worker.on(done(1, 100));
  worker.on(chunk(1, 1, 0, {0, 1, 2}, 101, peers));
  return all<save_replica>(worker.on(chunk(1, 1, 1, {1, 2, 2}, 102, {20, 10, true, 0, peers.saves})));
}

TEST(Allreduce, AVersionThatOneIsToldToSaveIsSavedByAll) {
  allreduce_worker first = begun(plan_of(1, {0, 1})), other = begun(plan_of(1, {0, 1}));
  EXPECT_EQ(first.on(checkpoint_order{v(1)}), worker_effects{});
  const save_replica wanted{v(1), true, {.position = 20, .samples = 20}};
  EXPECT_THAT(saved_of_first(first), ElementsAre(wanted));
  EXPECT_THAT(saved_of_first(other, {10, 5, true, 0, true}), ElementsAre(wanted)) << "its peer was told";
  other.on(checkpoint_order{v(1)});
  for (allreduce_worker* each : {&first, &other}) {
    EXPECT_FALSE(only<send_peer>(each->on(done(2, 200))).message.facts.saves) << "that version is saved";
  }
}

TEST(Allreduce, WhoIsToldToSaveAVersionSaysSoInTheSumThatMakesIt) {
  allreduce_worker worker = begun(plan_of(1, {0, 1}));
  worker.on(checkpoint_order{v(2)});
  EXPECT_FALSE(only<send_peer>(worker.on(done(1, 100))).message.facts.saves);
  worker.on(chunk(1, 1, 0, {0, 1, 2}, 101));
  EXPECT_EQ(count<save_replica>(worker.on(chunk(1, 1, 1, {1, 2, 2}, 102, {20, 10}))), 0U);
  EXPECT_TRUE(only<send_peer>(worker.on(done(2, 200))).message.facts.saves);
  worker.on(chunk(1, 2, 0, {0, 1, 2}, 201));
  EXPECT_EQ(only<save_replica>(worker.on(chunk(1, 2, 1, {1, 2, 2}, 202, {20, 10}))).ver, v(2));
}

TEST(Allreduce, TheFirstOfThePlanWritesWhatAllHave) {
  allreduce_worker second{life(1), {.which = algorithm::direct}};
  second.on(plan_of(1, {0, 1}));
  second.on(params{.epoch = e(1), .parameters = t(50)});
  second.on(standing(0, 1, 0));
  second.on(checkpoint_order{v(1)});
  second.on(done(1, 100));
  second.on(chunk(0, 1, 0, {1, 2, 2}, 101));
  const auto out = second.on(chunk(0, 1, 1, {0, 1, 2}, 102, {20, 10, true, 0, true}));
  EXPECT_EQ(only<save_replica>(out), (save_replica{v(1), false, {.position = 20, .samples = 20}}));
}

/// What it saves where another has made the first version, for a checkpoint or not, and gives it to this one at the next plan.
std::vector<save_replica> saved_of_given(allreduce_worker& worker, bool wanted, const std::vector<std::uint32_t>& others = {1}) {
  plan next = plan_of(2, {0});
  for (const std::uint32_t other : others)
    next.workers.push_back(life(other));
  worker.on(next);
  for (const std::uint32_t other : others)
    worker.on(standing(other, 2, 1));
  return all<save_replica>(worker.on(peer_message{.from = life(others.front()),
                                                  .round = 1,
                                                  .data = t(300),
                                                  .is = kind::state,
                                                  .epoch = e(2),
                                                  .facts = {20, 10, true, 0, wanted},
                                                  .course = {.position = 20, .samples = 20}}));
}

TEST(Allreduce, WhoWritesWhatAllHaveDoesSoOfAVersionThatItIsGiven) {
  allreduce_worker first = begun(plan_of(1, {0, 1}));
  EXPECT_THAT(saved_of_given(first, true), ElementsAre(save_replica{v(1), true, {.position = 20, .samples = 20}}));
  allreduce_worker plain = begun(plan_of(1, {0, 1}));
  EXPECT_TRUE(saved_of_given(plain, false).empty());
}

// It may be there already: by who made it, or by the first of an earlier plan.
TEST(Allreduce, WhoComesNewWritesNothingOfWhatItIsGiven) {
  allreduce_worker joins{life(0), {.which = algorithm::direct}};
  joins.on(plan_of(1, {1}));
  EXPECT_TRUE(saved_of_given(joins, true).empty());
}

TEST(Allreduce, WhereItStopsItSavesIfTheCoordinatorSaysSo) {
  using saves = hold_order::saves;
  const auto saved = [](const hold_order& limit) {
    allreduce_worker worker = begun(plan_of(1, {0, 1}));
    worker.on(limit);
    return saved_of_first(worker).size();
  };
  EXPECT_EQ(saved({.at_samples = 20}), 0U);
  EXPECT_EQ(saved({.at_samples = 20, .checkpoint = saves::always}), 1U);
  EXPECT_EQ(saved({.at_samples = 40, .checkpoint = saves::always}), 0U);
  EXPECT_EQ(saved({.at_samples = 20, .at_version = 2, .checkpoint = saves::at_version}), 0U);
  EXPECT_EQ(saved({.at_version = 1, .checkpoint = saves::at_version}), 1U);
}

TEST(Allreduce, OneThatGoesOnKnowsHowManySamplesCameBefore) {
  allreduce_worker worker{life(0), {.which = algorithm::direct}};
  worker.goes_on({.samples = 500});
  worker.on(plan_of(1, {0}));
  worker.on(params{.epoch = e(1), .ver = v(7), .position = 640, .parameters = t(50)});
  const worker_effects out = worker.on(done(1, 100));
  EXPECT_EQ(only<take_step>(out).round.samples_before, 500U);
  EXPECT_EQ(only<send_push>(out).push.applied, 510U);
  EXPECT_EQ(only<send_push>(out).push.id.clock, clock_tick{8});
}

TEST(Allreduce, APeerMayBeARoundAhead) {
  allreduce_worker worker = begun(plan_of(1, {0, 1}));
  worker.on(done(1, 100));
  worker.on(chunk(1, 1, 0, {0, 1, 2}, 101));
  EXPECT_EQ(worker.on(chunk(1, 2, 0, {0, 1, 2}, 103)), worker_effects{}) << "it has this worker's part, and goes on";
  worker.on(chunk(1, 1, 1, {1, 2, 2}, 102, {20, 10}));
  EXPECT_EQ(count<add_up>(worker.on(done(2, 200))), 1U);
}

TEST(Allreduce, WhatBelongsToNoRoundIsRefusedAndNamed) {
  const auto why = [](const worker_effects& out) { return only<refuse>(out).why; };
  allreduce_worker worker = begun(plan_of(1, {0, 1, 2}));
  worker.on(done(1, 100));
  EXPECT_THAT(why(worker.on(chunk(1, 1, 0, {0, 1, 3}, 101, {}, 2))),
              "a chunk of worker 1 for version 1 under plan 2: this is plan 1");
  EXPECT_THAT(why(worker.on(chunk(7, 1, 0, {0, 1, 3}, 102))), HasSubstr("worker 7"));
  EXPECT_THAT(why(worker.on(chunk(0, 1, 0, {0, 1, 3}, 103))), HasSubstr("no such peer"));
  EXPECT_THAT(why(worker.on(chunk(1, 3, 0, {0, 1, 3}, 104))), HasSubstr("this worker is at version 0"));
  EXPECT_THAT(why(worker.on(chunk(1, 1, 0, {0, 1, 2}, 105))), HasSubstr("direct sums segments 0 to 2 of 3"));
  EXPECT_THAT(why(worker.on(chunk(1, 1, 0, {2, 3, 3}, 106))), HasSubstr("not in the schedule"));
  EXPECT_THAT(why(worker.on(chunk(1, 1, 0, {0, 2, 3}, 107))), HasSubstr("the schedule says 1"));
  EXPECT_EQ(worker.on(chunk(1, 1, 0, {0, 1, 3}, 108)), worker_effects{});
  EXPECT_EQ(worker.on(chunk(1, 1, 0, {0, 1, 3}, 109)),
            (worker_effects{refuse{t(109), "round 1 of plan 1: segment 0 of stage 0 from rank 1 came twice"}}));
}

// -- local steps

constexpr step_rule outer{.method = step_rule::kind::outer, .lr = 0.7, .momentum = 0.9, .nesterov = true};

/// Worker 0 of two, in the first of two steps.
allreduce_worker in_local_steps(std::optional<algorithm> which = algorithm::direct) {
  return begun(plan_of(1, {0, 1}), allreduce_worker{life(0), {.which = which, .steps = 2, .outer = outer}});
}

TEST(AllreduceOfLocalSteps, TheFirstBeginsAtTheVersionAndTheLastBringsTheMovement) {
  allreduce_worker worker{life(0), {.which = algorithm::direct, .steps = 3}};
  worker.on(plan_of(1, {0, 1}));
  worker.on(params{.epoch = e(1), .parameters = t(50)});
  EXPECT_EQ(worker.on(standing(1, 1, 0)), (worker_effects{local_step{.gradient = cut(1, 0, 0, 2), .from_common = true}}));
  EXPECT_EQ(worker.on(done(1, 0)), (worker_effects{local_step{.gradient = cut(2, 20, 0, 2)}}));
  EXPECT_EQ(worker.on(done(2, 0)), (worker_effects{local_step{.gradient = cut(3, 40, 0, 2), .measures = true}}));
  const worker_effects out = worker.on(done(3, 100));
  EXPECT_EQ(only<send_peer>(out).message.data, t(100));
  EXPECT_EQ(only<send_peer>(out).message.facts, (facts{30, 15})) << "of all three";
}

// The next round begins after the batches of all steps, and its step is the outer optimizer's.
TEST(AllreduceOfLocalSteps, TheMeanMovementGoesToTheOuterOptimizer) {
  allreduce_worker worker = in_local_steps();
  worker.on(done(1, 0));
  worker.on(done(2, 100));
  const worker_effects own = worker.on(chunk(1, 1, 0, {0, 1, 2}, 101, {10, 3}));
  EXPECT_EQ(own[0], worker_effect(add_up{t(100), {0, 1, 2}, {{t(100), 20. / 30}, {t(101), 10. / 30}}}));
  const worker_effects out = worker.on(chunk(1, 1, 1, {1, 2, 2}, 102, {30, 13}));
  EXPECT_EQ(only<take_step>(out), (take_step{{.epoch = e(1), .ver = v(1), .step = outer, .workers = 2}, {t(100), 1}}));
  EXPECT_EQ(only<send_push>(out).push.samples, 30);
  EXPECT_EQ(only<send_push>(out).push.compute, 6);
  EXPECT_EQ(only<local_step>(out), (local_step{.gradient = cut(3, 40, 0, 2), .from_common = true}));
}

TEST(AllreduceOfLocalSteps, ElsewhereAMovementGoesByItsShareOfAllBatches) {
  allreduce_worker worker = in_local_steps(algorithm::ring);
  worker.on(done(1, 0, 7));
  EXPECT_EQ(worker.on(done(2, 100, 10))[0], worker_effect(add_up{t(100), {}, {{t(100), 17. / 40}}}));
}

TEST(AllreduceOfLocalSteps, OneStepThatIsNotFiniteMakesAVersionWithoutAStep) {
  allreduce_worker worker = in_local_steps();
  worker.on(computed{.step = 1, .samples = 10, .finite = false});
  EXPECT_FALSE(only<send_peer>(worker.on(done(2, 100))).message.facts.finite);
}

TEST(AllreduceOfLocalSteps, ANewPlanBeginsTheRoundAgainAtTheVersion) {
  allreduce_worker worker = in_local_steps();
  worker.on(done(1, 0));
  worker.on(plan_of(2, {0, 1, 3}));
  worker.on(standing(1, 2, 0));
  EXPECT_EQ(count<local_step>(worker.on(standing(3, 2, std::nullopt))), 0U) << "the old one is still being computed";
  EXPECT_EQ(worker.on(done(2, 100)),
            (worker_effects{discard{t(100)}, local_step{.gradient = cut(3, 0, 0, 3), .from_common = true}}));
}

TEST(AllreduceOfLocalSteps, WorkersGoOnFromTheVersionWhateverACheckpointHas) {
  allreduce_worker worker{life(0), {.which = algorithm::direct, .steps = 2}};
  worker.goes_on({.has_replica = true, .open = {9, 4.5}});
  worker.on(plan_of(1, {0}));
  EXPECT_TRUE(only<local_step>(worker.on(params{.epoch = e(1), .parameters = t(50)})).from_common);
  worker.on(done(1, 0));
  EXPECT_EQ(only<send_push>(worker.on(done(2, 100))).push.samples, 20);
}

// -- a death

TEST(Allreduce, ADeathEndsTheRoundAndItIsComputedAnewByTheRest) {
  allreduce_worker worker = begun(plan_of(1, {0, 1, 2}));
  worker.on(done(1, 100));
  worker.on(chunk(1, 1, 0, {0, 1, 3}, 101));
  EXPECT_EQ(worker.on(plan_of(2, {0, 1})),
            (worker_effects{discard{t(101)}, discard{t(100)}, send_peer{w(1), standing(0, 2, 0)}}));
  EXPECT_EQ(worker.on(standing(1, 2, 0)), (worker_effects{cut(2, 0, 0, 2)}));
}

TEST(Allreduce, WhoIsAtTheNewestVersionGivesItToTheRest) {
  allreduce_worker worker = at_version_one();
  worker.on(plan_of(2, {0, 1, 3}));
  worker.on(standing(1, 2, 0));
  EXPECT_EQ(worker.on(standing(3, 2, std::nullopt)), (worker_effects{send_peer{w(1),
                                                                               {.from = life(0),
                                                                                .round = 1,
                                                                                .is = kind::state,
                                                                                .epoch = e(2),
                                                                                .facts = {20, 10},
                                                                                .course = {.position = 20, .samples = 20}}},
                                                                     send_peer{w(3),
                                                                               {.from = life(0),
                                                                                .round = 1,
                                                                                .is = kind::state,
                                                                                .epoch = e(2),
                                                                                .facts = {20, 10},
                                                                                .course = {.position = 20, .samples = 20}}}}))
      << "its old step is still being computed";
  EXPECT_EQ(worker.on(done(2, 200)), (worker_effects{discard{t(200)}, cut(3, 20, 0, 3)}));
}

TEST(Allreduce, WhoIsBehindIsGivenAllOfItAndReportsIt) {
  allreduce_worker worker = begun(plan_of(1, {0, 1, 2}));
  worker.on(hold_order{.at_version = 9});
  worker.on(done(1, 100));
  worker.on(plan_of(2, {0, 1}));
  EXPECT_EQ(worker.on(standing(1, 2, 1)), worker_effects{}) << "it comes";
  const peer_message state{.from = life(1),
                           .round = 1,
                           .data = t(300),
                           .is = kind::state,
                           .epoch = e(2),
                           .facts = {30, 15},
                           .course = {.position = 30, .samples = 30}};
  EXPECT_EQ(worker.on(state),
            (worker_effects{take_state{v(1), t(300)},
                            send_push{{.epoch = e(2), .id = {w(0), {}, {1}}, .samples = 30, .loss = 0.5, .applied = 30}},
                            cut(2, 30, 0, 2)}));
  EXPECT_EQ(count<refuse>(worker.on(state)), 1U) << "twice";
}

TEST(Allreduce, AStateThatIsNotNewerIsRefused) {
  allreduce_worker worker = at_version_one();
  worker.on(plan_of(2, {0, 1}));
  EXPECT_EQ(count<refuse>(worker.on(peer_message{.from = life(1), .round = 1, .data = t(300), .is = kind::state, .epoch = e(2)})),
            1U);
}

TEST(Allreduce, WhoIsGivenAStateStopsWhereItWasToldAndNotWhereItsGiverWas) {
  allreduce_worker worker = begun(plan_of(1, {0, 1, 2}));
  worker.on(hold_order{.at_version = 1});
  worker.on(done(1, 100));
  worker.on(plan_of(2, {0, 1}));
  worker.on(standing(1, 2, 1));
  const worker_effects out = worker.on(peer_message{.from = life(1),
                                                    .round = 1,
                                                    .data = t(300),
                                                    .is = kind::state,
                                                    .epoch = e(2),
                                                    .course = {.position = 30, .samples = 30, .limit = {.at_version = 7}}});
  EXPECT_EQ(count<compute>(out), 0U);
}

TEST(Allreduce, AnEvaluatorIsAnsweredOnceAllAreAtOneVersion) {
  allreduce_worker worker = at_version_one();
  worker.on(plan_of(2, {0, 1}));
  EXPECT_EQ(worker.on(fetch_order{v(1)}), worker_effects{});
  const worker_effects out = worker.on(standing(1, 2, 1));
  EXPECT_EQ(only<send_peer>(out).to, evaluator);
}

// -- the lead

TEST(AllreduceRule, AVersionCountsOnceAllHaveReportedIt) {
  allreduce_rule rule;
  EXPECT_EQ(only<send_params>(rule.on(plan_of(1, {0, 1}))).to, (std::vector{w(0), w(1)}));
  const auto made = [&](std::uint32_t worker, std::uint64_t ver) {
    return rule.on(push{.epoch = e(1),
                        .id = {w(worker), {}, {ver}},
                        .gradient = t(100 * ver + worker),
                        .samples = 20,
                        .loss = 0.5,
                        .applied = 20 * ver});
  };
  EXPECT_EQ(made(0, 1), rule_effects{});
  EXPECT_EQ(made(0, 2), rule_effects{}) << "a round ahead";
  EXPECT_THAT(rule.waiting_for(), ElementsAre(w(1)));
  const rule_effects out = made(1, 1);
  EXPECT_EQ(only<apply>(out).ver, v(1));
  EXPECT_EQ(only<apply>(out).samples, 20);
  EXPECT_EQ(all<discard>(out), (std::vector{discard{t(100)}, discard{t(101)}}));
  EXPECT_EQ(only<report>(out).contributions, 2U);
  EXPECT_EQ(count<apply>(made(1, 2)), 1U);
}

TEST(AllreduceRule, AJobThatGoesOnBeginsWhereAWorkerWas) {
  const lead_state from = at_rest(plan_of(3, {0, 1}), v(7), {.position = 640, .samples = 500});
  EXPECT_EQ(from.made, v(7));
  EXPECT_EQ(from.samples_applied, 500U);
  EXPECT_EQ(from.plan.epoch, plan_epoch{});
  EXPECT_TRUE(from.plan.workers.empty());
  allreduce_rule rule;
  rule.restore(from.rule);
  const auto first = only<send_params>(rule.on(plan_of(1, {0, 1})));
  EXPECT_EQ(first.ver, v(7));
  EXPECT_EQ(first.position, 640U);
  EXPECT_EQ(rule.current(), v(7));
}

TEST(AllreduceRule, WhatOnlyTheDeadHaveMadeDoesNotCount) {
  allreduce_rule rule;
  rule.on(plan_of(1, {0, 1}));
  rule.on(push{.id = {w(0), {}, {1}}, .gradient = t(7), .samples = 20, .applied = 20});
  EXPECT_EQ(rule.on(plan_of(2, {1})), (rule_effects{discard{t(7)}}));
  EXPECT_EQ(
      only<apply>(rule.on(push{.epoch = e(2), .id = {w(1), {}, {1}}, .gradient = t(8), .samples = 10, .applied = 10})).samples,
      10);
}

TEST(AllreduceRule, ADeathCompletesAllVersionsThatTheRestHave) {
  allreduce_rule rule;
  rule.on(plan_of(1, {0, 1}));
  for (std::uint64_t ver : {1U, 2U})
    rule.on(push{.epoch = e(1), .id = {w(0), {}, {ver}}, .gradient = t(ver), .samples = 20, .applied = 20 * ver});
  EXPECT_EQ(count<apply>(rule.on(plan_of(2, {0}))), 2U);
}

TEST(AllreduceRule, WhoJoinsIsGivenNothingByTheLeadAndCountsOnceItHasReported) {
  allreduce_rule rule;
  rule.on(plan_of(1, {0}));
  EXPECT_EQ(count<send_params>(rule.on(plan_of(2, {0, 1}))), 0U);
  rule.on(push{.epoch = e(2), .id = {w(1), {}, {1}}, .gradient = t(7), .samples = 10, .applied = 10});
  for (const report& said : all<report>(rule.on(plan_of(3, {1}))))
    EXPECT_NE(said.event, report::kind::lost);
}

/// Its peers have given it everything, and go on with it.
TEST(AllreduceRule, WhoseReportsComeBeforeItsPlanCountsOnceThatIsHere) {
  allreduce_rule rule;
  rule.on(plan_of(1, {0}));
  const auto made = [&rule](std::uint32_t worker, std::uint64_t ver) {
    return rule.on(
        push{.epoch = e(3), .id = {w(worker), {}, {ver}}, .gradient = t(10 * ver + worker), .samples = 10, .applied = 10 * ver});
  };
  for (const std::uint64_t ver : {1U, 2U})
    EXPECT_EQ(made(1, ver), rule_effects{});
  const rule_effects one = made(0, 1);
  EXPECT_EQ(only<report>(one).contributions, 1U);
  EXPECT_EQ(all<discard>(one), (std::vector{discard{t(10)}, discard{t(11)}}));
  EXPECT_EQ(rule.on(plan_of(2, {0})), rule_effects{});
  EXPECT_EQ(rule.on(plan_of(3, {0, 1})), rule_effects{});
  EXPECT_THAT(rule.waiting_for(), ElementsAre(w(0)));
  EXPECT_EQ(only<report>(made(0, 2)).contributions, 2U);
  rule.check();
}

TEST(AllreduceRule, WithoutAnybodyWhoHasTheParametersTheJobIsLost) {
  allreduce_rule rule;
  rule.on(plan_of(1, {0}));
  EXPECT_EQ(count<report>(rule.on(plan_of(2, {0, 1}))), 0U);
  EXPECT_EQ(only<report>(rule.on(plan_of(3, {1}))).event, report::kind::lost);
}

} // namespace
} // namespace troupe::protocols
