// SPDX-License-Identifier: BSD-3-Clause
// A lead whose shards have backups, and holders that make a version in two phases.
#include "protocols/replicated_lead.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "protocols/coordinator.hpp"
#include "protocols/tree.hpp"
#include "protocols/wire/state.hpp"
#include "tests/protocols/making.hpp"
#include "tests/protocols/two_phases.hpp"

namespace troupe::protocols {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

// -- the lead

TEST(ReplicatedLead, ClosesAreProposedAndTheRestIsKeptBack) {
  replicated_lead subject = first_lead();
  subject.on(plan_of(1, {0, 1}));
  subject.on(arrived_at(0));
  const lead_effects out = subject.on(arrived_at(1));
  ASSERT_EQ(out.size(), 1u) << "no report yet, for the version may not come to be";
  EXPECT_EQ(only<close>(out).ver, v(1));
  EXPECT_THAT(subject.waiting_for(), ElementsAre(h(0), h(1)));
}

TEST(ReplicatedLead, AVersionIsCommittedOnceEveryHolderIsPrepared) {
  replicated_lead subject = first_lead();
  const close round = proposed_by(subject);
  EXPECT_THAT(subject.on(prepared_by(0, round)), IsEmpty());
  EXPECT_THAT(subject.on(prepared_by(0, round)), IsEmpty()) << "twice is once";
  const lead_effects out = subject.on(prepared_by(1, round));
  EXPECT_EQ(std::get<commit_order>(out.front()), (commit_order{v(1), round.decision}));
  EXPECT_EQ(only<report>(out).event, report::kind::round_closed);
}

TEST(ReplicatedLead, AnotherDecisionsAnswerDoesNotCount) {
  replicated_lead subject = first_lead();
  close round = proposed_by(subject);
  subject.on(prepared_by(0, round));
  ++round.decision;
  EXPECT_THAT(subject.on(prepared_by(1, round)), IsEmpty());
}

TEST(ReplicatedLead, WhatComesMeanwhileWaits) {
  replicated_lead subject = first_lead();
  const close round = proposed_by(subject);
  EXPECT_THAT(subject.on(lead_input{plan_of(2, {0, 1, 2})}), IsEmpty());
  EXPECT_FALSE(subject.next()) << "not before the commit";
  subject.on(prepared_by(0, round));
  subject.on(prepared_by(1, round));
  EXPECT_TRUE(subject.next());
  EXPECT_FALSE(subject.next());
}

TEST(ReplicatedLead, ALimitThatComesMeanwhileHoldsForTheNextVersion) {
  replicated_lead subject = first_lead();
  const close first = proposed_by(subject);
  for (const std::uint32_t worker : {0U, 1U})
    EXPECT_THAT(subject.on(arrived_at(worker, 2)), IsEmpty());
  EXPECT_THAT(subject.on(lead_input{hold_order{.now = true}}), IsEmpty());
  subject.on(prepared_by(0, first));
  subject.on(prepared_by(1, first));
  close second;
  while (const auto out = subject.next())
    if (count<close>(*out) > 0)
      second = only<close>(*out);
  EXPECT_EQ(second.ver, v(2));
  EXPECT_THAT(second.send_to, IsEmpty());
  EXPECT_TRUE(subject.decides()->held());
}

TEST(ReplicatedLead, WhatComesWhileItHoldsWaitsForTheResume) {
  replicated_lead subject = first_lead();
  subject.on(lead_input{hold_order{.at_version = 1}});
  const close round = proposed_by(subject);
  subject.on(prepared_by(0, round));
  subject.on(prepared_by(1, round));
  EXPECT_THAT(subject.on(lead_input{worker_down{w(1), {}}}), IsEmpty());
  EXPECT_FALSE(subject.next());
  EXPECT_EQ(subject.parked().size(), 1u);
  EXPECT_THAT(subject.on(lead_input{fetch_order{v(1)}}).size() + (subject.next() ? 1 : 0), testing::Ge(1u))
      << "but for what is asked of the held version";
  subject.on(lead_input{resume_order{}});
  while (subject.next()) {
  }
  EXPECT_TRUE(subject.parked().empty());
}

TEST(ReplicatedLead, ALostBackupIsNotWaitedFor) {
  replicated_lead subject = first_lead();
  const close round = proposed_by(subject);
  subject.on(prepared_by(0, round));
  EXPECT_EQ(count<commit_order>(subject.on(holder_down{h(1), "killed"})), 1u);
}

TEST(ReplicatedLead, ABackupInItsShardsPlaceIsAskedAgain) {
  replicated_lead subject{sync_lead_from, {.holders = {h(0), h(1), h(2), h(3)}}, 0}; // 2 and 3 back up 0 and 1
  const close round = proposed_by(subject);
  for (const std::uint32_t holder : {0U, 1U, 2U})
    subject.on(prepared_by(holder, round));
  EXPECT_EQ(only<close>(subject.on(takes_over{h(1), h(3), 0})), round) << "shard 1 was prepared, and is another one now";
  EXPECT_THAT(subject.waiting_for(), ElementsAre(h(1)));
  EXPECT_EQ(count<commit_order>(subject.on(prepared_by(1, round))), 1u);
}

/// A shard and a worker died together, and with them that worker's push.
TEST(ReplicatedLead, ARoundThatCannotBeMadeIsDecidedAgainWithoutTheDead) {
  replicated_lead subject = first_lead();
  const close round = proposed_by(subject);
  subject.on(prepared_by(1, round));
  EXPECT_THAT(subject.on(prepared_by(0, round, false)), IsEmpty()) << "nobody has said yet that the worker is gone";
  EXPECT_EQ(only<commit_order>(subject.on(lead_input{worker_down{w(1), {}}})), (commit_order{v(1), round.decision, true}));
  close again;
  while (const auto out = subject.next())
    if (count<close>(*out) > 0)
      again = only<close>(*out);
  EXPECT_EQ(again.ver, v(1));
  EXPECT_GT(again.decision, round.decision);
  ASSERT_EQ(again.contributions.size(), 1u);
  EXPECT_EQ(again.contributions.front(), (contribution{{w(0), {}, {1}}, 1}));
}

TEST(ReplicatedLead, ItsSuccessorDecidesTheSameAgain) {
  replicated_lead subject = first_lead();
  const close round = proposed_by(subject);
  const auto words = wire::encode_state(subject.record());
  decision_record record = *wire::decode_state<decision_record>(words);
  EXPECT_EQ(record, subject.record());
  record.holders = {h(0)};
  replicated_lead next{sync_lead_from, record, 1};
  close again;
  while (const auto out = next.next())
    if (count<close>(*out) > 0)
      again = only<close>(*out);
  EXPECT_EQ(again.view, 1u);
  again.view = round.view;
  EXPECT_EQ(again, round) << "the same pushes, weights, keys and number";
}

/// The last lead may have committed it, and given out numbers of which this one knows nothing.
TEST(ReplicatedLead, ASuccessorsNumbersAreItsOwn) {
  replicated_lead subject = first_lead();
  proposed_by(subject);
  decision_record record = subject.record();
  record.holders = {h(0)};
  replicated_lead next{sync_lead_from, record, 1};
  close again;
  while (const auto out = next.next())
    if (count<close>(*out) > 0)
      again = only<close>(*out);
  next.on(prepared_by(0, again));
  EXPECT_GT(next.record().decision, std::uint64_t{1} << 39);
  EXPECT_GT(next.decides()->state().sends, std::uint64_t{1} << 39);
}

TEST(ReplicatedLead, ASuccessorDecidesNothingNewBeforeItsOrdersCome) {
  replicated_lead next{sync_lead_from, {.holders = {h(0)}}, 1};
  EXPECT_THAT(next.on(lead_input{plan_of(1, {0})}), IsEmpty());
  EXPECT_THAT(next.on(arrived_at(0)), IsEmpty());
  EXPECT_FALSE(next.next());
  next.on(lead_input{hold_order{.at_version = 1}});
  bool proposes = false;
  while (const auto out = next.next())
    proposes = proposes || count<close>(*out) > 0;
  EXPECT_TRUE(proposes);
  EXPECT_TRUE(next.decides()->held()) << "the order came first";
}

/// The order came while the round that cannot be made was proposed again, and so did the death for which it cannot.
class SuccessorThatAbandons : public testing::TestWithParam<bool> {};
INSTANTIATE_TEST_SUITE_P(TheOrderComes, SuccessorThatAbandons, testing::Bool(),
                         [](const auto& which) { return which.param ? "First" : "Last"; });
TEST_P(SuccessorThatAbandons, HasHeardItsOrders) {
  replicated_lead subject = first_lead();
  proposed_by(subject);
  decision_record record = subject.record();
  record.holders = {h(0)};
  replicated_lead next{sync_lead_from, record, 1};
  close again;
  const auto go_on = [&] {
    while (const auto out = next.next())
      if (count<close>(*out) > 0)
        again = only<close>(*out);
  };
  go_on();
  next.on(prepared_by(0, again, false));
  const lead_input order{hold_order{.at_version = 9}}, death{worker_down{w(1), {}}};
  next.on(GetParam() ? order : death);
  EXPECT_EQ(next.waiting_for(), std::set{h(0)}) << "still";
  EXPECT_EQ(count<commit_order>(next.on(GetParam() ? death : order)), 1u) << "which abandons it";
  go_on();
  EXPECT_GT(again.decision, std::uint64_t{1} << 39);
  EXPECT_GT(again.key, std::uint64_t{1} << 39) << "the last lead may have sent others under the number that followed";
  next.on(prepared_by(0, again));
  go_on();
  EXPECT_EQ(next.decides()->current(), v(1));
  again = {};
  next.on(arrived_at(0, 2));
  go_on();
  EXPECT_TRUE(next.parked().empty()) << "nothing is waited for any more";
}

// -- holders

TEST(TwoPhases, APrimarySumsUpBeforeItIsPrepared) {
  holder subject = copy_of_shard(0);
  subject.on(push_at_holder(0));
  subject.on(push_at_holder(1));
  const auto asks = only<sum_up>(subject.on(round_of_two()));
  EXPECT_THAT(asks.sum, ElementsAre(term{t(100), 0.5}, term{t(101), 0.5}));
  EXPECT_THAT(asks.backups, ElementsAre(h(1)));
  EXPECT_EQ(subject.on(summed{v(1), 1, t(7)}), (holder_effects{send_prepared{{h(0), v(1), 1}}}));
  const holder_effects made = subject.on(commit_order{v(1), 1});
  EXPECT_THAT(only<apply_round>(made).sum, ElementsAre(term{t(7), 1}));
  EXPECT_EQ(count<discard>(made), 2u) << "the pushes were kept until now";
}

TEST(TwoPhases, NothingIsMadeBeforeTheCommit) {
  holder subject = copy_of_shard(0);
  subject.on(push_at_holder(0));
  subject.on(push_at_holder(1));
  subject.on(round_of_two());
  subject.on(summed{v(1), 1, t(7)});
  EXPECT_THAT(subject.on(commit_order{v(1), 2}), IsEmpty()) << "another decision's";
  EXPECT_EQ(subject.current(), v(0));
}

TEST(TwoPhases, ABackupIsPreparedByItsPrimarysSumAndServesNobody) {
  holder subject = copy_of_shard(1);
  EXPECT_THAT(subject.on(round_of_two()), IsEmpty());
  EXPECT_EQ(subject.on(partial{.from = h(0), .ver = v(1), .sum = t(7), .decision = 1}),
            (holder_effects{send_prepared{{h(1), v(1), 1}}}));
  const auto made = subject.on(commit_order{v(1), 1});
  const auto step = only<apply_round>(made);
  EXPECT_THAT(step.sum, ElementsAre(term{t(7), 1}));
  EXPECT_THAT(step.round.send_to, IsEmpty());
  EXPECT_EQ(made.back(), (holder_effect{follow{order_of(round_of_two())}})) << "what workers have, once the version is made";
  const send_order later{.epoch = e(1), .ver = v(1), .key = 9, .to = {w(0)}};
  EXPECT_EQ(subject.on(later), (holder_effects{follow{later}}));
}

TEST(TwoPhases, WhereNobodyIsSentAVersionABackupFollowsNothing) {
  holder subject = copy_of_shard(1);
  close round = round_of_two();
  round.send_to.clear();
  subject.on(round);
  subject.on(partial{.from = h(0), .ver = v(1), .sum = t(7), .decision = 1});
  EXPECT_EQ(count<follow>(subject.on(commit_order{v(1), 1})), 0u);
}

TEST(TwoPhases, AShardFollowsNobody) {
  holder subject = copy_of_shard(0);
  subject.on(push_at_holder(0));
  subject.on(push_at_holder(1));
  subject.on(round_of_two());
  subject.on(summed{v(1), 1, t(7)});
  EXPECT_EQ(count<follow>(subject.on(commit_order{v(1), 1})), 0u);
  EXPECT_EQ(count<follow>(subject.on(send_order{.epoch = e(1), .ver = v(1), .key = 9, .to = {w(0)}})), 0u);
}

TEST(TwoPhases, ABackupInItsShardsPlaceServesWhatMayNotHaveBeenServed) {
  holder subject = copy_of_shard(1);
  subject.on(round_of_two());
  subject.on(partial{.from = h(0), .ver = v(1), .sum = t(7), .decision = 1});
  subject.on(commit_order{v(1), 1});
  const auto served = all<serve>(subject.on(takes_over{h(0), h(1), 1}));
  ASSERT_EQ(served.size(), 2u);
  EXPECT_THAT(served.front().order.to, ElementsAre(w(0)));
  EXPECT_EQ(subject.place().self, h(0));
}

TEST(TwoPhases, APushOfTheDeadThatIsMissingMakesTheRoundImpossible) {
  holder subject = copy_of_shard(1);
  subject.on(takes_over{h(0), h(1), 1});
  subject.on(push_at_holder(0));
  EXPECT_THAT(subject.on(round_of_two(1, 1)), IsEmpty()) << "it may come again";
  EXPECT_EQ(subject.on(worker_down{w(1), {}}), (holder_effects{send_prepared{{h(0), v(1), 1, false}}}));
}

TEST(TwoPhases, ALaterDecisionReplacesAnEarlierOne) {
  holder subject = copy_of_shard(1);
  subject.on(round_of_two(1));
  subject.on(partial{.from = h(0), .ver = v(1), .sum = t(7), .decision = 1});
  EXPECT_THAT(subject.on(round_of_two(2)), IsEmpty()) << "its sum has not come";
  EXPECT_THAT(subject.on(commit_order{v(1), 1}), IsEmpty());
  EXPECT_EQ(subject.on(partial{.from = h(0), .ver = v(1), .sum = t(8), .decision = 2}).size(), 2u)
      << "the other sum goes, and it is prepared";
}

TEST(TwoPhases, ADeposedLeadIsNotHeard) {
  holder subject = copy_of_shard(1);
  subject.on(round_of_two(1, 1));
  subject.on(partial{.from = h(0), .ver = v(1), .sum = t(7), .decision = 1});
  EXPECT_THAT(subject.on(round_of_two(5, 0)), IsEmpty());
  EXPECT_EQ(count<apply_round>(subject.on(commit_order{v(1), 1})), 1u);
}

/// The new lead's close may come before the news that it leads: what was said then went to the last one.
TEST(TwoPhases, ANewLeadIsToldAgainWhatIsPrepared) {
  holder subject{holder_tree({2, 2, 0, 2})[1]};
  subject.on(plan_of(1, {0, 1}));
  subject.on(push_at_holder(0));
  subject.on(push_at_holder(1));
  subject.on(round_of_two(1, 1));
  subject.on(summed{v(1), 1, t(7)});
  const auto said = all<send_prepared>(subject.on(takes_over{h(0), h(2), 1}));
  EXPECT_THAT(said, ElementsAre(send_prepared{{h(1), v(1), 1}}));
}

/// Its worker has heard of the new lead, and sent the push again; then an order of the last one came.
TEST(TwoPhases, ANewLeadIsToldWhatTheLastOneHadDropped) {
  holder subject{holder_tree({.workers = 2, .shards = 2, .replicas = 2})[1]};
  subject.on(plan_of(1, {0, 1}));
  const auto pushed = [&subject](std::uint64_t clock) {
    subject.on(push{.epoch = e(1), .id = {w(0), {}, {clock}}, .gradient = t(clock)});
  };
  const auto reported = [&subject] {
    std::vector<push_id> out;
    for (const send_arrival& each : all<send_arrival>(subject.on(takes_over{.shard = h(0), .by = h(2)}))) {
      EXPECT_EQ(each.arrival.push.gradient, ticket{});
      out.push_back(each.arrival.push.id);
    }
    return out;
  };
  const push_id first{w(0), {}, {1}}, second{w(0), {}, {2}};
  pushed(1);
  EXPECT_EQ(subject.on(drop_order{first}), (holder_effects{discard{t(1)}}));
  EXPECT_THAT(reported(), ElementsAre(first));
  pushed(2);
  subject.on(drop_order{second});
  pushed(1); // late
  subject.on(drop_order{first});
  EXPECT_THAT(reported(), ElementsAre(second)) << "of each worker the last";
}

TEST(TwoPhases, ANewLeadIsToldAgainWhatIsMade) {
  holder subject{holder_tree({2, 2, 0, 2})[1]};
  subject.on(plan_of(1, {0, 1}));
  subject.on(push_at_holder(0));
  subject.on(push_at_holder(1));
  subject.on(round_of_two());
  subject.on(summed{v(1), 1, t(7)});
  subject.on(commit_order{v(1), 1});
  EXPECT_EQ(all<send_prepared>(subject.on(takes_over{h(0), h(2), 1})).front(), (send_prepared{{h(1), v(1), 1}}));
}

/// A new lead's orders may come before the news that it leads, behind a close of the last one.
TEST(TwoPhases, AnOlderOrderThatIsRepeatedDoesNotReplaceANewerOne) {
  holder subject = copy_of_shard(1);
  close round = round_of_two();
  round.key = 20;
  subject.on(round);
  subject.on(send_order{.ver = v(0), .key = 10, .to = {w(0)}});
  subject.on(partial{.from = h(0), .ver = v(1), .sum = t(7), .decision = 1});
  subject.on(commit_order{v(1), 1});
  const auto served = all<serve>(subject.on(takes_over{h(0), h(1), 1}));
  ASSERT_EQ(served.size(), 2u);
  for (const serve& each : served)
    EXPECT_EQ(each.order.ver, v(1)) << each.order.to.front().value;
}

/// The lead asks it by its new name; the question may come before the news, and was answered by the old one.
TEST(TwoPhases, ABackupInItsShardsPlaceSaysAgainWhatIsMade) {
  holder subject{holder_tree({2, 2, 0, 2})[3]};
  subject.on(plan_of(1, {0, 1}));
  subject.on(round_of_two());
  subject.on(partial{.from = h(1), .ver = v(1), .sum = t(7), .decision = 1});
  subject.on(commit_order{v(1), 1});
  subject.on(takes_over{h(0), h(2), 1});
  EXPECT_THAT(all<send_prepared>(subject.on(round_of_two(1, 1))), ElementsAre(send_prepared{{h(3), v(1), 1}}));
  EXPECT_THAT(all<send_prepared>(subject.on(takes_over{h(1), h(3), 1})), ElementsAre(send_prepared{{h(1), v(1), 1}}));
}

TEST(TwoPhases, TheNextCloseSaysThatTheLastOneIsCommitted) {
  holder subject = copy_of_shard(1);
  subject.on(round_of_two());
  subject.on(partial{.from = h(0), .ver = v(1), .sum = t(7), .decision = 1});
  close second = round_of_two(2);
  second.ver = v(2);
  EXPECT_EQ(count<apply_round>(subject.on(second)), 1u);
  EXPECT_EQ(subject.current(), v(1));
}

TEST(TwoPhases, ACloseThatComesAgainIsAnsweredAgain) {
  holder subject = copy_of_shard(1);
  subject.on(round_of_two());
  subject.on(partial{.from = h(0), .ver = v(1), .sum = t(7), .decision = 1});
  EXPECT_EQ(subject.on(round_of_two()), (holder_effects{send_prepared{{h(1), v(1), 1}}}));
}

TEST(TwoPhases, ASumThatDiedWithItsPrimaryGoesToTheOtherBackups) {
  holder subject{holder_tree({2, 1, 0, 3})[1]};
  subject.on(plan_of(1, {0, 1}));
  subject.on(round_of_two());
  subject.on(partial{.from = h(0), .ver = v(1), .sum = t(7), .decision = 1});
  const auto asks = only<sum_up>(subject.on(takes_over{h(0), h(1), 0, {h(2)}}));
  EXPECT_THAT(asks.sum, ElementsAre(term{t(7), 1}));
  EXPECT_THAT(asks.backups, ElementsAre(h(2)));
}

TEST(TwoPhases, AnOlderDecisionsSumIsNotKept) {
  holder subject = copy_of_shard(1);
  subject.on(partial{.from = h(0), .ver = v(1), .sum = t(8), .decision = 2});
  EXPECT_EQ(subject.on(partial{.from = h(0), .ver = v(1), .sum = t(7), .decision = 1}), (holder_effects{discard{t(7)}}));
  EXPECT_EQ(count<send_prepared>(subject.on(round_of_two(2))), 1u);
}

TEST(TwoPhases, WhatADeadLeadProposedBlocksNobody) {
  holder subject{holder_tree({2, 2, 0, 2})[1]};
  subject.on(plan_of(1, {0, 1}));
  subject.on(round_of_two());
  subject.on(takes_over{h(0), h(2), 1});
  EXPECT_EQ(count<serve>(subject.on(send_order{.epoch = e(1), .key = 9, .to = {w(0)}})), 1u);
}

/// The dead lead had committed it, and this holder has not heard of that: the next version comes from the next lead.
TEST(TwoPhases, WhatADeadLeadCommittedUnheardIsMadeBeforeTheNextVersion) {
  for (const bool heard_before : {true, false}) {
    holder subject = copy_of_shard(1);
    if (heard_before)
      subject.on(round_of_two());
    subject.on(partial{.from = h(0), .ver = v(1), .sum = t(7), .decision = 1});
    subject.on(takes_over{.shard = h(0), .by = h(2), .view = 1});
    if (!heard_before) {
      EXPECT_THAT(subject.on(round_of_two()), IsEmpty()) << "it was under way, and blocks nobody";
    }
    close second = round_of_two(2, 1);
    second.ver = v(2);
    EXPECT_EQ(only<apply_round>(subject.on(second)).round.ver, v(1));
  }
}

TEST(TwoPhases, ADeadLeadsCloseThatIsRepeatedIsMadeOnce) {
  holder subject = copy_of_shard(1);
  subject.on(takes_over{.shard = h(0), .by = h(2), .view = 1});
  subject.on(round_of_two(1, 1));
  subject.on(round_of_two(1, 0)); // late
  subject.on(partial{.from = h(0), .ver = v(1), .sum = t(7), .decision = 1});
  EXPECT_EQ(count<apply_round>(subject.on(commit_order{v(1), 1})), 1u);
  const report made{.event = report::kind::held, .ver = v(1)};
  EXPECT_EQ(subject.on(made), holder_effects{made}) << "nothing waits";
}

TEST(TwoPhases, TheCommitOfADeadLeadMayComeLate) {
  holder subject = copy_of_shard(1);
  subject.on(round_of_two());
  subject.on(partial{.from = h(0), .ver = v(1), .sum = t(7), .decision = 1});
  subject.on(takes_over{.shard = h(0), .by = h(2), .view = 1});
  EXPECT_EQ(count<apply_round>(subject.on(commit_order{v(1), 1})), 1u);
}

TEST(TwoPhases, WhatTheNextLeadDecidesOfTheSameVersionTakesItsPlace) {
  holder subject = copy_of_shard(1);
  subject.on(round_of_two());
  subject.on(takes_over{.shard = h(0), .by = h(2), .view = 1});
  subject.on(round_of_two(9, 1));
  EXPECT_THAT(subject.on(commit_order{v(1), 1}), IsEmpty());
  EXPECT_EQ(subject.current(), v(0));
}

TEST(TwoPhases, ABackupTellsNobodyOfAPush) {
  holder subject = copy_of_shard(1);
  EXPECT_THAT(subject.on(push_at_holder(0)), IsEmpty()) << "its worker knew first that it is the shard";
  EXPECT_EQ(only<send_arrival>(subject.on(takes_over{h(0), h(1), 1})).arrival.holder, h(0));
}

TEST(TwoPhases, WhatIsMadeIsPreparedForWhoeverAsks) {
  holder subject = copy_of_shard(1);
  subject.on(round_of_two());
  subject.on(partial{.from = h(0), .ver = v(1), .sum = t(7), .decision = 1});
  subject.on(commit_order{v(1), 1});
  EXPECT_EQ(subject.on(round_of_two(1, 1)), (holder_effects{send_prepared{{h(1), v(1), 1}}}));
}

// -- who takes whose place

TEST(Backups, ComeLastInTheTree) {
  const auto tree = holder_tree({3, 2, 0, 3});
  ASSERT_EQ(tree.size(), 6u);
  EXPECT_THAT(tree[1].backups, ElementsAre(h(3), h(5)));
  EXPECT_EQ(tree[3].backup_of, h(1));
  EXPECT_EQ(tree[4].backup_of, h(0));
  EXPECT_TRUE(tree[0].commits);
  EXPECT_FALSE(holder_tree({3, 2, 0, 1})[0].commits);
}

coordinator of_two_shards(std::uint32_t replicas) {
  coordinator out{{.workers = 1, .data_size = 100, .shards = 2, .replicas = replicas}};
  out.on(joined{{w(0), {}}});
  return out;
}

TEST(Backups, TakeTheirShardsPlaceInTurn) {
  coordinator subject = of_two_shards(3);
  EXPECT_EQ(only<send_takes_over>(subject.on(holder_down{h(1), "killed"})).notice,
            (takes_over{h(1), h(3), 0, {h(5)}, {h(0), h(1), h(2), h(4), h(5)}}));
  EXPECT_EQ(only<send_takes_over>(subject.on(holder_down{h(3), "killed"})).notice,
            (takes_over{h(1), h(5), 0, {}, {h(0), h(1), h(2), h(4)}}))
      << "it was the shard, and did not know yet";
  EXPECT_TRUE(only<stop>(subject.on(holder_down{h(1), "killed"})).failed);
}

TEST(Backups, ADeadOneDoesNotTakeOver) {
  coordinator subject = of_two_shards(2);
  EXPECT_EQ(count<send_holder_down>(subject.on(holder_down{h(3), "killed"})), 1u);
  EXPECT_TRUE(only<stop>(subject.on(holder_down{h(1), "killed"})).failed);
}

TEST(Backups, ANewLeadHearsAllThatTheLastOneMayHaveHeardAlone) {
  coordinator subject = of_two_shards(2);
  subject.on(joined{{w(1), {}}});
  subject.on(down{{w(1), {}}, "killed"});
  const coordinator_effects out = subject.on(holder_down{h(0), "killed"});
  EXPECT_EQ(std::get<send_takes_over>(out.front()).notice, (takes_over{h(0), h(2), 1, {}, {h(0), h(1), h(3)}}));
  EXPECT_EQ(only<send_plan>(out).plan, subject.current());
  EXPECT_EQ(only<send_worker_down>(out).notice, (worker_down{w(1), {}}));
  EXPECT_EQ(only<hold>(out).order.at_samples, 100u);
  EXPECT_EQ(only<resume>(out).order.held, v(0));
  EXPECT_EQ(count<evaluate>(out), 0u);
}

TEST(Backups, ANewLeadHearsOfEveryLifeThatIsOver) {
  coordinator subject = of_two_shards(2);
  for (const std::uint32_t life : {0U, 1U}) {
    subject.on(joined{{w(1), {life}}});
    subject.on(down{{w(1), {life}}, "killed"});
  }
  EXPECT_EQ(count<send_worker_down>(subject.on(holder_down{h(0), "killed"})), 2u);
}

TEST(Backups, AVersionThatWasEvaluatedIsNotEvaluatedAgain) {
  coordinator subject = of_two_shards(2);
  subject.on(held{v(3), 100, 0});
  subject.on(evaluated{.ver = v(3)});
  EXPECT_THAT(subject.on(held{v(3), 100, 0}), IsEmpty());
}

TEST(Backups, ANewLeadIsAskedForWhatIsBeingEvaluated) {
  coordinator subject = of_two_shards(2);
  subject.on(held{v(3), 100, 0});
  const coordinator_effects out = subject.on(holder_down{h(0), "killed"});
  EXPECT_EQ(only<evaluate>(out).ver, v(3));
  EXPECT_EQ(count<resume>(out), 0u);
  EXPECT_THAT(subject.on(held{v(3), 100, 0}), IsEmpty()) << "it holds there once more";
}

} // namespace
} // namespace troupe::protocols
