// SPDX-License-Identifier: BSD-3-Clause
// The schedules of an allreduce, carried out with text instead of numbers: a sum says in which order it was made.
#include "protocols/collective/schedule.hpp"

#include <algorithm>
#include <bit>
#include <map>
#include <numeric>
#include <optional>
#include <random>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

namespace troupe::protocols::collective {
namespace {

using kind = step::kind;

constexpr algorithm all[] = {algorithm::direct, algorithm::ring, algorithm::halving, algorithm::tree, algorithm::broadcast};
constexpr std::uint32_t most_ranks = 33;

/// Every number of ranks, each for itself; then groups of so many, the last of which may be smaller; then uneven ones.
std::vector<topology> topologies() {
  std::vector<topology> out;
  for (std::uint32_t ranks = 1; ranks <= most_ranks; ++ranks)
    out.emplace_back(ranks);
  for (std::uint32_t size = 2; size <= 5; ++size)
    for (std::uint32_t ranks = 2; ranks <= 16; ++ranks)
      out.emplace_back(ranks, [size](std::uint32_t rank) { return rank / size; });
  const std::string by[] = {"aab", "abb", "abbbcc", "aaabccccddeeeee"};
  for (const std::string& nodes : by)
    out.emplace_back(static_cast<std::uint32_t>(nodes.size()), [&nodes](std::uint32_t rank) { return nodes[rank]; });
  return out;
}

std::string text_of(algorithm which, const topology& among) {
  return fmt::format("{} of {}, groups of {}", name_of(which), among.ranks, fmt::join(among.groups, ", "));
}

/// What a rank has of a segment: a sum as text, "(0+1)", and every reading of a message of that segment before it.
struct value {
  std::string sum;
  std::set<std::tuple<std::uint32_t, std::uint32_t, std::uint32_t>> read{}; ///< stage, sender, receiver
};

/// All ranks at work. Who goes on next is drawn.
class exchange {
public:
  exchange(algorithm which, const topology& among, std::uint32_t seed)
      : which_(which), among_(among), ranks_(among.ranks), segments_(segments(which, among)), dice_(seed) {
    for (std::uint32_t rank = 0; rank < among.ranks; ++rank) {
      steps_.push_back(schedule(which, among, rank));
      done_.emplace_back(steps_.back().size(), false);
      has_.emplace_back(segments_, value{std::to_string(rank)});
    }
  }

  /// False: nobody can go on, and not all is done.
  bool run() {
    for (bool moved = true; moved;) {
      moved = false;
      std::vector<std::uint32_t> turns(ranks_);
      std::iota(turns.begin(), turns.end(), 0U);
      std::ranges::shuffle(turns, dice_);
      for (const std::uint32_t rank : turns)
        moved = advance(rank) || moved;
    }
    return std::ranges::all_of(done_, [](const auto& each) { return std::ranges::find(each, false) == each.end(); });
  }
  const std::vector<std::vector<value>>& has() const { return has_; }
  std::size_t unread() const { return under_way_.size(); }
  bool overwrote_unread() const { return overwrote_unread_; }

private:
  static bool overlap(const step& a, const step& b) { return a.first < b.last && b.first < a.last; }

