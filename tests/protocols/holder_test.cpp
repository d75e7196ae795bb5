// SPDX-License-Identifier: BSD-3-Clause
// The holder: what it keeps, refuses and performs, alone and in a tree.
#include "protocols/holder.hpp"

#include <gtest/gtest.h>

#include "protocols/tree.hpp"
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
  push second = push_of(0, 2);
  second.epoch = e(3);
  subject.on(second);
  subject.on(plan_of(2, {1}));
  const auto late = [](std::uint64_t clock) {
    push out = push_of(0, clock, 7);
    out.epoch = e(3);
    return out;
  };
  const holder_effects refused{discard{t(7)}, report{.event = report::kind::push_discarded}};
  EXPECT_EQ(subject.on(late(1)), refused) << "an older one";
  subject.on(plan_of(3, {0, 1}));
  EXPECT_EQ(subject.on(late(2)), refused);
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

// -- in a tree: two phases

/// Of three workers, fan-in 2: shard 0 above aggregators 1 (workers 0 and 1) and 2 (worker 2).
constexpr tree_shape three_below_one{.workers = 3, .fan_in = 2};

holder in_tree(std::uint32_t self, const tree_shape& shape = three_below_one) {
  holder out{holder_tree(shape).at(self)};
  out.on(plan_of(1, {0, 1, 2}));
  return out;
}

plan without(std::uint32_t aggregator, std::uint32_t epoch = 2) {
  plan out = plan_of(epoch, {0, 1, 2});
  out.gone = {h(aggregator)};
  out.rooted = e(epoch);
  return out;
}

close round_of(std::initializer_list<std::uint32_t> workers, std::uint64_t ver = 1, std::uint64_t decision = 1) {
  close out{.epoch = e(1), .ver = v(ver), .decision = decision};
  for (const std::uint32_t worker : workers)
    out.contributions.push_back({id_of(worker, ver), 1.0 / static_cast<double>(workers.size())});
  return out;
}

partial sum_of(std::uint32_t child, ticket sum, std::uint64_t ver = 1, std::uint64_t decision = 1) {
  return {h(child), v(ver), sum, decision};
}

TEST(Holder, AggregatorSumsWhatIsOfItsOwnWorkersAndForwardsItOnce) {
  holder subject = in_tree(1);
  subject.on(push_of(1));
  const close round = round_of({1, 2});
  EXPECT_EQ(subject.on(round), (holder_effects{sum_up{{{t(101), 0.5}}, round, {}}})) << "worker 2 is another's";
  EXPECT_EQ(subject.on(summed{v(1), 1, t(7)}), (holder_effects{forward{v(1), 1, t(7), {h(0)}}}));
  EXPECT_EQ(subject.on(commit_order{v(1), 1}), (holder_effects{discard{t(101)}, discard{t(7)}}));
  EXPECT_EQ(subject.current(), v(1));
}

TEST(Holder, AggregatorWithoutACountedWorkerForwardsAnEmptySum) {
  holder subject = in_tree(1);
  const close round = round_of({2});
  EXPECT_EQ(subject.on(round), (holder_effects{sum_up{{}, round, {}}}));
  EXPECT_EQ(subject.on(summed{v(1), 1, {}}), (holder_effects{forward{v(1), 1, {}, {h(0)}}}));
}

TEST(Holder, AnAggregatorThatHasNotSummedARoundLetsItGoWithTheRest) {
  holder subject = in_tree(1);
  subject.on(round_of({0, 1}));
  EXPECT_EQ(subject.on(commit_order{v(1), 1}), holder_effects{}) << "its places were no more, and nobody missed its sum";
  EXPECT_EQ(subject.current(), v(1));
}

