// SPDX-License-Identifier: BSD-3-Clause
// A gradient that workers sum in partitions: each by itself, during backward; steps as sums come, once the first says what they
// are of.
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/protocols/reducing.hpp"

namespace troupe::protocols {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

/// Worker 0, in its first step, of three partitions.
allreduce_worker in_partitions(const plan& with = plan_of(1, {0, 1}), algorithm which = algorithm::direct) {
  allreduce_worker out{life(0), {.which = which}};
  out.partitions_are([](auto) { return 3U; });
  return begun(with, std::move(out));
}

computed_partition there(std::uint64_t step, std::uint32_t partition, std::uint64_t gradient) {
  return {.step = step, .gradient = t(gradient), .partition = partition, .samples = 10};
}

/// Of the peer: its term of this partition, then its sum.
worker_effects summed(allreduce_worker& of, std::uint32_t partition, std::uint64_t tickets, const facts& whole = {20, 0}) {
  const std::uint32_t at = 2 * partition;
  worker_effects out = of.on(chunk(1, 1, 0, {at, at + 1, 6}, tickets, {whole.samples / 2, whole.loss / 2, whole.finite}));
  for (worker_effect& each : of.on(chunk(1, 1, 1, {at + 1, at + 2, 6}, tickets + 1, whole)))
    out.push_back(std::move(each));
  return out;
}

std::vector<segment_range> parts_of(const std::vector<take_step>& steps) {
  std::vector<segment_range> out;
  for (const take_step& each : steps)
    out.push_back(each.part);
  return out;
}

TEST(AllreduceInPartitions, ASumBeginsWhileTheRestIsComputed) {
  allreduce_worker worker = in_partitions();
  const worker_effects out = worker.on(there(1, 2, 100));
  ASSERT_EQ(out.size(), 1U);
  EXPECT_EQ(only<send_peer>(out).message.part, (segment_range{5, 6, 6}));
  EXPECT_EQ(only<send_peer>(out).message.data, t(100));
  EXPECT_EQ(only<send_peer>(out).message.facts, (facts{10, 0})) << "the first partition's are of all";
  const worker_effects own = worker.on(chunk(1, 1, 0, {4, 5, 6}, 101, {5, 0}));
  EXPECT_EQ(own[0], worker_effect(add_up{t(100), {4, 5, 6}, {{t(100), 10. / 15}, {t(101), 5. / 15}}}));
  EXPECT_EQ(only<send_peer>(own).message.stage, 1U);
}

// The gradient is one tensor, and has one ticket.
TEST(AllreduceInPartitions, WhatHasNotBegunBeginsWithTheGradientTheFirstLast) {
  allreduce_worker worker = in_partitions();
  worker.on(there(1, 2, 100));
  const worker_effects out = worker.on(done(1, 101));
  EXPECT_EQ(only<discard>(out).tensor, t(101));
  const auto sent = all<send_peer>(out);
  ASSERT_EQ(sent.size(), 2U);
  EXPECT_EQ(sent[0].message.part, (segment_range{3, 4, 6}));
  EXPECT_EQ(sent[0].message.facts, (facts{10, 0})) << "whether it began before the end or there";
  EXPECT_EQ(sent[1].message.part, (segment_range{1, 2, 6}));
  EXPECT_EQ(sent[1].message.facts, (facts{10, 5}));
  EXPECT_EQ(sent[1].message.data, t(100));
}

TEST(AllreduceInPartitions, ASecondTicketOfTheGradientIsGivenBack) {
  allreduce_worker worker = in_partitions();
  worker.on(there(1, 2, 100));
  const worker_effects out = worker.on(there(1, 1, 101));
  EXPECT_EQ(only<discard>(out).tensor, t(101));
  EXPECT_EQ(only<send_peer>(out).message.data, t(100));
}

TEST(AllreduceInPartitions, OnlyTheFirstWaitsForTheWholeGradient) {
  allreduce_worker worker = in_partitions();
  EXPECT_EQ(worker.on(there(1, 0, 100)), worker_effects{discard{t(100)}});
  EXPECT_EQ(worker.on(there(1, 3, 101)), worker_effects{discard{t(101)}}) << "there is none";
  EXPECT_EQ(worker.on(there(2, 1, 102)), worker_effects{discard{t(102)}}) << "of another step";
}

TEST(AllreduceInPartitions, ElsewhereEachGoesByItsShare) {
  allreduce_worker worker = in_partitions(plan_of(1, {0, 1}), algorithm::ring);
  const worker_effects out = worker.on(there(1, 2, 100));
  EXPECT_EQ(out[0], worker_effect(add_up{t(100), {4, 6, 6}, {{t(100), 0.5}}}));
}

TEST(AllreduceInPartitions, LabelsThatAreIgnoredAreKnownBefore) {
  allreduce_worker worker = in_partitions(plan_of(1, {0, 1}), algorithm::ring);
  computed_partition part = there(1, 2, 100);
  part.ignored = 2;
  const worker_effects out = worker.on(part);
  EXPECT_EQ(out[0], worker_effect(add_up{t(100), {4, 6, 6}, {{t(100), 8. / 20}}}));
  EXPECT_EQ(only<send_peer>(out).message.facts, (facts{10, 0, true, 2}));
}

// Nothing is applied before it is known that all is finite.
TEST(AllreduceInPartitions, StepsAreTakenFromTheFirstSumOnThoseInARowAtOnce) {
  allreduce_worker worker = in_partitions();
  worker.on(done(1, 100));
  EXPECT_EQ(count<take_step>(summed(worker, 2, 110)), 0U);
  const auto first = all<take_step>(summed(worker, 0, 120, {20, 10}));
  EXPECT_THAT(parts_of(first), ElementsAre(segment_range{0, 1, 3}, segment_range{2, 3, 3}));
  EXPECT_FALSE(first[0].last);
  EXPECT_FALSE(first[1].last);
  EXPECT_EQ(first[0].sum, (term{t(100), 1}));
  EXPECT_EQ(worker.current(), v(0));
  const worker_effects out = summed(worker, 1, 130);
  EXPECT_EQ(only<take_step>(out),
            (take_step{{.epoch = e(1), .ver = v(1), .workers = 2}, {t(100), 1}, segment_range{1, 2, 3}, true}));
  EXPECT_EQ(only<send_push>(out).push.samples, 20);
  EXPECT_EQ(only<send_push>(out).push.loss, 0.5);
  EXPECT_EQ(only<compute>(out), cut(2, 20, 0, 2));
  EXPECT_EQ(worker.current(), v(1));
}

TEST(AllreduceInPartitions, SumsThatAreThereBeforeTheFirstAreOneStepWithIt) {
  allreduce_worker worker = in_partitions();
  worker.on(done(1, 100));
  summed(worker, 2, 110);
  summed(worker, 1, 120);
  const take_step step = only<take_step>(summed(worker, 0, 130, {20, 10}));
  EXPECT_EQ(step.part, (segment_range{0, 3, 3}));
  EXPECT_TRUE(step.last);
}

TEST(AllreduceInPartitions, ARoundThatIsNotFiniteTakesNoStepAndEndsWithItsLastSum) {
  allreduce_worker worker = in_partitions();
  worker.on(done(1, 100));
  EXPECT_EQ(count<send_push>(summed(worker, 0, 110, {20, 10, false})), 0U);
  EXPECT_EQ(count<send_push>(summed(worker, 1, 120)), 0U);
  const worker_effects out = summed(worker, 2, 130);
  EXPECT_EQ(count<take_step>(out), 0U);
  EXPECT_FALSE(only<send_push>(out).push.finite);
  EXPECT_THAT(all<discard>(out), testing::Contains(discard{t(100)}));
  EXPECT_EQ(only<compute>(out), cut(2, 20, 0, 2));
}

TEST(AllreduceInPartitions, StepsOfARoundThatAPlanEndsAreUndone) {
  allreduce_worker worker = in_partitions();
  worker.on(done(1, 100));
  summed(worker, 0, 110, {20, 10});
  const worker_effects out = worker.on(plan_of(2, {0}));
  ASSERT_FALSE(out.empty());
  EXPECT_EQ(out[0], worker_effect(undo_steps{}));
  EXPECT_EQ(only<discard>(out).tensor, t(100));
  EXPECT_EQ(only<compute>(out), cut(2, 0, 0, 1)) << "the round is computed anew";
  worker.on(done(2, 200));
  EXPECT_EQ(worker.current(), v(1));
}

TEST(AllreduceInPartitions, WhereNoStepIsTakenNoneIsUndone) {
  allreduce_worker worker = in_partitions();
  worker.on(done(1, 100));
  summed(worker, 2, 110);
  EXPECT_EQ(count<undo_steps>(worker.on(plan_of(2, {0}))), 0U);
}

TEST(AllreduceInPartitions, WhatIsComputedInVainBeginsNoSum) {
  allreduce_worker worker = in_partitions();
  worker.on(there(1, 2, 100));
  EXPECT_EQ(only<discard>(worker.on(plan_of(2, {0}))).tensor, t(100));
  EXPECT_EQ(worker.on(there(1, 1, 101)), worker_effects{discard{t(101)}});
  EXPECT_EQ(only<discard>(worker.on(done(1, 102))).tensor, t(102));
  worker.on(there(2, 1, 200));
  worker.on(done(2, 201));
  EXPECT_EQ(worker.current(), v(1)) << "alone it has all sums";
}

TEST(AllreduceInPartitions, APlanSaysHowMany) {
  allreduce_worker worker{life(0), {.which = algorithm::direct}};
  worker.partitions_are([](std::uint32_t kib) { return kib == 512 ? 2U : 3U; });
  worker = begun(plan_of(1, {0, 1}), std::move(worker));
  EXPECT_EQ(only<send_peer>(worker.on(there(1, 2, 100))).message.part, (segment_range{5, 6, 6}));
  plan next = plan_of(2, {0, 1});
  next.partition_kib = 512;
  worker.on(next);
  worker.on(standing(1, 2, 0));
  EXPECT_EQ(only<compute>(worker.on(done(1, 101))), cut(2, 0, 0, 2)) << "the round is computed anew";
  EXPECT_EQ(worker.on(there(2, 2, 102)), worker_effects{discard{t(102)}}) << "there is no third one";
  const auto sent = all<send_peer>(worker.on(done(2, 200)));
  ASSERT_EQ(sent.size(), 2U);
  EXPECT_EQ(sent[0].message.part, (segment_range{3, 4, 4}));
  EXPECT_EQ(sent[1].message.part, (segment_range{1, 2, 4}));
}

TEST(AllreduceInPartitions, AChunkIsOfOnePartition) {
  allreduce_worker worker = in_partitions();
  worker.on(done(1, 100));
  EXPECT_THAT(only<refuse>(worker.on(chunk(1, 1, 0, {1, 3, 6}, 101))).why, HasSubstr("segment 1"));
  EXPECT_THAT(only<refuse>(worker.on(chunk(1, 1, 0, {4, 6, 6}, 102))).why, HasSubstr("the schedule says 1"));
  EXPECT_THAT(only<refuse>(worker.on(chunk(1, 1, 0, {0, 1, 2}, 103))).why, HasSubstr("direct sums segments 0 to 5 of 6"));
  EXPECT_EQ(count<refuse>(worker.on(chunk(1, 1, 0, {4, 5, 6}, 104))), 0U);
  EXPECT_THAT(only<refuse>(worker.on(chunk(1, 1, 0, {4, 5, 6}, 105))).why, HasSubstr("came twice"));
}

TEST(AllreduceInPartitions, APeersChunkWaitsForTheOwnTerm) {
  allreduce_worker worker = in_partitions();
  EXPECT_EQ(worker.on(chunk(1, 1, 0, {4, 5, 6}, 101)), worker_effects{});
  EXPECT_EQ(count<add_up>(worker.on(there(1, 1, 100))), 0U) << "that is another one";
  EXPECT_EQ(only<add_up>(worker.on(there(1, 2, 102))).part, (segment_range{4, 5, 6}));
}

// Each version is of one fragment.
TEST(AllreduceInPartitions, AFragmentIsCutIntoThem) {
  allreduce_worker worker{life(0), {.which = algorithm::direct, .steps = 2, .fragments = 2}};
  worker.partitions_are([](auto) { return 2U; });
  worker = begun(plan_of(1, {0, 1}), std::move(worker));
  const auto sent = all<send_peer>(worker.on(done(1, 100)));
  ASSERT_EQ(sent.size(), 2U);
  EXPECT_EQ(sent[0].message.part, (segment_range{7, 8, 8}));
  EXPECT_EQ(sent[1].message.part, (segment_range{5, 6, 8}));
}

TEST(AllreduceInPartitions, ItWaitsForEachPeerOnce) {
  allreduce_worker worker = in_partitions(plan_of(1, {0, 1, 2}));
  worker.on(done(1, 100));
  EXPECT_THAT(worker.waiting_for(), ElementsAre(w(1), w(2)));
}

TEST(AllreduceInPartitions, ThatAVersionIsWantedIsSaidOnce) {
  allreduce_worker worker = in_partitions();
  worker.on(checkpoint_order{v(1)});
  const auto sent = all<send_peer>(worker.on(done(1, 100)));
  ASSERT_EQ(sent.size(), 3U);
  EXPECT_FALSE(sent[0].message.facts.saves);
  EXPECT_TRUE(sent[2].message.facts.saves);
}

} // namespace
} // namespace troupe::protocols