  /// One step of this rank, if one is possible.
  bool advance(std::uint32_t rank) {
    const auto& steps = steps_[rank];
    for (std::size_t i = 0; i < steps.size(); ++i) {
      const auto waits = [&](std::size_t j) { return !done_[rank][j] && overlap(steps[j], steps[i]); };
      bool free = !done_[rank][i];
      for (std::size_t j = 0; j < i; ++j)
        free = free && !waits(j);
      if (free && perform(rank, i))
        return true;
    }
    return false;
  }
  bool perform(std::uint32_t rank, std::size_t i) {
    const step& what = steps_[rank][i];
    if (what.does == kind::add)
      return perform_sum(rank, what);
    done_[rank][i] = true;
    if (what.does == kind::send) {
      for (std::uint32_t s = what.first; s < what.last; ++s) {
        const bool fresh = under_way_.emplace(std::tuple{what.stage, rank, what.peer, s}, has_[rank][s]).second;
        EXPECT_TRUE(fresh) << "two messages with one name";
        if (cargo_of(which_, among_, what.stage) != cargo::copy)
          lent_[{rank, s}].insert({what.stage, rank, what.peer});
      }
      return true;
    }
    for (std::uint32_t s = what.first; s < what.last; ++s)
      if (!under_way_.contains({what.stage, what.peer, rank, s}))
        return done_[rank][i] = false;
    for (std::uint32_t s = what.first; s < what.last; ++s)
      overwrite(rank, s, got(what.stage, what.peer, rank, s));
    return true;
  }
  /// All terms at once.
  bool perform_sum(std::uint32_t rank, const step& one) {
    std::vector<std::size_t> terms;
    for (std::size_t j = 0; j < steps_[rank].size(); ++j)
      if (const step& other = steps_[rank][j];
          other.does == kind::add && other.stage == one.stage && other.first == one.first && other.last == one.last)
        terms.push_back(j);
    for (const std::size_t j : terms)
      for (std::uint32_t s = one.first; s < one.last; ++s)
        if (const auto peer = steps_[rank][j].peer; peer != rank && !under_way_.contains({one.stage, peer, rank, s}))
          return false;
    for (std::uint32_t s = one.first; s < one.last; ++s) {
      value sum;
      for (const std::size_t j : terms) {
        const auto peer = steps_[rank][j].peer;
        value term = peer == rank ? has_[rank][s] : got(one.stage, peer, rank, s);
        sum.sum = sum.sum.empty() ? term.sum : fmt::format("({}+{})", sum.sum, term.sum);
        sum.read.merge(term.read);
      }
      overwrite(rank, s, std::move(sum));
    }
    for (const std::size_t j : terms)
      done_[rank][j] = true;
    return true;
  }
  value got(std::uint32_t stage, std::uint32_t from, std::uint32_t to, std::uint32_t segment) {
    value out = under_way_.extract({stage, from, to, segment}).mapped();
    out.read.insert({stage, from, to});
    return out;
  }
  /// Whoever was sent the old value has read it, as the new one proves.
  void overwrite(std::uint32_t rank, std::uint32_t segment, value with) {
    const auto& lent = lent_[{rank, segment}];
    overwrote_unread_ = overwrote_unread_ || !std::ranges::includes(with.read, lent);
    has_[rank][segment] = std::move(with);
  }

