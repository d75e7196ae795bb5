// SPDX-License-Identifier: BSD-3-Clause
// A backup that begins later than its shard: admitted by the lead, complete piece by piece, and only then one that may take over.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "protocols/coordinator.hpp"
#include "protocols/holder.hpp"
#include "protocols/tree.hpp"
#include "protocols/wire/state.hpp"
#include "tests/protocols/two_phases.hpp"

namespace troupe::protocols {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

/// Holder 0 is the only shard; 1 was its backup, and 2 is the new one.
constexpr tree_shape one_shard{.workers = 2, .replicas = 2};

/// `pieces`: the last one without a tensor.
holder newcomer(std::uint32_t pieces = 7) {
  holder_place place = holder_tree(one_shard)[1];
  place.self = h(2);
  place.backups = {};
  holder out{place, {.joins = catch_up{.pieces = pieces}}};
  out.on(plan_of(1, {0, 1}));
  return out;
}

admit_order admit(std::uint64_t ver, std::uint64_t view = 0) {
  return {h(2), h(0), v(ver), view};
}

close round_of(std::uint64_t ver, std::uint64_t decision = 9) {
  return {.epoch = e(1), .ver = v(ver), .send_to = {w(0)}, .key = 10 * ver, .decision = decision};
}

partial sum_of(std::uint64_t ver, ticket sum, std::uint64_t decision = 9) {
  return {h(0), v(ver), sum, decision};
}

shard_piece piece(std::uint32_t index, std::uint64_t ver, ticket data) {
  return {.from = h(0), .ver = v(ver), .piece = index, .data = data};
}

copy_request asked(const holder_effects& effects) {
  return only<ask_for_copy>(effects).request;
}

// -- the backup

TEST(CatchUp, BeforeItIsAdmittedABackupHearsNothing) {
  holder subject = newcomer();
  EXPECT_THAT(subject.on(round_of(1)), IsEmpty());
  EXPECT_THAT(subject.on(send_order{.ver = v(1), .to = {w(0)}}), IsEmpty());
  EXPECT_THAT(subject.on(commit_order{v(1), 9}), IsEmpty());
  EXPECT_EQ(subject.current(), v(0));
}

TEST(CatchUp, SumsMayComeBeforeItIsAdmitted) {
  holder subject = newcomer(1);
  subject.on(sum_of(4, t(4)));
  subject.on(sum_of(5, t(5)));
  EXPECT_EQ(all<discard>(subject.on(admit(4))), (std::vector<discard>{{t(4)}}));
  subject.on(piece(0, 4, {}));
  EXPECT_EQ(count<send_prepared>(subject.on(round_of(5))), 1u) << "its shard had heard of it first";
}

TEST(CatchUp, OnceAdmittedItAsksForAFewPiecesAtATime) {
  holder subject = newcomer();
  EXPECT_EQ(asked(subject.on(admit(41, 3))), (copy_request{h(2), v(41), {0, 1, 2, 3}, 7, 3}));
  EXPECT_EQ(subject.on(piece(0, 41, t(1))), (holder_effects{install{piece(0, 41, t(1))}}));
  subject.on(piece(1, 41, t(2)));
  subject.on(piece(2, 41, t(3)));
  EXPECT_EQ(asked(subject.on(piece(3, 41, t(4)))), (copy_request{h(2), v(41), {4, 5, 6}, 7, 3}));
}

TEST(CatchUp, ItIsAdmittedOnceWhoeverLeads) {
  holder subject = newcomer();
  subject.on(admit(41));
  EXPECT_THAT(subject.on(admit(50, 1)), IsEmpty());
  EXPECT_EQ(subject.current(), v(41));
}

TEST(CatchUp, ARoundWaitsForThePiecesThatItHasAskedFor) {
  holder subject = newcomer(3);
  subject.on(admit(0));
  subject.on(round_of(1));
  EXPECT_THAT(subject.on(sum_of(1, t(5))), IsEmpty()) << "what it has been promised is of version 0";
  subject.on(piece(0, 0, t(1)));
  subject.on(piece(1, 0, t(2)));
  const holder_effects out = subject.on(piece(2, 0, {}));
  EXPECT_EQ(only<send_caught_up>(out).notice, (caught_up{h(2)}));
  EXPECT_EQ(only<send_prepared>(out).prepared, (prepared{h(2), v(1), 9}));
  EXPECT_EQ(only<apply_round>(subject.on(commit_order{v(1), 9})).sum, (std::vector<term>{{t(5), 1}}));
}

TEST(CatchUp, ARoundThatItHasAPartOfIsNotFollowed) {
  holder subject = newcomer();
  subject.on(admit(0));
  for (std::uint32_t i = 0; i < 4; ++i)
    subject.on(piece(i, 0, t(1 + i)));
  subject.on(round_of(1));
  subject.on(sum_of(1, t(5)));
  subject.on(piece(4, 0, t(9)));
  subject.on(piece(5, 0, t(10)));
  const holder_effects made = subject.on(commit_order{v(1), 9});
  ASSERT_EQ(count<apply_round>(made), 1u);
  EXPECT_EQ(count<follow>(made), 0u);
}

TEST(CatchUp, ItAsksForMoreWhenNoRoundWaits) {
  holder subject = newcomer(9);
  subject.on(admit(0));
  for (std::uint32_t i = 0; i < 3; ++i)
    subject.on(piece(i, 0, t(1 + i)));
  subject.on(round_of(1));
  EXPECT_EQ(count<ask_for_copy>(subject.on(piece(3, 0, t(4)))), 0u);
  EXPECT_EQ(count<send_prepared>(subject.on(sum_of(1, t(5)))), 1u);
  EXPECT_EQ(asked(subject.on(commit_order{v(1), 9})), (copy_request{h(2), v(1), {4, 5, 6, 7}, 9}));
}

TEST(CatchUp, APieceThatItHasNotAskedForIsOfNoUse) {
  holder subject = newcomer();
  EXPECT_EQ(subject.on(piece(0, 0, t(1))), (holder_effects{discard{t(1)}})) << "it has not asked";
  subject.on(admit(3));
  EXPECT_EQ(subject.on(piece(0, 2, t(1))), (holder_effects{discard{t(1)}}));
  EXPECT_EQ(subject.on(piece(4, 3, t(1))), (holder_effects{discard{t(1)}})) << "it has not asked for that one";
  EXPECT_EQ(count<install>(subject.on(piece(1, 3, t(1)))), 1u) << "they come in any order";
  EXPECT_EQ(count<install>(subject.on(piece(0, 3, t(1)))), 1u);
  EXPECT_EQ(subject.on(piece(0, 3, t(2))), (holder_effects{discard{t(2)}})) << "twice";
}

/// The lead had counted it among the dead.
TEST(CatchUp, WhatItHadAskedForIsVoidWhereAVersionIsMadeWithoutIt) {
  holder subject = newcomer();
  subject.on(admit(0));
  subject.on(piece(0, 0, t(1)));
  subject.on(round_of(1));
  subject.on(sum_of(1, t(5)));
  EXPECT_EQ(asked(subject.on(round_of(2))), copy_request{}) << "version 1 is committed, version 2 waits";
  EXPECT_EQ(subject.on(piece(1, 0, t(2))), (holder_effects{discard{t(2)}}));
  subject.on(sum_of(2, t(6)));
  EXPECT_EQ(asked(subject.on(commit_order{v(2), 9})), (copy_request{h(2), v(2), {1, 2, 3, 4}, 7}));
}

TEST(CatchUp, ItAsksWhoeverIsTheShard) {
  holder subject = newcomer();
  subject.on(admit(0));
  subject.on(piece(0, 0, t(1)));
  EXPECT_EQ(asked(subject.on(takes_over{.shard = h(0), .by = h(1), .view = 1})), (copy_request{h(2), v(0), {1, 2, 3}, 7}));
}

/// It is prepared for the version at which it was admitted, too, whoever asks.
TEST(CatchUp, ItTellsTheNextLeadAgainWhatItIsPreparedFor) {
  holder subject = newcomer();
  subject.on(admit(1));
  EXPECT_EQ(only<send_prepared>(subject.on(round_of(1))).prepared, (prepared{h(2), v(1), 9}));
  EXPECT_EQ(only<send_prepared>(subject.on(takes_over{.shard = h(0), .by = h(1), .view = 1})).prepared,
            (prepared{h(2), v(1), 9}));
}

/// It has not all of the version that its shard sends.
TEST(CatchUp, UntilItHasCaughtUpItFollowsNothing) {
  holder subject = newcomer(1);
  subject.on(admit(0));
  const send_order order{.ver = v(0), .key = 8, .to = {w(1)}};
  EXPECT_EQ(count<follow>(subject.on(order)), 0u);
  subject.on(piece(0, 0, {}));
  EXPECT_EQ(count<follow>(subject.on(order)), 1u);
}

TEST(CatchUp, ItKnowsWhomItsShardHasSentWhat) {
  holder subject = newcomer(2);
  subject.on(admit(0));
  subject.on(piece(0, 0, t(1)));
  subject.on(send_order{.ver = v(0), .key = 8, .to = {w(1)}});
  shard_piece last = piece(1, 0, {});
  last.sent = {{.ver = v(0), .key = 7, .to = {w(0)}}, {.ver = v(0), .key = 6, .to = {w(1)}}};
  subject.on(last);
  const auto served = all<serve>(subject.on(takes_over{.shard = h(0), .by = h(2), .view = 1}));
  ASSERT_EQ(served.size(), 2u);
  EXPECT_EQ(served[0].order.key, 7u);
  EXPECT_EQ(served[1].order.key, 8u) << "its own is newer";
}

// -- the shard

holder shard_with_backup() {
  holder out{holder_tree(one_shard)[0]};
  out.on(plan_of(1, {0, 1}));
  return out;
}

TEST(CatchUp, AShardAnswersOnceItHasAdmittedWhoAsks) {
  holder subject = shard_with_backup();
  EXPECT_THAT(subject.on(copy_request{h(2), v(0), {0, 1}, 7}), IsEmpty()) << "it may not have heard what the other has not";
  const auto sent = all<send_copy>(subject.on(admit(0)));
  ASSERT_EQ(sent.size(), 2u);
  EXPECT_EQ(sent[0], (send_copy{h(2), piece(0, 0, {})}));
  EXPECT_EQ(sent[1].part.piece, 1u);
}

TEST(CatchUp, AnAdmissionByAnEarlierLeadIsNotEnough) {
  holder subject = shard_with_backup();
  subject.on(admit(0));
  EXPECT_THAT(subject.on(copy_request{h(2), v(0), {0, 1}, 7, 1}), IsEmpty());
  EXPECT_EQ(count<send_copy>(subject.on(admit(0, 1))), 2u);
  subject.on(admit(0));
  EXPECT_EQ(count<send_copy>(subject.on(copy_request{h(2), v(0), {2}, 7, 1})), 1u) << "the earlier one's came late";
}

TEST(CatchUp, AShardAnswersWithTheVersionThatIsAskedFor) {
  holder subject = shard_with_backup();
  subject.on(admit(1));
  EXPECT_THAT(subject.on(copy_request{h(2), v(1), {0}, 7}), IsEmpty()) << "it is not made here";
  subject.on(round_of(1));
  subject.on(summed{v(1), 9, {}});
  const holder_effects made = subject.on(commit_order{v(1), 9});
  EXPECT_EQ(count<apply_round>(made), 1u);
  EXPECT_TRUE(std::holds_alternative<send_copy>(made.back())) << "and then it is sent";
  EXPECT_THAT(subject.on(copy_request{h(2), v(0), {0}, 7}), IsEmpty()) << "who asks is about to make it, and asks again";
}

TEST(CatchUp, TheLastPieceSaysWhoWasSentWhat) {
  holder subject = shard_with_backup();
  subject.on(admit(0));
  subject.on(send_order{.key = 3, .to = {w(0), w(1)}});
  const auto sent = all<send_copy>(subject.on(copy_request{h(2), v(0), {5, 6}, 7}));
  ASSERT_EQ(sent.size(), 2u);
  EXPECT_THAT(sent[0].part.sent, IsEmpty());
  EXPECT_EQ(sent[1].part.sent.size(), 2u);
}

TEST(CatchUp, SumsGoToANewBackupFromTheNextRoundOn) {
  holder subject = shard_with_backup();
  subject.on(admit(0));
  EXPECT_THAT(only<sum_up>(subject.on(round_of(1))).backups, ElementsAre(h(1), h(2)));
}

/// A new lead repeats the round, and the last one's word of the new backup comes late.
TEST(CatchUp, SoDoesOneThatWasMadeBeforeTheShardHeardOfIt) {
  holder subject = shard_with_backup();
  subject.on(round_of(1));
  EXPECT_EQ(count<send_prepared>(subject.on(summed{v(1), 9, t(5)})), 1u);
  const auto again = only<sum_up>(subject.on(admit(0)));
  EXPECT_EQ(again.sum, (std::vector<term>{{t(5), 1}}));
  EXPECT_THAT(again.backups, ElementsAre(h(1), h(2)));
  EXPECT_THAT(subject.on(summed{v(1), 9, t(6)}), IsEmpty());
  EXPECT_THAT(subject.on(admit(0, 1)), IsEmpty()) << "it has it";
  EXPECT_EQ(only<apply_round>(subject.on(commit_order{v(1), 9})).sum, (std::vector<term>{{t(6), 1}}));
}

/// Others may have the version still to make, and its shard is lost with what it had measured.
TEST(CatchUp, WhoHasCopiedAVersionSaysByWhatItWasClipped) {
  const squared_norm measured_there{0, 7};
  holder_place place = holder_tree(one_shard)[0];
  place.clips = true;
  holder subject{place};
  subject.on(plan_of(1, {0, 1}));
  subject.on(round_of(1));
  subject.on(summed{v(1), 9, t(5)});
  subject.on(measured{v(1), 9, measured_there});
  subject.on(commit_order{.ver = v(1), .decision = 9, .squares = measured_there});
  subject.on(admit(1));
  shard_piece copied = only<send_copy>(subject.on(copy_request{h(2), v(1), {0}, 1})).part;
  EXPECT_EQ(copied.squares, measured_there);

  place = holder_tree(one_shard)[1];
  place.self = h(2);
  place.clips = true;
  holder backup{place, {.joins = catch_up{.pieces = 1}}};
  backup.on(plan_of(1, {0, 1}));
  backup.on(admit(1));
  backup.on(copied);
  backup.on(takes_over{.shard = h(0), .by = h(2), .view = 1});
  EXPECT_EQ(only<send_prepared>(backup.on(round_of(1, 10))).prepared, (prepared{h(0), v(1), 10, true, measured_there}));
}

TEST(CatchUp, OneThatIsGoneIsAnsweredNoMore) {
  holder subject = shard_with_backup();
  subject.on(admit(1));
  subject.on(copy_request{h(2), v(1), {0}, 7});
  subject.on(holder_down{h(2), "killed"});
  subject.on(round_of(1));
  subject.on(summed{v(1), 9, {}});
  EXPECT_EQ(count<send_copy>(subject.on(commit_order{v(1), 9})), 0u);
}

/// The lead may have told it of one of which the coordinator has not heard yet.
TEST(CatchUp, ABackupInItsShardsPlaceKeepsThoseThatItHasAdmitted) {
  holder subject{holder_tree(one_shard)[1]};
  subject.on(admit(0));
  subject.on(takes_over{.shard = h(0), .by = h(1)});
  EXPECT_THAT(subject.place().backups, ElementsAre(h(2)));
}

/// Who takes the shard's place may not have heard of all its backups.
TEST(CatchUp, ABackupInItsShardsPlaceHasTheBackupsThatAreLeft) {
  holder subject{holder_tree(one_shard)[1]};
  subject.on(copy_request{h(2), v(0), {0}, 7});
  subject.on(admit(0));
  const holder_effects out = subject.on(takes_over{.shard = h(0), .by = h(1), .view = 0, .backups = {h(2)}});
  EXPECT_EQ(count<send_copy>(out), 1u) << "as a backup it answered nobody";
  EXPECT_THAT(subject.place().backups, ElementsAre(h(2)));
}

// -- the lead

arrival arrived(std::uint64_t clock) {
  return {.holder = h(0), .push = {.epoch = e(1), .id = {w(0), {}, {clock}}, .base = v(clock - 1), .samples = 10}};
}

TEST(CatchUp, ANewBackupIsAskedFromTheNextProposalOn) {
  replicated_lead subject{sync_lead_from, {.holders = {h(0)}}, 0};
  subject.on(plan_of(1, {0}));
  const close first = only<close>(subject.on(arrived(1)));
  EXPECT_EQ(subject.on(new_backup{h(2), h(0)}), (lead_effects{admit_order{h(2), h(0), v(1), 0}}));
  EXPECT_THAT(subject.waiting_for(), ElementsAre(h(0)));
  subject.on(prepared{h(0), v(1), first.decision});
  subject.on(arrived(2));
  EXPECT_THAT(subject.waiting_for(), ElementsAre(h(0), h(2)));
}

TEST(CatchUp, BetweenRoundsItIsAdmittedAtTheVersionThatIsMade) {
  replicated_lead subject{sync_lead_from, {.holders = {h(0)}}, 0};
  subject.on(plan_of(1, {0}));
  EXPECT_EQ(only<admit_order>(subject.on(new_backup{h(2), h(0)})).ver, v(0));
}

/// The last lead had admitted it; it waits for the close of this one.
TEST(CatchUp, AProposalThatWaitsForItIsRepeated) {
  replicated_lead subject{sync_lead_from, {.holders = {h(0), h(2)}}, 0};
  subject.on(plan_of(1, {0}));
  const close first = only<close>(subject.on(arrived(1)));
  EXPECT_EQ(subject.on(new_backup{h(2), h(0)}), (lead_effects{admit_order{h(2), h(0), v(1), 0}, first}));
}

TEST(CatchUp, WhatItIsToldOfTheDecisionsIsTheProposalOrAllBefore) {
  replicated_lead subject{sync_lead_from, {.holders = {h(0)}}, 0};
  subject.on(plan_of(1, {0}));
  EXPECT_TRUE(subject.newest_record().since.empty()) << "nothing is decided, so the next lead decides nothing again";
  EXPECT_EQ(subject.newest_record().from.plan.epoch, e(1));
  subject.on(arrived(1));
  EXPECT_EQ(subject.newest_record(), subject.record());
}

TEST(CatchUp, AHoppingLeadChangesNothing) {
  replicated_lead subject{sync_lead_from, {.holders = {h(0)}}, 0};
  subject.on(plan_of(1, {0}));
  const close first = only<close>(subject.on(arrived(1)));
  subject.on(lead_input{hold_order{.at_version = 2}});
  const auto words = wire::encode_state(subject.state());
  replicated_lead copy{sync_lead_from, *wire::decode_state<replicated_lead_state>(words)};
  EXPECT_EQ(copy.state(), subject.state());
  for (replicated_lead* each : {&subject, &copy})
    EXPECT_EQ(count<commit_order>(each->on(prepared{h(0), v(1), first.decision})), 1u);
  EXPECT_EQ(copy.state(), subject.state());
}

// -- the coordinator

coordinator_options two_shards() {
  return {.workers = 1, .data_size = 100, .shards = 2, .replicas = 2}; // 2 and 3 back up 0 and 1
}

coordinator with_backup_of_each() {
  coordinator out{two_shards()};
  out.on(joined{{w(0), {}}});
  return out;
}

TEST(CatchUp, TheLeadHearsOfANewBackupOnceAndTheOthersOfNothingNew) {
  coordinator subject = with_backup_of_each();
  subject.on(holder_down{h(3), "killed"});
  const coordinator_effects out = subject.on(new_backup{h(5), h(1)});
  EXPECT_EQ(only<send_new_backup>(out).notice, (new_backup{h(5), h(1)}));
  EXPECT_EQ(only<send_plan>(out).plan, subject.current()) << "for the new one";
  EXPECT_THAT(subject.on(new_backup{h(5), h(1)}), IsEmpty());
}

TEST(CatchUp, OnlyAfterwardsItTakesItsShardsPlace) {
  coordinator subject = with_backup_of_each();
  subject.on(holder_down{h(3), "killed"});
  subject.on(new_backup{h(5), h(1)});
  coordinator early{two_shards(), nullptr, subject.state()};
  const stop failed = only<stop>(early.on(holder_down{h(1), "killed"}));
  EXPECT_EQ(failed.reason,
            "shard 1 was lost, and the parameters that it held with it, for its new copy was not complete: killed");
  subject.on(caught_up{h(5)});
  const takes_over notice = only<send_takes_over>(subject.on(holder_down{h(1), "killed"})).notice;
  EXPECT_EQ(notice.by, h(5));
  EXPECT_EQ(notice.holders, (std::set{h(0), h(1), h(2)}));
}

TEST(CatchUp, APromotedShardsNextBackupIsAsGood) {
  coordinator subject = with_backup_of_each();
  subject.on(holder_down{h(0), "killed"}); // 2 is shard 0 now
  subject.on(new_backup{h(4), h(0)});
  subject.on(caught_up{h(4)});
  const coordinator_effects out = subject.on(holder_down{h(0), "killed"});
  EXPECT_EQ(only<send_takes_over>(out).notice.by, h(4));
  EXPECT_EQ(only<send_takes_over>(out).notice.view, 2u);
  EXPECT_THAT(all<send_new_backup>(out), ElementsAre(send_new_backup{{h(3), h(1)}})) << "the new lead may not know of any";
}

TEST(CatchUp, ALostNewcomerIsForgotten) {
  coordinator subject = with_backup_of_each();
  subject.on(new_backup{h(5), h(1)});
  EXPECT_EQ(count<send_holder_down>(subject.on(holder_down{h(5), "killed"})), 1u);
  subject.on(caught_up{h(5)});
  EXPECT_EQ(only<send_takes_over>(subject.on(holder_down{h(1), "killed"})).notice.by, h(3));
}

} // namespace
} // namespace troupe::protocols