TEST(Holder, CloseWaitsForEveryChildAndSumsThemInOrder) {
  holder subject = in_tree(0);
  EXPECT_EQ(subject.on(sum_of(2, t(22))), holder_effects{}) << "before the close";
  EXPECT_EQ(subject.waiting_for(), std::vector<holder_id>{});
  EXPECT_EQ(subject.on(round_of({0, 2})), holder_effects{});
  EXPECT_EQ(subject.waiting_for(), (std::vector{h(1)}));
  EXPECT_EQ(only<sum_up>(subject.on(sum_of(1, t(21)))).sum, (std::vector<term>{{t(21), 1}, {t(22), 1}}));
  EXPECT_EQ(subject.on(summed{v(1), 1, t(7)}), (holder_effects{send_prepared{{h(0), v(1), 1}}}));
  EXPECT_EQ(subject.waiting_for(), std::vector<holder_id>{});
  EXPECT_EQ(only<apply_round>(subject.on(commit_order{v(1), 1})).sum, (std::vector<term>{{t(7), 1}}));
}

TEST(Holder, EmptyPartialSumCountsAndAddsNoTerm) {
  holder subject = in_tree(0);
  subject.on(round_of({2}));
  subject.on(sum_of(1, {}));
  EXPECT_EQ(only<sum_up>(subject.on(sum_of(2, t(22)))).sum, (std::vector<term>{{t(22), 1}}));
}

TEST(Holder, OrdersBehindAWaitingCloseKeepTheirOrder) {
  holder subject = in_tree(0);
  const send_order serve_first{.ver = v(1), .to = {evaluator}};
  const report made{.event = report::kind::held, .ver = v(1)};
  EXPECT_EQ(subject.on(made), holder_effects{made}) << "nothing waits";
  subject.on(round_of({0}));
  EXPECT_EQ(subject.on(serve_first), holder_effects{});
  EXPECT_EQ(subject.on(retain{t(5)}), holder_effects{});
  EXPECT_EQ(subject.on(made), holder_effects{});
  subject.on(sum_of(1, {}));
  subject.on(sum_of(2, {}));
  subject.on(summed{v(1), 1, {}});
  EXPECT_EQ(subject.on(commit_order{v(1), 1}),
            (holder_effects{apply_round{{}, round_of({0})}, serve{serve_first}, retain{t(5)}, made}));
}

TEST(Holder, RepeatedLateOrForeignPartialSumIsDiscarded) {
  holder subject = in_tree(0);
  subject.on(sum_of(1, t(21)));
  EXPECT_EQ(subject.on(sum_of(1, t(7))), (holder_effects{discard{t(7)}}));
  subject.on(sum_of(2, {}));
  subject.on(round_of({0}));
  subject.on(summed{v(1), 1, {}});
  subject.on(commit_order{v(1), 1});
  EXPECT_EQ(subject.on(sum_of(2, t(9))), (holder_effects{discard{t(9)}}));
  EXPECT_EQ(subject.on(sum_of(2, {})), holder_effects{});
  holder flat = shard();
  EXPECT_EQ(flat.on(sum_of(2, t(9))), (holder_effects{discard{t(9)}})) << "there are no aggregators";
}

TEST(Holder, ASumOfALaterDecisionTakesThePlaceOfAnEarlierOne) {
  holder subject = in_tree(0);
  subject.on(sum_of(1, t(21), 1, 1));
  EXPECT_EQ(subject.on(sum_of(1, t(31), 1, 2)), (holder_effects{discard{t(21)}}));
  EXPECT_EQ(subject.on(sum_of(1, t(41), 1, 1)), (holder_effects{discard{t(41)}})) << "late";
  subject.on(sum_of(2, t(22), 1, 1));
  subject.on(round_of({0, 2}, 1, 2));
  EXPECT_EQ(subject.waiting_for(), (std::vector{h(2)})) << "what it has sent is another decision's";
}

TEST(Holder, SumsOfARoundThatIsMadeWithoutThemAreDiscarded) {
  holder subject = in_tree(1, {.workers = 5, .fan_in = 2, .replicas = 1});
  holder above = in_tree(4, {.workers = 5, .fan_in = 2, .replicas = 1}); // children 1 and 2
  above.on(sum_of(1, t(21)));
  above.on(round_of({0}));
  EXPECT_EQ(above.on(commit_order{v(1), 1}), (holder_effects{discard{t(21)}}));
}

