// SPDX-License-Identifier: BSD-3-Clause
// One member of Raft, message by message.
#include "protocols/raft.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace troupe::protocols::raft {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

constexpr nanoseconds ms = 1'000'000;

member_id m(std::uint32_t value) {
  return {value};
}
term t(std::uint64_t value) {
  return {value};
}
log_index i(std::uint64_t value) {
  return {value};
}
entry e(std::uint64_t index, std::uint64_t in, payload words = {}) {
  return {i(index), t(in), std::move(words)};
}
options about(std::uint32_t self, std::uint32_t count) {
  options out{.self = m(self)};
  for (std::uint32_t each = 0; each < count; ++each)
    out.members.push_back(m(each));
  return out;
}
stored disk_of(std::uint64_t in, std::vector<entry> log, std::optional<member_id> vote = {}, snapshot from = {}) {
  stored out;
  out.term = t(in);
  out.vote = vote;
  out.snapshot = std::move(from);
  out.log = std::move(log);
  return out;
}
/// To member 0.
message from(std::uint32_t who, std::uint64_t in, decltype(message::body) body) {
  return {m(who), m(0), t(in), std::move(body)};
}
/// From member 0.
effect to(std::uint32_t who, std::uint64_t in, decltype(message::body) body) {
  return send{{m(0), m(who), t(in), std::move(body)}};
}
effect on_disk(std::uint64_t in, std::optional<member_id> vote, std::vector<entry> entries = {}) {
  return persist{t(in), vote, {}, std::move(entries)};
}

/// Member 0 of some, and the time.
struct one {
  explicit one(std::uint32_t count, stored disk = {}) : machine(about(0, count), std::move(disk), 0) {}

  template <class Input>
  effects on(const Input& input) {
    auto out = machine.on(input, now);
    machine.check();
    return out;
  }
  effects tick(nanoseconds later = 0) {
    now += later;
    return on(raft::tick{});
  }
  /// Its election timeout.
  effects run_out() {
    now = machine.state().deadline;
    return tick();
  }
  effects pre_vote_of(std::uint32_t who) { return on(from(who, in() + 1, vote_reply{true, true})); }
  effects vote_of(std::uint32_t who) { return on(from(who, in(), vote_reply{false, true})); }
  effects propose(std::vector<payload> entries) { return on(proposal{std::move(entries)}); }
  effects took(std::uint32_t who, std::uint64_t upto) { return on(from(who, in(), append_reply{true, i(upto), {}})); }
  effects differs(std::uint32_t who, std::uint64_t after, std::uint64_t at) {
    return on(from(who, in(), append_reply{false, i(after), t(at)}));
  }
  std::uint64_t in() const { return machine.state().stored.term.value; }
  const std::vector<entry>& log() const { return machine.state().stored.log; }

  nanoseconds now = 0;
  member machine;
};

/// Elected with the votes of as many others as it needs; nobody has answered its first entry.
one leader_of(std::uint32_t count, stored disk = {}) {
  one out(count, std::move(disk));
  out.run_out();
  for (std::uint32_t who = 1; who <= count / 2; ++who)
    out.pre_vote_of(who);
  for (std::uint32_t who = 1; who <= count / 2; ++who)
    out.vote_of(who);
  EXPECT_TRUE(out.machine.leads());
  return out;
}

// -- elections