  algorithm which_;
  topology among_;
  std::uint32_t ranks_, segments_;
  std::mt19937 dice_;
  std::vector<std::vector<step>> steps_;
  std::vector<std::vector<bool>> done_;
  std::vector<std::vector<value>> has_;
  std::map<std::tuple<std::uint32_t, std::uint32_t, std::uint32_t, std::uint32_t>, value> under_way_;
  std::map<std::pair<std::uint32_t, std::uint32_t>, std::set<std::tuple<std::uint32_t, std::uint32_t, std::uint32_t>>> lent_;
  bool overwrote_unread_ = false;
};

/// Every number from 0 to `ranks` - 1 in the text, each once.
bool counts_each_once(const std::string& sum, std::uint32_t ranks) {
  std::multiset<std::uint32_t> found;
  for (std::size_t at = 0; at < sum.size();) {
    if (sum[at] < '0' || sum[at] > '9') {
      ++at;
      continue;
    }
    std::size_t length = 0;
    found.insert(static_cast<std::uint32_t>(std::stoul(sum.substr(at), &length)));
    at += length;
  }
  std::multiset<std::uint32_t> wanted;
  for (std::uint32_t rank = 0; rank < ranks; ++rank)
    wanted.insert(rank);
  return found == wanted;
}

/// Of the range, in units in which every algorithm's segments are whole.
std::uint64_t sent_by(algorithm which, std::uint32_t ranks, std::uint32_t rank, std::uint64_t whole) {
  std::uint64_t out = 0;
  for (const step& each : schedule(which, ranks, rank))
    if (each.does == kind::send)
      out += whole / segments(which, ranks) * (each.last - each.first);
  return out;
}

std::uint32_t stages_of(algorithm which, std::uint32_t ranks) {
  std::uint32_t out = 0;
  for (std::uint32_t rank = 0; rank < ranks; ++rank)
    for (const step& each : schedule(which, ranks, rank))
      out = std::max(out, each.stage + 1);
  return out;
}

std::uint32_t lg(std::uint32_t n) {
  return static_cast<std::uint32_t>(std::bit_width(n - 1));
}

struct CollectiveSchedule : testing::TestWithParam<algorithm> {};

TEST_P(CollectiveSchedule, EveryRankHasEverySumOnceAndTheSameInAnyOrderOfEvents) {
  for (const topology& among : topologies()) {
    SCOPED_TRACE(text_of(GetParam(), among));
    std::optional<std::vector<std::string>> sums;
    for (std::uint32_t seed = 0; seed < 3; ++seed) {
      exchange at{GetParam(), among, seed};
      ASSERT_TRUE(at.run()) << "it stands still";
      EXPECT_EQ(at.unread(), 0U);
      std::vector<std::string> here;
      for (const value& each : at.has().front())
        here.push_back(each.sum);
      for (const std::string& sum : here)
        EXPECT_TRUE(counts_each_once(sum, among.ranks)) << sum;
      for (const auto& rank : at.has())
        for (std::size_t s = 0; s < rank.size(); ++s)
          EXPECT_EQ(rank[s].sum, here[s]);
      EXPECT_EQ(sums.value_or(here), here);
      sums = here;
    }
  }
}

TEST_P(CollectiveSchedule, WhatWasSentIsOverwrittenOnlyByWhatDependsOnItsReading) {
  for (const topology& among : topologies()) {
    exchange at{GetParam(), among, 1};
    ASSERT_TRUE(at.run());
    EXPECT_FALSE(at.overwrote_unread()) << text_of(GetParam(), among);
  }
}

TEST_P(CollectiveSchedule, SendersAndReceiversAgree) {
  for (const topology& among : topologies()) {
    std::set<std::tuple<std::uint32_t, std::uint32_t, std::uint32_t, std::uint32_t, std::uint32_t>> sent, wanted;
    for (std::uint32_t rank = 0; rank < among.ranks; ++rank)
      for (const step& each : schedule(GetParam(), among, rank)) {
        EXPECT_LT(each.first, each.last);
        EXPECT_LE(each.last, segments(GetParam(), among));
        EXPECT_LT(each.peer, among.ranks);
        const bool sends = each.does == kind::send;
        const std::uint32_t from = sends ? rank : each.peer, to = sends ? each.peer : rank;
        if (from == to)
          continue; // a rank's own term does not travel
        EXPECT_TRUE((sends ? sent : wanted).insert({each.stage, from, to, each.first, each.last}).second);
      }
    EXPECT_EQ(sent, wanted) << text_of(GetParam(), among);
  }
}

INSTANTIATE_TEST_SUITE_P(All, CollectiveSchedule, testing::ValuesIn(all),
                         [](const auto& which) { return std::string(name_of(which.param)); });

TEST(CollectiveBytes, DirectAndRingSendTheSameAtEveryRank) {
  for (const algorithm which : {algorithm::direct, algorithm::ring})
    for (std::uint32_t ranks = 2; ranks <= 16; ++ranks)
      for (std::uint32_t rank = 0; rank < ranks; ++rank)
        EXPECT_EQ(sent_by(which, ranks, rank, 720'720), 2 * (ranks - 1) * (720'720U / ranks))
            << name_of(which) << " of " << ranks;
}

TEST(CollectiveBytes, ByBroadcastEveryRankSendsTheRangeToEveryOther) {
  for (std::uint32_t ranks = 2; ranks <= 16; ++ranks)
    for (std::uint32_t rank = 0; rank < ranks; ++rank)
      EXPECT_EQ(sent_by(algorithm::broadcast, ranks, rank, 1000), (ranks - 1) * 1000);
}

TEST(CollectiveBytes, HalvingAndTreesSendTwiceTheRangeForEachRankButOneAndNobodyMore) {
  for (const algorithm which : {algorithm::halving, algorithm::tree})
    for (std::uint32_t ranks = 2; ranks <= 16; ++ranks) {
      constexpr std::uint64_t whole = 720'720;
      std::uint64_t total = 0;
      for (std::uint32_t rank = 0; rank < ranks; ++rank) {
        const auto sent = sent_by(which, ranks, rank, whole);
        EXPECT_LE(sent, 2 * whole) << name_of(which) << ", rank " << rank << " of " << ranks;
        total += sent;
      }
      EXPECT_EQ(total, 2 * (ranks - 1) * whole) << name_of(which) << " of " << ranks;
    }
}

TEST(CollectiveStages, AreAsManyAsTheAlgorithmSays) {
  for (std::uint32_t ranks = 2; ranks <= most_ranks; ++ranks) {
    EXPECT_EQ(stages_of(algorithm::direct, ranks), 2U);
    EXPECT_EQ(stages_of(algorithm::broadcast, ranks), 1U);
    EXPECT_EQ(stages_of(algorithm::ring, ranks), 2 * (ranks - 1));
    const auto blocks = static_cast<std::uint32_t>(std::popcount(ranks));
    EXPECT_EQ(stages_of(algorithm::halving, ranks), 2 * lg(std::bit_floor(ranks)) + 2 * (blocks - 1)) << ranks;
    EXPECT_LE(stages_of(algorithm::tree, ranks), 2 * lg(ranks)) << ranks;
  }
}

/// Twelve ranks on three nodes: each node sends and receives what a rank of three does, and its first does it all.
TEST(CollectiveGroups, BetweenThemTravelsWhatAsManyRanksSend) {
  constexpr std::uint32_t nodes = 3, each_has = 4, ranks = nodes * each_has, whole = 720'720;
  const auto node_of = [](std::uint32_t rank) { return rank / each_has; };
  const topology among(ranks, node_of);
  for (const algorithm which : all)
    for (std::uint32_t rank = 0; rank < ranks; ++rank) {
      std::uint64_t outside = 0, inside = 0;
      for (const step& one : schedule(which, among, rank))
        if (one.does == kind::send)
          (node_of(one.peer) == node_of(rank) ? inside : outside) += whole / segments(which, among) * (one.last - one.first);
      const bool first = rank % each_has == 0;
      EXPECT_EQ(outside, first ? sent_by(which, nodes, node_of(rank), whole) : 0) << name_of(which) << ", rank " << rank;
      EXPECT_EQ(inside, (first ? each_has - 1 : 1) * std::uint64_t{whole}) << name_of(which) << ", rank " << rank;
    }
}

TEST(CollectiveGroups, OfOneEachAreNone) {
  const topology alone(3, [](std::uint32_t rank) { return rank; });
  EXPECT_TRUE(alone.groups.empty());
  EXPECT_EQ(alone.parties(), 3U);
}

/// The sum of a segment, as text.
std::string sum_of(algorithm which, const topology& among, std::uint32_t segment) {
  exchange at{which, among, 1};
  EXPECT_TRUE(at.run());
  return at.has().front().at(segment).sum;
}

/// Of every segment each term goes to its owner once, and its sum from there to all others.
TEST(CollectiveCargo, OfDirectIsTermsToAnOwnerAndSumsFromThere) {
  const topology flat{5}, pairs{10, [](std::uint32_t rank) { return rank / 2; }};
  for (const topology& among : {flat, pairs}) {
    std::map<cargo, std::uint32_t> sent;
    for (std::uint32_t rank = 0; rank < among.ranks; ++rank)
      for (const step& each : schedule(algorithm::direct, among, rank)) {
        const cargo what = cargo_of(algorithm::direct, among, each.stage);
        sent[what] += each.does == step::kind::send ? 1 : 0;
        if (what != cargo::plain) {
          EXPECT_EQ(each.last - each.first, 1U) << "an owner's";
          EXPECT_NE(each.does, what == cargo::term ? step::kind::take : step::kind::add);
        }
      }
    EXPECT_EQ(sent[cargo::term], 20U);
    EXPECT_EQ(sent[cargo::sum], 20U);
    EXPECT_EQ(sent[cargo::plain], among.groups.empty() ? 0U : 10U) << "into the groups and out of them";
  }
  for (const algorithm which : {algorithm::ring, algorithm::halving, algorithm::tree})
    for (std::uint32_t stage = 0; stage < 4; ++stage)
      EXPECT_EQ(cargo_of(which, flat, stage), cargo::plain);
}

TEST(CollectiveCargo, OfABroadcastIsCopiesButWithinAGroup) {
  const topology flat{4}, pairs{4, [](std::uint32_t rank) { return rank / 2; }};
  EXPECT_EQ(cargo_of(algorithm::broadcast, flat, 0), cargo::copy);
  std::vector<cargo> found;
  for (std::uint32_t stage = 0; stage < 3; ++stage)
    found.push_back(cargo_of(algorithm::broadcast, pairs, stage));
  EXPECT_EQ(found, (std::vector{cargo::plain, cargo::plain, cargo::copy}));
}

TEST(CollectiveOrder, DirectAndABroadcastAddInRankOrderAsAShardDoes) {
  for (std::uint32_t segment = 0; segment < 4; ++segment)
    EXPECT_EQ(sum_of(algorithm::direct, 4, segment), "(((0+1)+2)+3)");
  EXPECT_EQ(sum_of(algorithm::broadcast, 4, 0), "(((0+1)+2)+3)");
}

TEST(CollectiveOrder, RingAddsFromTheRankOfTheSegmentOn) {
  EXPECT_EQ(sum_of(algorithm::ring, 4, 0), "(((0+1)+2)+3)");
  EXPECT_EQ(sum_of(algorithm::ring, 4, 2), "(((2+3)+0)+1)");
}

TEST(CollectiveOrder, HalvingAddsByBlocks) {
  EXPECT_EQ(sum_of(algorithm::halving, 4, 0), "((0+2)+(1+3))");
  EXPECT_EQ(sum_of(algorithm::halving, 5, 3), "(((0+2)+(1+3))+4)");
  EXPECT_EQ(sum_of(algorithm::halving, 7, 0), "(((0+2)+(1+3))+((4+5)+6))");
}

TEST(CollectiveOrder, AGroupIsSummedInRankOrderAndThenTheGroupsAre) {
  const topology halves(4, [](std::uint32_t rank) { return rank / 2; }), one(3, [](std::uint32_t) { return 0; });
  EXPECT_EQ(sum_of(algorithm::direct, halves, 1), "((0+1)+(2+3))");
  EXPECT_EQ(sum_of(algorithm::ring, halves, 1), "((2+3)+(0+1))");
  EXPECT_EQ(sum_of(algorithm::direct, one, 0), "((0+1)+2)");
}

/// Ranks 0..4 are 1..5 of the first tree, whose root 4 has the children 2 and 5; of the second they are 5, 1, 2, 3, 4.
TEST(CollectiveOrder, TreesAddChildrenByRankAndThenTheirOwn) {
  EXPECT_EQ(sum_of(algorithm::tree, 5, 0), "((((0+2)+1)+4)+3)");
  EXPECT_EQ(sum_of(algorithm::tree, 5, 1), "((0+((1+3)+2))+4)");
}

TEST(CollectiveTrees, NobodyHasChildrenInBoth) {
  for (std::uint32_t ranks = 2; ranks <= most_ranks; ++ranks)
    for (std::uint32_t rank = 0; rank < ranks; ++rank) {
      std::set<std::uint32_t> sums, children;
      for (const step& each : schedule(algorithm::tree, ranks, rank))
        if (each.does == kind::add) {
          sums.insert(each.first);
          if (each.peer != rank)
            children.insert(each.peer);
        }
      EXPECT_LE(sums.size(), 1U) << rank << " of " << ranks;
      EXPECT_LE(children.size(), 2U) << rank << " of " << ranks;
    }
}

} // namespace
} // namespace troupe::protocols::collective
