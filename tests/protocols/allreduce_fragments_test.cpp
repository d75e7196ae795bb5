// SPDX-License-Identifier: BSD-3-Clause
// Allreduce by fragments, whose sums come late: a worker's steps by hand, what a checkpoint has of it, what goes together.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/protocols/reducing.hpp"

namespace troupe::protocols {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

constexpr step_rule outer_step{.method = step_rule::kind::outer, .lr = 0.7, .momentum = 0.9, .nesterov = true};

/// Worker 0 of two in the first of four steps: sums of two fragments in turn, which come a step late.
allreduce_worker in_fragments(const worker_memory& from = {}, version at = {},
                              std::optional<algorithm> which = algorithm::direct) {
  allreduce_worker out{life(0), {.which = which, .steps = 4, .outer = outer_step, .fragments = 2, .overlap = 1, .merge = 0.25}};
  out.model_is(model);
  out.goes_on(from);
  out.on(plan_of(1, {0, 1}));
  out.on(params{.epoch = e(1), .ver = at, .parameters = t(50)});
  out.on(standing(1, 1, at.value));
  return out;
}

/// Likewise, in the step after the one that its first sum is of.
allreduce_worker while_it_sums() {
  allreduce_worker out = in_fragments();
  out.on(done(1, 0));
  out.on(done(2, 100));
  return out;
}

/// The peer's terms and sums for a version, whose fragment has two of the four segments.
worker_effects sums(allreduce_worker& worker, std::uint64_t ver, std::uint32_t fragment) {
  worker_effects out = worker.on(chunk(1, ver, 0, {2 * fragment, 2 * fragment + 1, 4}, 100 * ver + 1, {20, 10}));
  const worker_effects last = worker.on(chunk(1, ver, 1, {2 * fragment + 1, 2 * fragment + 2, 4}, 100 * ver + 2, {40, 20}));
  out.insert(out.end(), last.begin(), last.end());
  return out;
}

TEST(AllreduceInFragments, TheFirstVersionIsOfTheSecondFragmentAndTheNextStepDoesNotWaitForIt) {
  allreduce_worker worker = in_fragments();
  EXPECT_EQ(worker.on(done(1, 0)), (worker_effects{local_step{.gradient = cut(2, 20, 0, 2), .measures = true}}));
  const worker_effects out = worker.on(done(2, 100));
  const peer_message sent = only<send_peer>(out).message;
  EXPECT_EQ(sent.part, (segment_range{3, 4, 4})) << "the other's segment of fragment 1";
  EXPECT_EQ(sent.facts, (facts{20, 10}));
  EXPECT_EQ(out.back(), worker_effect(local_step{.gradient = cut(3, 40, 0, 2)}));
  EXPECT_THAT(worker.waiting_for(), ElementsAre(w(1)));
}

TEST(AllreduceInFragments, ASumThatIsEarlyWaitsForTheStepsThatItMayBeLateBy) {
  allreduce_worker worker = while_it_sums();
  const worker_effects early = sums(worker, 1, 1);
  EXPECT_EQ(early[0], worker_effect(add_up{t(100), {2, 3, 4}, {{t(100), 0.5}, {t(101), 0.5}}}));
  EXPECT_EQ(count<take_step>(early), 0U);
  EXPECT_THAT(worker.waiting_for(), IsEmpty());
  const worker_effects out = worker.on(done(3, 0));
  const segment_range second{1, 2, 2};
  EXPECT_EQ(out, (worker_effects{take_step{{.epoch = e(1), .ver = v(1), .step = outer_step, .workers = 2}, {t(100), 1}, second},
                                 mix_common{second, 0.25}, only<send_push>(out),
                                 local_step{.gradient = cut(4, 60, 0, 2), .measures = true}}))
      << "the third step is one of the next sum";
  EXPECT_EQ(only<send_push>(out).push.applied, 40U);
}

TEST(AllreduceInFragments, OneThatIsLaterIsWaitedFor) {
  allreduce_worker worker = while_it_sums();
  EXPECT_EQ(worker.on(done(3, 0)), worker_effects{});
  const worker_effects out = sums(worker, 1, 1);
  EXPECT_EQ(count<mix_common>(out), 1U);
  EXPECT_EQ(only<local_step>(out).gradient, cut(4, 60, 0, 2));
}

TEST(AllreduceInFragments, TheNextVersionIsOfTheFirstFragmentAndOfAsManySteps) {
  allreduce_worker worker = while_it_sums();
  sums(worker, 1, 1);
  worker.on(done(3, 0));
  const worker_effects out = worker.on(done(4, 200));
  EXPECT_EQ(only<send_peer>(out).message.part, (segment_range{1, 2, 4}));
  EXPECT_EQ(only<send_peer>(out).message.facts, (facts{20, 10})) << "of the third and fourth";
  sums(worker, 2, 0);
  const take_step made = only<take_step>(worker.on(done(5, 0)));
  EXPECT_EQ(made.part, (segment_range{0, 1, 2}));
  EXPECT_EQ(made.round.position, 60U) << "where the steps begin since the last version";
  EXPECT_EQ(made.round.samples_before, 40U);
}

TEST(AllreduceInFragments, AFragmentGoesByItsShareOfAllBatches) {
  allreduce_worker worker = in_fragments({}, {}, algorithm::tree);
  worker.on(done(1, 0, 7));
  EXPECT_EQ(worker.on(done(2, 100, 10))[0], worker_effect(add_up{t(100), {2, 4, 4}, {{t(100), 17. / 40}}}));
}

TEST(AllreduceInFragments, PartsOfAnotherFragmentAreRefused) {
  allreduce_worker worker = while_it_sums();
  EXPECT_THAT(only<refuse>(worker.on(chunk(1, 1, 0, {0, 1, 4}, 101))).why, HasSubstr("direct sums segments 2 to 3 of 4"));
  EXPECT_THAT(only<refuse>(worker.on(chunk(1, 2, 0, {2, 3, 4}, 102))).why, HasSubstr("segments 0 to 1 of 4"));
  EXPECT_THAT(only<refuse>(worker.on(chunk(1, 1, 0, {2, 5, 4}, 103))).why, HasSubstr("segments 2 to 3"));
}

TEST(AllreduceInFragments, WhatIsNotFiniteIsDroppedAndAllGoOnFromTheVersion) {
  allreduce_worker worker = while_it_sums();
  worker.on(chunk(1, 1, 0, {2, 3, 4}, 101, {20, 10, false}));
  worker.on(chunk(1, 1, 1, {3, 4, 4}, 102, {40, 20, false}));
  worker_effects out = worker.on(done(3, 0));
  EXPECT_EQ(count<take_step>(out) + count<mix_common>(out), 0U);
  EXPECT_EQ(only<local_step>(out), (local_step{.gradient = cut(4, 60, 0, 2), .from_common = true, .measures = true}));
  EXPECT_TRUE(worker.kept().sum.empty());
  out = worker.on(done(4, 200));
  EXPECT_EQ(only<send_peer>(out).message.facts, (facts{10, 5})) << "the third step is lost";
}

TEST(AllreduceInFragments, ANewPlanBeginsAgainAtTheVersion) {
  allreduce_worker worker = while_it_sums();
  sums(worker, 1, 1);
  EXPECT_EQ(worker.on(plan_of(2, {0})), worker_effects{discard{t(100)}}) << "the third step is still being computed";
  EXPECT_EQ(worker.on(done(3, 0)), (worker_effects{local_step{.gradient = cut(4, 0, 0, 1), .from_common = true}}));
  EXPECT_EQ(only<local_step>(worker.on(done(4, 0))).measures, true) << "no step of a version before that is still to come";
}

TEST(AllreduceInFragments, AtALimitItStopsWhereTheVersionIsMade) {
  allreduce_worker worker = while_it_sums();
  worker.on(hold_order{.at_version = 1});
  sums(worker, 1, 1);
  const worker_effects out = worker.on(done(3, 0));
  EXPECT_EQ(count<mix_common>(out), 1U);
  EXPECT_EQ(count<local_step>(out), 0U);
  EXPECT_EQ(worker.on(hold_order{}), (worker_effects{local_step{.gradient = cut(4, 60, 0, 2), .measures = true}}));
}

TEST(AllreduceInFragments, ACheckpointHasTheWorkersOwnWithItsStepsThatAreInNoVersion) {
  allreduce_worker worker = while_it_sums();
  EXPECT_TRUE(worker.kept().sum.empty()) << "at no version";
  sums(worker, 1, 1);
  worker.on(done(3, 0, 9));
  const kept_replica kept = worker.kept();
  EXPECT_EQ(kept.sum, (std::vector<term>{{own_parameters, 1}}));
  EXPECT_EQ(kept.open, (facts{9, 4.5}));
  EXPECT_TRUE(worker.saves_later(v(2)));
  EXPECT_FALSE(worker.saves_later(v(1)));

  allreduce_worker next = in_fragments({.samples = 40, .has_replica = true, .open = kept.open}, v(1));
  const worker_effects out = next.on(done(1, 200));
  EXPECT_EQ(only<send_peer>(out).message.facts, (facts{19, 9.5})) << "one step of two is made before";
}

TEST(AllreduceInFragments, ATermFromACheckpointGoesByTheSameShareAsWithoutABreak) {
  const auto at_version_1 = [](const worker_memory& from) {
    allreduce_worker worker{life(0), {.which = algorithm::tree, .steps = 4, .fragments = 2, .overlap = 1}};
    worker.model_is(model);
    worker.goes_on(from);
    worker.on(plan_of(1, {0, 1}));
    worker.on(params{.epoch = e(1), .ver = v(1), .position = 60, .parameters = t(50)});
    worker.on(standing(1, 1, 1));
    return worker;
  };
  const auto share = [](worker_effects out) { return only<add_up>(out).sum.at(0).weight; };
  allreduce_worker worker = at_version_1({.samples = 40, .has_replica = true, .open = {9, 4.5}});
  EXPECT_EQ(share(worker.on(done(1, 200))), 19. / 40) << "of the third step and the fourth";
  worker = at_version_1({.samples = 40}); // whoever is new shares out by the same
  EXPECT_EQ(share(worker.on(done(1, 200))), 10. / 40);
  worker = at_version_1({.samples = 40});
  worker.on(plan_of(2, {0, 1}));
  worker.on(done(1, 0));
  worker.on(standing(1, 2, 1));
  EXPECT_EQ(share(worker.on(done(2, 200))), 10. / 20) << "nobody goes on with its own";
}

TEST(AllreduceInFragments, PastAVersionItsOwnIsThatVersionsNoMore) {
  for (const bool by_a_plan : {true, false}) {
    allreduce_worker worker = while_it_sums();
    sums(worker, 1, 1);
    worker.on(done(3, 0));
    EXPECT_FALSE(worker.kept().sum.empty());
    by_a_plan ? void(worker.on(plan_of(2, {0, 1}))) : void(worker.on(done(4, 200)));
    EXPECT_TRUE(worker.kept().sum.empty()) << by_a_plan;
  }
}

TEST(AllreduceInFragments, WithoutItsOwnFromACheckpointAWorkerGoesOnFromTheVersion) {
  for (const bool early : {true, false}) {
    allreduce_worker worker{life(0), {.which = algorithm::direct, .steps = 4, .fragments = 2, .overlap = 1}};
    worker.goes_on({.samples = 40, .has_replica = !early, .open = {9, 4.5}});
    worker.on(plan_of(1, {0, 1}));
    if (!early)
      worker.on(plan_of(2, {0, 1}));
    worker.on(params{.epoch = e(1), .ver = v(1), .parameters = t(50)});
    const worker_effects out = worker.on(standing(1, early ? 1 : 2, 1));
    EXPECT_EQ(only<local_step>(out), (local_step{.gradient = cut(1, 0, 0, 2), .from_common = true, .measures = true})) << early;
    EXPECT_EQ(only<send_peer>(worker.on(done(1, 200))).message.facts, (facts{10, 5}));
  }
}

TEST(AllreduceInFragments, OnlyWhatGoesTogetherIsAccepted) {
  const auto problem = [](std::int64_t steps, std::int64_t fragments, std::int64_t overlap) {
    protocol_spec spec{.name = "allreduce"};
    spec.parameters = {{"steps", steps}, {"fragments", fragments}, {"overlap_steps", overlap}};
    return allreduce_protocol().validate(spec, 2);
  };
  EXPECT_THAT(problem(1, 2, 0), HasSubstr("are of local steps"));
  EXPECT_THAT(problem(1, 1, 1), HasSubstr("are of local steps"));
  EXPECT_THAT(problem(4, 3, 0), HasSubstr("4 is no multiple"));
  EXPECT_THAT(problem(2, 4, 0), HasSubstr("2 is no multiple"));
  EXPECT_THAT(problem(514, 257, 0), HasSubstr("at most 256"));
  EXPECT_EQ(problem(512, 256, 0), "");
  EXPECT_THAT(problem(4, 2, 2), HasSubstr("steps / fragments = 2"));
  EXPECT_EQ(problem(4, 2, 1), "");
  EXPECT_EQ(problem(4, 4, 0), "");
}

} // namespace
} // namespace troupe::protocols