TEST(Raft, AloneItIsElectedByItsFirstTickAndCommitsWhatIsPersisted) {
  one alone(1);
  EXPECT_THAT(alone.tick(), ElementsAre(on_disk(1, m(0), {e(1, 1)}), effect(leads{t(1)}), effect(committed{{e(1, 1)}})));
  EXPECT_THAT(alone.propose({{7}, {8}}),
              ElementsAre(on_disk(1, m(0), {e(2, 1, {7}), e(3, 1, {8})}), effect(committed{{e(2, 1, {7}), e(3, 1, {8})}})));
  EXPECT_THAT(alone.tick(10'000 * ms), IsEmpty()) << "it needs nobody's answer";
}

TEST(Raft, AloneItGoesOnWithItsDisk) {
  one again(1, disk_of(4, {e(3, 4, {6})}, m(0), {i(2), t(3), {5}}));
  EXPECT_THAT(again.tick(),
              ElementsAre(on_disk(5, m(0), {e(4, 5)}), effect(leads{t(5)}), effect(committed{{e(3, 4, {6}), e(4, 5)}})));
}

TEST(Raft, AnElectionTimeoutIsDrawnBetweenOnceAndTwice) {
  nanoseconds least = 1'000 * ms, most = 500 * ms;
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    auto given = about(0, 3);
    given.seed = seed;
    const member each(given, stored{}, 7 * ms);
    least = std::min(least, each.state().deadline - 7 * ms);
    most = std::max(most, each.state().deadline - 7 * ms);
  }
  EXPECT_GE(least, 500 * ms);
  EXPECT_LT(least, 520 * ms);
  EXPECT_LT(most, 1'000 * ms);
  EXPECT_GT(most, 980 * ms);
  EXPECT_NE(member(about(0, 3), stored{}, 0).state().deadline, member(about(1, 3), stored{}, 0).state().deadline);
}

TEST(Raft, FirstItAsksWhetherItWouldBeElected) {
  one candidate(3, disk_of(4, {e(1, 2), e(2, 3)}, m(2)));
  EXPECT_THAT(candidate.tick(500 * ms - 1), IsEmpty()) << "before its timeout";
  const vote_request would_you{true, i(2), t(3)};
  EXPECT_THAT(candidate.run_out(), ElementsAre(to(1, 5, would_you), to(2, 5, would_you))) << "nothing to be persisted";
  EXPECT_EQ(candidate.in(), 4U);
  EXPECT_GE(candidate.machine.state().deadline, candidate.now + 500 * ms) << "another timeout";
}

TEST(Raft, MostPreVotesMakeItACandidateAndMostVotesTheLeader) {
  one candidate(5, disk_of(4, {e(1, 2)}));
  candidate.run_out();
  EXPECT_THAT(candidate.pre_vote_of(3), IsEmpty());
  EXPECT_THAT(candidate.pre_vote_of(3), IsEmpty()) << "one vote";
  const vote_request vote{false, i(1), t(2)};
  EXPECT_THAT(candidate.pre_vote_of(1),
              ElementsAre(on_disk(5, m(0)), to(1, 5, vote), to(2, 5, vote), to(3, 5, vote), to(4, 5, vote)));
  EXPECT_THAT(candidate.vote_of(2), IsEmpty());
  EXPECT_THAT(candidate.vote_of(2), IsEmpty()) << "one vote";
  const append_request first{i(1), t(2), {e(2, 5)}, {}};
  EXPECT_THAT(candidate.vote_of(4), ElementsAre(on_disk(5, m(0), {e(2, 5)}), effect(leads{t(5)}), to(1, 5, first),
                                                to(2, 5, first), to(3, 5, first), to(4, 5, first)));
  EXPECT_THAT(candidate.vote_of(1), IsEmpty()) << "a late vote";
}

TEST(Raft, VotesForAnotherElectionDoNotCount) {
  one candidate(3);
  candidate.run_out();
  EXPECT_THAT(candidate.vote_of(1), IsEmpty()) << "it asked for pre-votes";
  EXPECT_THAT(candidate.on(from(1, 1, vote_reply{true, false})), ElementsAre(on_disk(1, {}))) << "refused, and its term is known";
  EXPECT_EQ(candidate.machine.state().role, role::follower);
  candidate.run_out();
  EXPECT_THAT(candidate.on(from(1, 1, vote_reply{true, true})), IsEmpty()) << "of the term before";
  EXPECT_THAT(candidate.on(from(1, 3, vote_reply{true, true})), IsEmpty()) << "of no term that was asked about";
  EXPECT_EQ(candidate.in(), 1U);
  candidate.pre_vote_of(1);
  EXPECT_EQ(candidate.in(), 2U);
  EXPECT_THAT(candidate.on(from(1, 2, vote_reply{false, false})), IsEmpty());
  EXPECT_THAT(candidate.on(from(1, 1, vote_reply{false, true})), IsEmpty());
  EXPECT_THAT(candidate.on(from(1, 2, vote_reply{true, true})), IsEmpty()) << "a pre-vote is no vote";
  EXPECT_THAT(candidate.on(from(1, 3, vote_reply{true, true})), IsEmpty());
  EXPECT_EQ(candidate.machine.state().role, role::candidate);
  EXPECT_FALSE(candidate.vote_of(1).empty());
}

TEST(Raft, AFailedElectionBeginsAgainWithPreVotes) {
  one candidate(3);
  candidate.run_out();
  EXPECT_EQ(candidate.run_out().size(), 2U);
  candidate.pre_vote_of(1);
  EXPECT_EQ(candidate.machine.state().role, role::candidate);
  const vote_request would_you{true, {}, {}};
  EXPECT_THAT(candidate.run_out(), ElementsAre(to(1, 2, would_you), to(2, 2, would_you)));
  EXPECT_EQ(candidate.machine.state().role, role::pre_candidate);
  EXPECT_THAT(candidate.machine.state().votes, ElementsAre(m(0))) << "the vote of the last time does not count";
}

TEST(Raft, OneVoteATermGoesToTheFirstThatHasAllOfTheLog) {
  const stored disk = disk_of(4, {e(1, 2), e(2, 3)});
  const auto answer = [&](std::uint64_t in, vote_request asked) { return one(3, disk).on(from(1, in, asked)); };
  EXPECT_THAT(answer(5, {false, i(2), t(3)}), ElementsAre(on_disk(5, m(1)), to(1, 5, vote_reply{false, true}))) << "as long";
  EXPECT_THAT(answer(5, {false, i(1), t(4)}), ElementsAre(on_disk(5, m(1)), to(1, 5, vote_reply{false, true})))
      << "of a later term";
  EXPECT_THAT(answer(4, {false, i(2), t(3)}), ElementsAre(on_disk(4, m(1)), to(1, 4, vote_reply{false, true})))
      << "this term's vote is free";
  EXPECT_THAT(answer(5, {false, i(1), t(3)}), ElementsAre(on_disk(5, {}), to(1, 5, vote_reply{false, false}))) << "shorter";
  EXPECT_THAT(answer(5, {false, i(9), t(2)}), ElementsAre(on_disk(5, {}), to(1, 5, vote_reply{false, false})))
      << "longer, of an older term";
  EXPECT_THAT(answer(3, {false, i(9), t(9)}), ElementsAre(to(1, 4, vote_reply{false, false})))
      << "an old candidate hears the term";
}

TEST(Raft, AVoteIsGivenOnceAndRepeatedToWhoHasIt) {
  one voter(3);
  EXPECT_EQ(voter.on(from(1, 1, vote_request{false, {}, {}})).size(), 2U);
  EXPECT_THAT(voter.on(from(2, 1, vote_request{false, {}, {}})), ElementsAre(to(2, 1, vote_reply{false, false})));
  EXPECT_THAT(voter.on(from(1, 1, vote_request{false, {}, {}})), ElementsAre(to(1, 1, vote_reply{false, true})));
  EXPECT_THAT(voter.on(from(2, 2, vote_request{false, {}, {}})),
              ElementsAre(on_disk(2, m(2)), to(2, 2, vote_reply{false, true})));
  auto leader = leader_of(3);
  EXPECT_THAT(leader.on(from(1, 1, vote_request{false, i(9), t(1)})), ElementsAre(to(1, 1, vote_reply{false, false})));
}

TEST(Raft, APreVoteIsGivenWhereNoLeaderIsHeardAndChangesNothing) {
  one voter(3, disk_of(4, {e(1, 2), e(2, 3)}, m(2)));
  const auto before = voter.machine.state();
  const auto answer = [&](std::uint64_t in, std::uint64_t last, std::uint64_t last_term) {
    auto out = voter.on(from(1, in, vote_request{true, i(last), t(last_term)}));
    EXPECT_EQ(voter.machine.state(), before);
    return out;
  };
  EXPECT_THAT(answer(5, 2, 3), ElementsAre(to(1, 5, vote_reply{true, true}))) << "in the term that was asked about";
  EXPECT_THAT(answer(9, 2, 3), ElementsAre(to(1, 9, vote_reply{true, true})));
  EXPECT_THAT(answer(5, 1, 3), ElementsAre(to(1, 4, vote_reply{true, false})));
  EXPECT_THAT(answer(4, 2, 3), ElementsAre(to(1, 4, vote_reply{true, false}))) << "it could not be elected in this term";
  EXPECT_THAT(answer(3, 2, 3), ElementsAre(to(1, 4, vote_reply{true, false})));
}

TEST(Raft, NoPreVoteIsGivenWhileALeaderIsHeard) {
  one voter(3);
  voter.on(from(1, 1, append_request{}));
  const auto asked = from(2, 2, vote_request{true, i(5), t(1)});
  const auto answer_after = [&](nanoseconds later) {
    voter.now += later;
    return voter.on(asked);
  };
  EXPECT_THAT(answer_after(500 * ms - 1), ElementsAre(to(2, 1, vote_reply{true, false})));
  EXPECT_THAT(answer_after(1), ElementsAre(to(2, 2, vote_reply{true, true})));
  EXPECT_THAT(leader_of(3).on(asked), ElementsAre(to(2, 1, vote_reply{true, false}))) << "who leads has a leader";
  EXPECT_THAT(voter.on(from(1, 1, append_request{})), ElementsAre(to(1, 1, append_reply{true, {}, {}})));
  EXPECT_THAT(voter.on(asked), ElementsAre(to(2, 1, vote_reply{true, false}))) << "heard again";
}

TEST(Raft, ALaterTermEndsAnEarlierLeadersRule) {
  const std::vector<decltype(message::body)> all{
      vote_request{false, {}, {}}, vote_reply{false, true}, vote_reply{false, false},
      vote_reply{true, false},     append_reply{},          append_reply{true, {}, {}}};
  for (const auto& body : all) {
    auto old = leader_of(3);
    const auto did = old.on(from(1, 7, body));
    ASSERT_GE(did.size(), 2U);
    EXPECT_EQ(did[0], on_disk(7, {}));
    EXPECT_EQ(did[1], effect(follows{}));
    EXPECT_GE(old.machine.state().deadline, old.now + 500 * ms) << "not at the next heartbeat";
  }
  for (const auto& body : {vote_reply{true, true}}) {
    auto old = leader_of(3);
    EXPECT_THAT(old.on(from(1, 7, body)), IsEmpty()) << "asked about, not reached";
    EXPECT_EQ(old.in(), 1U);
  }
}

TEST(Raft, ANewTermHasANewLeaderOrNone) {
  one follower(3);
  EXPECT_THAT(follower.on(from(1, 1, append_request{})),
              ElementsAre(on_disk(1, {}), effect(follows{m(1)}), to(1, 1, append_reply{true, {}, {}})));
  EXPECT_THAT(follower.on(from(1, 1, append_request{})), ElementsAre(to(1, 1, append_reply{true, {}, {}})));
  EXPECT_THAT(follower.on(from(2, 2, append_request{})),
              ElementsAre(on_disk(2, {}), effect(follows{m(2)}), to(2, 2, append_reply{true, {}, {}})));
  EXPECT_EQ(follower.run_out().front(), effect(follows{})) << "it is silent";
  EXPECT_THAT(follower.on(from(2, 2, append_request{})),
              ElementsAre(effect(follows{m(2)}), to(2, 2, append_reply{true, {}, {}})));
  EXPECT_THAT(follower.on(from(1, 3, vote_request{false, {}, {}})),
              ElementsAre(on_disk(3, m(1)), effect(follows{}), to(1, 3, vote_reply{false, true})));
}

TEST(Raft, ACandidateFollowsWhoeverWon) {
  one candidate(3);
  candidate.run_out();
  candidate.pre_vote_of(1);
  const auto did = candidate.on(from(2, 1, append_request{}));
  EXPECT_THAT(did, ElementsAre(effect(follows{m(2)}), to(2, 1, append_reply{true, {}, {}})));
  EXPECT_EQ(candidate.machine.state().role, role::follower);
  EXPECT_EQ(candidate.machine.state().stored.vote, m(0)) << "the vote is given all the same";
}

TEST(Raft, ALeaderThatIsHeardPutsTheElectionOff) {
  one follower(3);
  for (int round = 0; round < 20; ++round) {
    EXPECT_THAT(follower.tick(400 * ms), IsEmpty());
    follower.on(from(1, 1, append_request{}));
  }
  EXPECT_THAT(follower.tick(499 * ms), IsEmpty());
  EXPECT_EQ(follower.tick(501 * ms).size(), 3U);
}

TEST(Raft, ALeaderWithoutAMajorityForAnElectionTimeoutStepsDown) {
  auto leader = leader_of(5);
  const nanoseconds began = leader.now;
  leader.now = began + 600 * ms;
  leader.took(1, 1);
  leader.now = began + 999 * ms;
  leader.differs(2, 0, 0);
  EXPECT_EQ(leader.tick().size(), 4U) << "heartbeats";
  leader.now = began + 1'599 * ms;
  leader.tick();
  EXPECT_TRUE(leader.machine.leads()) << "two of five have answered within a second";
  leader.now = began + 1'600 * ms;
  EXPECT_THAT(leader.tick(), ElementsAre(effect(follows{})));
  EXPECT_EQ(leader.in(), 1U);
  EXPECT_EQ(leader.machine.state().stored.vote, m(0)) << "it has voted in this term";
  EXPECT_GE(leader.machine.state().deadline, leader.now + 500 * ms);
  EXPECT_THAT(leader.propose({{1}}), IsEmpty());
}

// -- replication, as a follower

TEST(Raft, EntriesAreAnsweredOnceTheyAreOnTheDisk) {
  one follower(3);
  const append_request two{{}, {}, {e(1, 1), e(2, 1, {7})}, i(1)};
  EXPECT_THAT(follower.on(from(1, 1, two)), ElementsAre(on_disk(1, {}, {e(1, 1), e(2, 1, {7})}), effect(follows{m(1)}),
                                                        effect(committed{{e(1, 1)}}), to(1, 1, append_reply{true, i(2), {}})));
  EXPECT_THAT(follower.on(from(1, 1, two)), ElementsAre(to(1, 1, append_reply{true, i(1), {}})))
      << "before what is committed: the same there";
  EXPECT_THAT(follower.on(from(1, 1, append_request{i(2), t(1), {}, i(9)})),
              ElementsAre(effect(committed{{e(2, 1, {7})}}), to(1, 1, append_reply{true, i(2), {}})));
}

TEST(Raft, WhatIsCommittedBeyondTheMessageIsNotDecidedHere) {
  one follower(3, disk_of(2, {e(1, 1), e(2, 1), e(3, 1)}));
  EXPECT_THAT(follower.on(from(1, 2, append_request{i(1), t(1), {}, i(3)})),
              ElementsAre(effect(follows{m(1)}), effect(committed{{e(1, 1)}}), to(1, 2, append_reply{true, i(1), {}})))
      << "entries 2 and 3 may be another's";
}

TEST(Raft, AnOldMessageTakesNothingAway) {
  one follower(3);
  follower.on(from(1, 1, append_request{{}, {}, {e(1, 1), e(2, 1), e(3, 1)}, {}}));
  EXPECT_THAT(follower.on(from(1, 1, append_request{{}, {}, {e(1, 1)}, {}})),
              ElementsAre(to(1, 1, append_reply{true, i(1), {}})));
  EXPECT_EQ(follower.log().size(), 3U);
  EXPECT_THAT(follower.on(from(1, 1, append_request{i(1), t(1), {e(2, 1), e(3, 1), e(4, 1)}, {}})),
              ElementsAre(on_disk(1, {}, {e(4, 1)}), to(1, 1, append_reply{true, i(4), {}})));
}

TEST(Raft, AnotherLeadersEntriesTakeThePlaceOfWhatWasNotCommitted) {
  one follower(3, disk_of(2, {e(1, 1), e(2, 1), e(3, 1), e(4, 2)}));
  EXPECT_THAT(
      follower.on(from(1, 3, append_request{i(1), t(1), {e(2, 1), e(3, 3, {5}), e(4, 3)}, {}})),
      ElementsAre(on_disk(3, {}, {e(3, 3, {5}), e(4, 3)}), effect(follows{m(1)}), to(1, 3, append_reply{true, i(4), {}})));
  EXPECT_THAT(follower.log(), ElementsAre(e(1, 1), e(2, 1), e(3, 3, {5}), e(4, 3)));
  EXPECT_THAT(follower.on(from(2, 4, append_request{i(1), t(1), {e(2, 4)}, {}})),
              ElementsAre(on_disk(4, {}, {e(2, 4)}), effect(follows{m(2)}), to(2, 4, append_reply{true, i(2), {}})));
  EXPECT_THAT(follower.log(), ElementsAre(e(1, 1), e(2, 4))) << "and of what followed it";
}

TEST(Raft, WhereLogsDifferItSaysHowFarTheyMayBeTheSame) {
  const stored disk = disk_of(5, {e(1, 1), e(2, 2), e(3, 2), e(4, 4), e(5, 4)});
  const auto answer = [&](std::uint64_t previous, std::uint64_t in) {
    one follower(3, disk);
    const auto did = follower.on(from(1, 6, append_request{i(previous), t(in), {}, i(5)}));
    EXPECT_EQ(follower.machine.state().commit, i(0));
    EXPECT_EQ(follower.machine.state().leader, m(1));
    return did.back();
  };
  EXPECT_EQ(answer(9, 6), to(1, 6, append_reply{false, i(5), t(4)})) << "shorter";
  EXPECT_EQ(answer(5, 3), to(1, 6, append_reply{false, i(3), t(2)})) << "the leader has nothing of term 4 up to there";
  EXPECT_EQ(answer(5, 5), to(1, 6, append_reply{false, i(5), t(4)}));
  EXPECT_EQ(answer(3, 1), to(1, 6, append_reply{false, i(1), t(1)}));
}

TEST(Raft, OldLeadersHearOfTheTermAndMalformedEntriesAreIgnored) {
  one follower(3, disk_of(3, {e(1, 2)}));
  const auto before = follower.machine.state();
  EXPECT_THAT(follower.on(from(1, 2, append_request{i(1), t(2), {e(2, 2)}, {}})), ElementsAre(to(1, 3, append_reply{})));
  EXPECT_THAT(follower.on(from(1, 2, install_request{{i(9), t(2), {}}})), ElementsAre(to(1, 3, append_reply{})));
  EXPECT_THAT(follower.on(from(1, 3, append_request{i(1), t(2), {e(3, 3)}, {}})), IsEmpty()) << "a gap";
  EXPECT_THAT(follower.on(from(1, 3, append_request{i(1), t(2), {e(2, 3), e(2, 3)}, {}})), IsEmpty()) << "twice";
  EXPECT_THAT(follower.on(from(1, 3, append_request{i(1), t(2), {e(2, 4)}, {}})), IsEmpty()) << "of a later term";
  EXPECT_THAT(follower.on(from(1, 3, append_request{i(1), t(2), {e(2, 3), e(3, 2)}, {}})), IsEmpty()) << "terms fall";
  EXPECT_THAT(follower.on(from(1, 3, append_request{i(1), t(4), {}, {}})), IsEmpty()) << "previous of a later term";
  EXPECT_THAT(follower.on(from(1, 3, install_request{{i(9), t(4), {}}})), IsEmpty()) << "a snapshot of a later term";
  EXPECT_EQ(follower.machine.state(), before);
}

TEST(Raft, WhatIsNotForItIsIgnored) {
  one follower(3);
  const auto before = follower.machine.state();
  EXPECT_THAT(follower.on(message{m(1), m(2), t(5), append_request{}}), IsEmpty());
  EXPECT_THAT(follower.on(message{m(0), m(0), t(5), append_request{}}), IsEmpty());
  EXPECT_THAT(follower.on(message{m(3), m(0), t(5), append_request{}}), IsEmpty()) << "no member";
  EXPECT_THAT(follower.propose({{1}}), IsEmpty());
  EXPECT_EQ(follower.machine.state(), before);
  auto leader = leader_of(3);
  const auto led = leader.machine.state();
  EXPECT_THAT(leader.on(from(1, 1, append_request{})), IsEmpty()) << "nobody else leads this term";
  EXPECT_THAT(leader.on(from(1, 1, install_request{{i(9), t(1), {}}})), IsEmpty());
  EXPECT_EQ(leader.machine.state(), led);
}

// -- replication, as the leader

TEST(Raft, AnEntryIsCommittedOnceAMajorityHasIt) {
  auto leader = leader_of(5);
  EXPECT_THAT(leader.took(1, 1), IsEmpty());
  EXPECT_THAT(leader.took(1, 1), IsEmpty()) << "the same copy";
  EXPECT_THAT(leader.took(2, 1), ElementsAre(effect(committed{{e(1, 1)}})));
  EXPECT_THAT(leader.took(3, 1), IsEmpty());
  const append_request more{i(1), t(1), {e(2, 1, {7})}, i(1)};
  EXPECT_THAT(leader.propose({{7}}),
              ElementsAre(on_disk(1, m(0), {e(2, 1, {7})}), to(1, 1, more), to(2, 1, more), to(3, 1, more)))
      << "member 4 has not answered yet";
  EXPECT_THAT(leader.took(4, 1), ElementsAre(to(4, 1, more)));
  leader.took(4, 2);
  EXPECT_THAT(leader.took(2, 2), ElementsAre(effect(committed{{e(2, 1, {7})}})));
  EXPECT_EQ(leader.machine.state().commit, i(2));
}

TEST(Raft, WhatIsNotAnsweredIsNotRepeatedBeforeTheNextAnswer) {
  auto leader = leader_of(3);
  EXPECT_THAT(leader.propose({{7}}), ElementsAre(on_disk(1, m(0), {e(2, 1, {7})}))) << "its first entry is on its way";
  EXPECT_THAT(leader.took(1, 1),
              ElementsAre(effect(committed{{e(1, 1)}}), to(1, 1, append_request{i(1), t(1), {e(2, 1, {7})}, i(1)})));
  EXPECT_THAT(leader.took(1, 0), ElementsAre(to(1, 1, append_request{i(1), t(1), {e(2, 1, {7})}, i(1)})))
      << "an old answer is one";
  EXPECT_THAT(leader.tick(100 * ms - 1), IsEmpty());
  EXPECT_THAT(leader.tick(1),
              ElementsAre(to(1, 1, append_request{i(1), t(1), {}, i(1)}), to(2, 1, append_request{{}, {}, {}, i(1)})));
  EXPECT_THAT(leader.tick(), IsEmpty());
  EXPECT_EQ(leader.tick(100 * ms).size(), 2U);
  EXPECT_THAT(leader.took(2, 0), ElementsAre(to(2, 1, append_request{{}, {}, {e(1, 1), e(2, 1, {7})}, i(1)}))) << "it lives";
}

TEST(Raft, EntriesOfOldTermsAreCommittedWithTheFirstOfItsOwn) {
  // figure 8: entry 2 of term 2 is on a majority, and may yet be replaced by one of term 3.
  auto leader = leader_of(3, disk_of(3, {e(1, 1), e(2, 2)}));
  EXPECT_THAT(leader.took(1, 2), ElementsAre(to(1, 4, append_request{i(2), t(2), {e(3, 4)}, {}})));
  EXPECT_EQ(leader.machine.state().commit, i(0));
  EXPECT_THAT(leader.took(1, 3), ElementsAre(effect(committed{{e(1, 1), e(2, 2), e(3, 4)}})));
}

TEST(Raft, ItGoesBackToWhereLogsMayBeTheSameATermAtATime) {
  auto leader = leader_of(3, disk_of(6, {e(1, 1), e(2, 2), e(3, 2), e(4, 5), e(5, 5), e(6, 6)}));
  EXPECT_THAT(leader.differs(1, 5, 4),
              ElementsAre(to(1, 7, append_request{i(3), t(2), {e(4, 5), e(5, 5), e(6, 6), e(7, 7)}, {}})))
      << "its entry 5 is of term 4, from which nothing is here";
  EXPECT_THAT(leader.differs(1, 5, 5),
              ElementsAre(to(1, 7, append_request{i(3), t(2), {e(4, 5), e(5, 5), e(6, 6), e(7, 7)}, {}})))
      << "an older answer does not lead forwards";
  EXPECT_THAT(leader.differs(1, 3, 1),
              ElementsAre(to(1, 7, append_request{i(1), t(1), {e(2, 2), e(3, 2), e(4, 5), e(5, 5), e(6, 6), e(7, 7)}, {}})));
  leader.took(1, 7);
  EXPECT_THAT(leader.differs(1, 3, 1), IsEmpty()) << "an old answer";
  EXPECT_EQ(leader.machine.state().others.at(m(1)).next, i(8));
  EXPECT_THAT(leader.differs(2, 0, 0).size(), 1U);
  EXPECT_EQ(leader.machine.state().others.at(m(2)).next, i(1)) << "it has nothing";
}

TEST(Raft, AnswersThatCannotBeAreIgnored) {
  auto leader = leader_of(3);
  const auto before = leader.machine.state();
  EXPECT_THAT(leader.took(1, 2), IsEmpty()) << "beyond its log";
  EXPECT_THAT(leader.differs(1, 2, 1), IsEmpty());
  EXPECT_THAT(leader.on(from(1, 0, append_reply{true, i(1), {}})), IsEmpty()) << "of an old term";
  EXPECT_EQ(leader.machine.state(), before);
  one follower(3);
  EXPECT_THAT(follower.took(1, 0), IsEmpty());
}

TEST(Raft, AMessageHasHalfAMebibyteOrOneEntry) {
  auto leader = leader_of(3);
  leader.took(1, 1);
  const payload half(32U << 10U, 1), big(100U << 10U, 2);
  leader.propose({half, half, {3}, big, {4}});
  const auto sent_after = [&](std::uint64_t upto) {
    std::vector<std::uint64_t> indices;
    for (const effect& each : leader.took(1, upto))
      if (const auto* const sent = std::get_if<send>(&each))
        for (const entry& one : std::get<append_request>(sent->message.body).entries)
          indices.push_back(one.index.value);
    return indices;
  };
  EXPECT_THAT(sent_after(1), ElementsAre(2, 3));
  EXPECT_THAT(sent_after(3), ElementsAre(4));
  EXPECT_THAT(sent_after(4), ElementsAre(5));
  EXPECT_THAT(sent_after(5), ElementsAre(6));
  EXPECT_THAT(sent_after(6), IsEmpty());
}

// -- snapshots

TEST(Raft, WhatIsCommittedCanBecomeASnapshot) {
  auto leader = leader_of(3, disk_of(1, {e(1, 1)}));
  leader.propose({{7}, {8}});
  leader.took(1, 3);
  ASSERT_EQ(leader.machine.state().commit, i(3));
  EXPECT_THAT(leader.on(compaction{i(4), {99}}), IsEmpty()) << "not committed";
  EXPECT_THAT(leader.on(compaction{i(2), {99}}),
              ElementsAre(effect(persist{t(2), m(0), snapshot{i(2), t(2), {99}}, {e(3, 2, {7}), e(4, 2, {8})}})));
  EXPECT_THAT(leader.on(compaction{i(2), {98}}), IsEmpty()) << "again";
  EXPECT_THAT(leader.on(compaction{i(1), {98}}), IsEmpty());
  EXPECT_THAT(leader.on(compaction{i(3), {97}}),
              ElementsAre(effect(persist{t(2), m(0), snapshot{i(3), t(2), {97}}, {e(4, 2, {8})}})));
  EXPECT_THAT(leader.took(1, 4), ElementsAre(effect(committed{{e(4, 2, {8})}})));
}

TEST(Raft, WhoLacksWhatIsGoneGetsTheSnapshot) {
  auto leader = leader_of(3);
  leader.propose({{7}, {8}});
  leader.took(1, 3);
  leader.on(compaction{i(2), {99}});
  EXPECT_EQ(leader.tick(100 * ms).back(), to(2, 1, append_request{i(2), t(1), {}, i(3)})) << "nothing big to who may be dead";
  const effect whole = to(2, 1, install_request{{i(2), t(1), {99}}});
  EXPECT_THAT(leader.differs(2, 0, 0), ElementsAre(whole));
  EXPECT_THAT(leader.propose({{9}}),
              ElementsAre(on_disk(1, m(0), {e(4, 1, {9})}), to(1, 1, append_request{i(3), t(1), {e(4, 1, {9})}, i(3)})));
  EXPECT_THAT(leader.differs(2, 0, 0), ElementsAre(whole)) << "lost, perhaps";
  EXPECT_THAT(leader.took(2, 2), ElementsAre(to(2, 1, append_request{i(2), t(1), {e(3, 1, {8}), e(4, 1, {9})}, i(3)})));
}

TEST(Raft, AnotherLogAtTheSnapshotsEndNeedsTheSnapshot) {
  auto leader = leader_of(3, disk_of(5, {}, {}, {i(4), t(5), {99}}));
  EXPECT_THAT(leader.differs(1, 4, 3), ElementsAre(to(1, 6, install_request{{i(4), t(5), {99}}})))
      << "its entry 4 is of term 3, and what goes before is not here";
}

TEST(Raft, ASnapshotReplacesTheLog) {
  one follower(3, disk_of(2, {e(1, 1), e(2, 1), e(3, 2)}));
  EXPECT_THAT(follower.on(from(1, 3, install_request{{i(5), t(3), {99}}})),
              ElementsAre(effect(persist{t(3), {}, snapshot{i(5), t(3), {99}}, {}}), effect(follows{m(1)}),
                          effect(installed{{i(5), t(3), {99}}}), to(1, 3, append_reply{true, i(5), {}})));
  EXPECT_EQ(follower.machine.state().commit, i(5));
  EXPECT_THAT(follower.on(from(1, 3, install_request{{i(5), t(3), {99}}})), ElementsAre(to(1, 3, append_reply{true, i(5), {}})));
  EXPECT_THAT(follower.on(from(1, 3, install_request{{i(4), t(3), {98}}})), ElementsAre(to(1, 3, append_reply{true, i(5), {}})));
  EXPECT_THAT(follower.on(from(1, 3, append_request{i(5), t(3), {e(6, 3)}, i(6)})),
              ElementsAre(on_disk(3, {}, {e(6, 3)}), effect(committed{{e(6, 3)}}), to(1, 3, append_reply{true, i(6), {}})));
}

TEST(Raft, ASnapshotLeavesWhatFollowsTheSameEntry) {
  const stored disk = disk_of(3, {e(1, 1), e(2, 2), e(3, 2, {5})});
  one same(3, disk), other(3, disk);
  EXPECT_EQ(same.on(from(1, 3, install_request{{i(2), t(2), {99}}})).front(),
            effect(persist{t(3), {}, snapshot{i(2), t(2), {99}}, {e(3, 2, {5})}}));
  EXPECT_EQ(other.on(from(1, 3, install_request{{i(2), t(3), {99}}})).front(),
            effect(persist{t(3), {}, snapshot{i(2), t(3), {99}}, {}}));
}

TEST(Raft, BeginsAgainWithTheSnapshotAndDecidesWhatFollows) {
  one again(3, disk_of(3, {e(5, 3)}, m(1), {i(4), t(2), {99}}));
  EXPECT_EQ(again.machine.state().commit, i(4));
  EXPECT_EQ(again.machine.state().role, role::follower);
  EXPECT_THAT(again.on(from(1, 3, append_request{i(5), t(3), {}, i(5)})),
              ElementsAre(effect(follows{m(1)}), effect(committed{{e(5, 3)}}), to(1, 3, append_reply{true, i(5), {}})));
  EXPECT_THAT(again.on(from(2, 3, vote_request{false, i(9), t(3)})), ElementsAre(to(2, 3, vote_reply{false, false})))
      << "its vote of before the crash stands";
}

TEST(Raft, GoesOnWhereTheMemberWithItsStateWas) {
  auto leader = leader_of(3);
  leader.propose({{7}});
  one copy(3);
  copy.machine = member(about(0, 3), leader.machine.state());
  copy.now = leader.now;
  EXPECT_EQ(copy.machine.state(), leader.machine.state());
  EXPECT_EQ(copy.took(1, 2), leader.took(1, 2));
  EXPECT_EQ(copy.tick(100 * ms), leader.tick(100 * ms));
}

// -- the log and the disk

TEST(RaftLog, ADiskIsWhatAllStepsMadeOfIt) {
  stored disk;
  keep(disk, {t(1), m(2), {}, {e(1, 1), e(2, 1), e(3, 1)}});
  keep(disk, {t(2), {}, {}, {}});
  EXPECT_EQ(disk, disk_of(2, {e(1, 1), e(2, 1), e(3, 1)}));
  keep(disk, {t(2), m(1), {}, {e(2, 2, {5})}});
  EXPECT_EQ(disk, disk_of(2, {e(1, 1), e(2, 2, {5})}, m(1))) << "what followed is gone";
  keep(disk, {t(3), m(1), snapshot{i(2), t(2), {9}}, {e(3, 3)}});
  EXPECT_EQ(disk, disk_of(3, {e(3, 3)}, m(1), {i(2), t(2), {9}}));
  EXPECT_TRUE(sound(disk));
}

TEST(RaftLog, AGapOrAFallingTermIsNotSound) {
  EXPECT_TRUE(sound({}));
  EXPECT_FALSE(sound(disk_of(3, {e(2, 3)})));
  EXPECT_FALSE(sound(disk_of(3, {e(2, 3)}, {}, {i(2), t(3), {}})));
  EXPECT_FALSE(sound(disk_of(3, {e(3, 2)}, {}, {i(2), t(3), {}}))) << "before the snapshot's term";
  EXPECT_FALSE(sound(disk_of(3, {e(1, 4)}))) << "beyond its term";
  EXPECT_FALSE(sound(disk_of(3, {}, {}, {i(2), t(4), {}})));
}

} // namespace
} // namespace troupe::protocols::raft