// -- and one of its aggregators is gone

TEST(Holder, AParentTakesTheWorkersOfAnAggregatorThatIsGone) {
  holder subject = in_tree(0);
  subject.on(without(1));
  EXPECT_EQ(subject.place().children, (std::vector{h(2)}));
  EXPECT_EQ(subject.place().workers, (std::set{w(0), w(1)}));
  push again = push_of(0);
  again.epoch = e(2);
  EXPECT_EQ(count<send_arrival>(subject.on(again)), 1u);
  close round = round_of({0, 2});
  round.epoch = e(2);
  EXPECT_EQ(subject.on(round), holder_effects{});
  EXPECT_EQ(only<sum_up>(subject.on(sum_of(2, t(22)))).sum, (std::vector<term>{{t(100), 0.5}, {t(22), 1}}));
}

TEST(Holder, ARoundOfPlacesThatAreNoMoreCannotBePrepared) {
  holder subject = in_tree(0);
  subject.on(sum_of(2, t(22)));
  subject.on(round_of({0, 2}));
  EXPECT_EQ(subject.on(without(1)), (holder_effects{send_prepared{{h(0), v(1), 1, false}}}));
  EXPECT_EQ(subject.on(without(1, 3)), holder_effects{}) << "once is enough";
  subject = in_tree(0);
  subject.on(without(1));
  EXPECT_EQ(subject.on(round_of({0, 2})), (holder_effects{send_prepared{{h(0), v(1), 1, false}}})) << "the lead knew nothing yet";
}

TEST(Holder, ARoundThatIsPreparedStaysSo) {
  holder subject = in_tree(0);
  subject.on(round_of({0}));
  subject.on(sum_of(1, t(21)));
  subject.on(sum_of(2, {}));
  subject.on(summed{v(1), 1, t(7)});
  EXPECT_EQ(subject.on(without(1)), holder_effects{});
  EXPECT_EQ(count<apply_round>(subject.on(commit_order{v(1), 1})), 1u);
}

TEST(Holder, ARoundOfAPlanThatIsNotHereYetWaitsForIt) {
  holder subject = in_tree(0);
  close round = round_of({2});
  round.epoch = e(2);
  EXPECT_EQ(subject.on(sum_of(1, {})), holder_effects{});
  EXPECT_EQ(subject.on(sum_of(2, t(22))), holder_effects{});
  EXPECT_EQ(subject.on(round), holder_effects{}) << "its children may be others";
  EXPECT_EQ(count<sum_up>(subject.on(plan_of(2, {0, 1, 2}))), 1u);
}

TEST(Holder, AnAggregatorGoesOnBelowItsNextParent) {
  holder subject = in_tree(1, {.workers = 5, .fan_in = 2}); // below 4, which is below the shard
  subject.on(without(4));
  EXPECT_EQ(subject.place().parents, (std::vector{h(0)}));
}

TEST(Holder, AnAggregatorSendsAgainWhatAShardThatIsLostMayNotHaveSummed) {
  holder subject =
      in_tree(2, {.workers = 3, .shards = 2, .fan_in = 2, .replicas = 2}); // below shards 0 and 1; 4 and 5 back them up
  subject.on(push_of(0));
  subject.on(round_of({0}));
  subject.on(summed{v(1), 1, t(7)});
  EXPECT_EQ(subject.on(takes_over{h(1), h(5), 0}), (holder_effects{forward{v(1), 1, t(7), {h(1)}}}));
  subject.on(commit_order{v(1), 1});
  EXPECT_EQ(subject.on(takes_over{h(1), h(5), 0}), holder_effects{}) << "it is made";
}

} // namespace
} // namespace troupe::protocols
