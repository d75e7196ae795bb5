// SPDX-License-Identifier: BSD-3-Clause
// The holder: what it keeps, refuses and performs, alone and in a tree.
#include "protocols/holder.hpp"

#include <gtest/gtest.h>

#include "tests/protocols/making.hpp"

namespace troupe::protocols {
namespace {

push_id id_of(std::uint32_t worker, std::uint64_t clock = 1) {
  return {w(worker), {}, {clock}};
}

push push_of(std::uint32_t worker, std::uint64_t clock = 1, std::uint64_t as = 0) {
  return {.epoch = e(1), .id = id_of(worker, clock), .gradient = t(as ? as : 100 + worker), .samples = 10};
}

holder shard(std::uint32_t self = 0) {
  holder out{{.self = h(self), .workers = {w(0), w(1)}}};
  out.on(plan_of(1, {0, 1}));
  return out;
}

/// Shard 0 below which aggregators 1 and 2 stand.
holder root() {
  holder out{{.self = h(0), .children = {h(1), h(2)}}};
  out.on(plan_of(1, {0, 1}));
  return out;
}

TEST(Holder, ReportsAnArrivalAndKeepsTheTicket) {
  holder subject = shard(3);
  push without_ticket = push_of(0);
  without_ticket.gradient = {};
  EXPECT_EQ(subject.on(push_of(0)), (holder_effects{send_arrival{{h(3), without_ticket}}}));
  EXPECT_EQ(subject.kept(), 1u);
}

TEST(Holder, RepeatedPushIsDiscardedAndTheFirstStays) {
  holder subject = shard();
  subject.on(push_of(0, 2));
  const report refused{.event = report::kind::push_discarded};
  EXPECT_EQ(subject.on(push_of(0, 2, 7)), (holder_effects{discard{t(7)}, refused}));
  EXPECT_EQ(subject.on(push_of(0, 1, 8)), (holder_effects{discard{t(8)}, refused})) << "an older one";
  const close round{.ver = v(1), .contributions = {{id_of(0, 2), 1}}};
  EXPECT_EQ(only<apply_round>(subject.on(round)).sum, (std::vector<term>{{t(100), 1}}));
}

TEST(Holder, RepeatedPushIsDiscardedUnderANewPlanToo) {
  holder subject = shard();
  subject.on(push_of(0));
  subject.on(close{.ver = v(1), .contributions = {{id_of(0), 1}}});
  subject.on(plan_of(2, {0, 1}));
  EXPECT_EQ(only<discard>(subject.on(push_of(0, 1, 7))).tensor, t(7));
}

TEST(Holder, RepeatedPushIsDiscardedThoughThePlansOfItsDeathAndReturnComeLate) {
  holder subject = shard();
  push first = push_of(0);
  first.epoch = e(3);
  subject.on(first);
  subject.on(plan_of(2, {1}));
  subject.on(plan_of(3, {0, 1}));
  push again = first;
  again.gradient = t(7);
  EXPECT_EQ(subject.on(again), (holder_effects{discard{t(7)}, report{.event = report::kind::push_discarded}}));
  EXPECT_EQ(subject.kept(), 1u);
}

TEST(Holder, RepeatOfAnEmptyPushHasNoTicketToDiscard) {
  holder subject = shard();
  push empty = push_of(0);
  empty.gradient = {};
  empty.samples = 0;
  subject.on(empty);
  EXPECT_EQ(count<discard>(subject.on(empty)), 0u);
}

TEST(Holder, ForeignPushIsDiscarded) {
  holder subject = shard();
  EXPECT_EQ(only<discard>(subject.on(push_of(5))).tensor, t(105));
  push other = push_of(0);
  other.id.incarnation = {1};
  EXPECT_EQ(only<discard>(subject.on(other)).tensor, t(100));
  EXPECT_EQ(subject.kept(), 0u);
}

TEST(Holder, PushUnderAPlanThatIsNotHereYetIsKept) {
  holder subject = shard();
  push early = push_of(5);
  early.epoch = e(2);
  EXPECT_EQ(count<send_arrival>(subject.on(early)), 1u);
}

TEST(Holder, OlderPlanDoesNotReplaceANewerOne) {
  holder subject = shard();
  subject.on(plan_of(3, {1}));
  subject.on(plan_of(2, {0, 1}));
  EXPECT_EQ(count<discard>(subject.on(push_of(0))), 1u);
}

TEST(Holder, CloseAppliesTheNamedPushesInTheOrderGiven) {
  holder subject = shard();
  subject.on(push_of(1));
  subject.on(push_of(0));
  const close round{.ver = v(1), .contributions = {{id_of(0), 0.25}, {id_of(1), 0.75}}, .send_to = {w(0)}};
  EXPECT_EQ(subject.on(round), (holder_effects{apply_round{{{t(100), 0.25}, {t(101), 0.75}}, round}}));
  EXPECT_EQ(subject.kept(), 0u);
  EXPECT_EQ(subject.current(), v(1));
}

TEST(Holder, PushThatACloseDoesNotNameStaysUntilItIsDropped) {
  holder subject = shard();
  subject.on(push_of(0));
  subject.on(push_of(1));
  subject.on(close{.ver = v(1), .contributions = {{id_of(0), 1}}});
  EXPECT_EQ(subject.kept(), 1u);
  EXPECT_EQ(subject.on(drop_order{id_of(1)}), (holder_effects{discard{t(101)}}));
  EXPECT_EQ(subject.kept(), 0u);
  EXPECT_EQ(subject.on(drop_order{id_of(1)}), holder_effects{});
}

TEST(Holder, DroppedEmptyPushHasNoTicketToDiscard) {
  holder subject = shard();
  push empty = push_of(0);
  empty.gradient = {};
  subject.on(empty);
  EXPECT_EQ(subject.kept(), 1u);
  EXPECT_EQ(subject.on(drop_order{id_of(0)}), holder_effects{});
  EXPECT_EQ(subject.kept(), 0u);
}

TEST(Holder, RepeatedCloseIsNothing) {
  holder subject = shard();
  subject.on(push_of(0));
  const close round{.ver = v(1), .contributions = {{id_of(0), 1}}};
  subject.on(round);
  EXPECT_EQ(subject.on(round), holder_effects{});
}

TEST(Holder, CloseThatNamesWhatIsNotKeptSaysSo) {
  holder subject = shard();
  const holder_effects out = subject.on(close{.ver = v(1), .contributions = {{id_of(0), 1}}});
  EXPECT_EQ(only<report>(out).text, "a close names a push that is not kept here");
  EXPECT_EQ(count<apply_round>(out), 1u);
}

TEST(Holder, DeathRefusesWhatComesAfterItAndKeepsWhatCameBefore) {
  holder subject = shard();
  subject.on(push_of(0));
  EXPECT_EQ(subject.on(worker_down{w(0), {}}), holder_effects{});
  EXPECT_EQ(count<discard>(subject.on(push_of(0, 2, 7))), 1u);
  EXPECT_EQ(subject.kept(), 1u) << "the lead may have counted it already";
}

TEST(Holder, DeathOfOneLifeDoesNotRefuseTheNext) {
  holder subject = shard();
  subject.on(worker_down{w(0), {}});
  plan back = plan_of(2, {0, 1});
  back.workers[0].incarnation = {1};
  subject.on(back);
  push again = push_of(0);
  again.epoch = e(2);
  again.id.incarnation = {1};
  EXPECT_EQ(count<send_arrival>(subject.on(again)), 1u);
  EXPECT_EQ(subject.on(worker_down{w(0), {}}), holder_effects{});
  again.id.clock = {2};
  EXPECT_EQ(count<send_arrival>(subject.on(again)), 1u) << "the old incarnation's death came twice";
}

TEST(Holder, ShardServesAndAggregatorDoesNot) {
  holder subject = shard();
  const send_order order{.ver = v(0), .to = {evaluator}};
  EXPECT_EQ(subject.on(order), (holder_effects{serve{order}}));
  holder aggregator{{.self = h(4), .is_shard = false}};
  EXPECT_EQ(aggregator.on(order), holder_effects{});
}

TEST(Holder, AggregatorForwardsTheSumOfItsOwnWorkers) {
  holder subject{{.self = h(4), .is_shard = false, .parents = {h(0)}, .workers = {w(1)}}};
  subject.on(plan_of(1, {0, 1}));
  subject.on(push_of(1));
  const close round{.ver = v(1), .contributions = {{id_of(0), 0.25}, {id_of(1), 0.75}}};
  EXPECT_EQ(subject.on(round), (holder_effects{forward{{{t(101), 0.75}}, round}})) << "worker 0 is another's";
}

TEST(Holder, AggregatorWithoutACountedWorkerForwardsAnEmptySum) {
  holder subject{{.self = h(4), .is_shard = false, .parents = {h(0)}, .workers = {w(1)}}};
  const close round{.ver = v(1), .contributions = {{id_of(0), 1}}};
  EXPECT_EQ(subject.on(round), (holder_effects{forward{{}, round}}));
}

TEST(Holder, CloseWaitsForEveryChildAndSumsThemInOrder) {
  holder subject = root();
  const close round{.ver = v(1)};
  EXPECT_EQ(subject.on(partial{h(2), v(1), t(22)}), holder_effects{}) << "before the close";
  EXPECT_EQ(subject.waiting_for(), std::vector<holder_id>{});
  EXPECT_EQ(subject.on(round), holder_effects{});
  EXPECT_EQ(subject.waiting_for(), (std::vector{h(1)}));
  EXPECT_EQ(subject.current(), v(0));
  EXPECT_EQ(subject.on(partial{h(1), v(1), t(21)}), (holder_effects{apply_round{{{t(21), 1}, {t(22), 1}}, round}}));
  EXPECT_EQ(subject.current(), v(1));
}

TEST(Holder, EmptyPartialSumCountsAndAddsNoTerm) {
  holder subject = root();
  const close round{.ver = v(1)};
  subject.on(round);
  subject.on(partial{h(1), v(1), {}});
  EXPECT_EQ(subject.on(partial{h(2), v(1), t(22)}), (holder_effects{apply_round{{{t(22), 1}}, round}}));
}

TEST(Holder, OrdersBehindAWaitingCloseKeepTheirOrder) {
  holder subject = root();
  const close first{.ver = v(1)}, second{.ver = v(2)};
  const send_order serve_first{.ver = v(1), .to = {evaluator}};
  subject.on(first);
  EXPECT_EQ(subject.on(serve_first), holder_effects{});
  EXPECT_EQ(subject.on(retain{t(5)}), holder_effects{});
  EXPECT_EQ(subject.on(second), holder_effects{});
  EXPECT_EQ(subject.on(release{t(5)}), holder_effects{});
  subject.on(partial{h(1), v(2), t(31)});
  subject.on(partial{h(2), v(2), t(32)});
  subject.on(partial{h(1), v(1), t(21)});
  EXPECT_EQ(subject.on(partial{h(2), v(1), t(22)}),
            (holder_effects{apply_round{{{t(21), 1}, {t(22), 1}}, first}, serve{serve_first}, retain{t(5)},
                            apply_round{{{t(31), 1}, {t(32), 1}}, second}, release{t(5)}}));
}

TEST(Holder, ReportWaitsForTheCloseBeforeIt) {
  holder subject = root();
  const report made{.event = report::kind::held, .ver = v(1)};
  EXPECT_EQ(subject.on(made), holder_effects{made});
  const close round{.ver = v(1)};
  subject.on(round);
  EXPECT_EQ(subject.on(made), holder_effects{});
  subject.on(partial{h(1), v(1), {}});
  EXPECT_EQ(subject.on(partial{h(2), v(1), {}}), (holder_effects{apply_round{{}, round}, made}));
}

TEST(Holder, RepeatedLateOrForeignPartialSumIsDiscarded) {
  holder subject = root();
  subject.on(partial{h(1), v(1), t(21)});
  EXPECT_EQ(subject.on(partial{h(1), v(1), t(7)}), (holder_effects{discard{t(7)}}));
  EXPECT_EQ(subject.on(partial{h(9), v(1), t(8)}), (holder_effects{discard{t(8)}}));
  subject.on(partial{h(2), v(1), {}});
  subject.on(close{.ver = v(1)});
  EXPECT_EQ(subject.on(partial{h(2), v(1), t(9)}), (holder_effects{discard{t(9)}}));
  EXPECT_EQ(subject.on(partial{h(2), v(1), {}}), holder_effects{});
}

TEST(Holder, DeadChildIsNotAwaited) {
  holder subject = root();
  const close round{.ver = v(1)};
  subject.on(round);
  subject.on(partial{h(2), v(1), t(22)});
  EXPECT_EQ(subject.on(holder_down{h(1), ""}), (holder_effects{apply_round{{{t(22), 1}}, round}}));
  subject.on(close{.ver = v(2)});
  EXPECT_EQ(subject.waiting_for(), (std::vector{h(2)}));
}

TEST(Holder, WhatADeadChildHadSentStillCounts) {
  holder subject = root();
  subject.on(partial{h(1), v(1), t(21)});
  subject.on(holder_down{h(1), ""});
  const close round{.ver = v(1)};
  subject.on(round);
  EXPECT_EQ(subject.on(partial{h(2), v(1), t(22)}), (holder_effects{apply_round{{{t(21), 1}, {t(22), 1}}, round}}));
}

} // namespace
} // namespace troupe::protocols
