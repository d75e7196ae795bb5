// SPDX-License-Identifier: BSD-3-Clause
// Backups that come while a job runs.
#include <algorithm>
#include <chrono>

#include "tests/actors/decided_job.hpp"

namespace troupe::actors {
namespace {

namespace ledger = protocols::ledger;
using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

/// Of one shard, two copies: the other is on node 1.
class LateCopies : public Decided {
protected:
  LateCopies() { job.cluster.replicas = 2; }
  static std::vector<std::uint32_t> placed_on(const script& node) {
    std::vector<std::uint32_t> out;
    for (const auto& each : node.all<backup_place>())
      out.push_back(each.holder.index);
    return out;
  }
  void lose_copy(std::uint32_t node, std::uint32_t number) {
    say(role_lost{node, role_lost::kind::holder, number, "it died"});
    decide_all();
  }
  void wait_s(int seconds) {
    for (int i = 0; i < seconds; ++i) {
      schedule.advance_time(std::chrono::seconds{1});
      run();
    }
    decide_all();
  }
  /// The node of each that began.
  std::vector<std::uint32_t> began_on() const {
    std::vector<std::uint32_t> out;
    for (const auto& each : decisions)
      if (const auto* placed = std::get_if<ledger::placed>(&each))
        out.push_back(placed->node);
    return out;
  }
};

TEST_F(LateCopies, ReplaceOneThatIsLostAlone) {
  begin();
  decide_all();
  lose_copy(1, 1);
  wait_s(4);
  EXPECT_THAT(began_on(), IsEmpty());
  wait_s(1);
  EXPECT_THAT(decisions, Contains(ledger::entry{ledger::placed{5, 2, {2}, {0}, 1}}));
  EXPECT_THAT(placed_on(*scripts[1]), ElementsAre(2));
  EXPECT_EQ(scripts[0]->all<protocols::new_backup>().size(), 1U);
  wait_s(60);
  EXPECT_EQ(began_on().size(), 1U) << "it is there";
}

TEST_F(LateCopies, ReplaceAShardWhoseOwnTookItsPlace) {
  begin();
  decide_all();
  say(role_lost{0, role_lost::kind::holder, 0, "it died"});
  decide_all();
  wait_s(5);
  EXPECT_THAT(began_on(), ElementsAre(0)) << "its copy, on node 1, is the shard now";
}

TEST_F(LateCopies, BeginElsewhereIfTheirNodeStaysAway) {
  begin();
  decide_all();
  kill(nodes[1]);
  decide_all();
  wait_s(5);
  EXPECT_THAT(began_on(), ElementsAre(2));
  comes_back(1);
  decide_all();
  EXPECT_THAT(began_on(), ElementsAre(2)) << "there are two";
}

TEST_F(LateCopies, BeginWhereTheFewestPartsAre) {
  job.cluster.shards = 3;
  job.cluster.where = placement::colocated;
  begin();
  decide_all();
  const auto copies_of = [this](std::uint32_t shard) {
    for (const auto& each : scripts[0]->places->holders)
      if (each.backup_of == shard)
        return each;
    return role_place{};
  };
  for (const std::uint32_t shard : {0, 1})
    lose_copy(copies_of(shard).node, copies_of(shard).index);
  wait_s(5);
  std::vector<std::size_t> parts(3);
  for (const auto& each : scripts[0]->places->holders)
    if (each.backup_of != 0U && each.backup_of != 1U)
      ++parts[each.node];
  for (const auto node : began_on())
    ++parts[node];
  EXPECT_THAT(parts, ElementsAre(2, 2, 2));
}

TEST_F(LateCopies, BeginLaterEachTimeThatOneIsLostBeforeItIsWhole) {
  begin();
  decide_all();
  lose_copy(1, 1);
  wait_s(5);
  lose_copy(1, 2);
  wait_s(9);
  EXPECT_EQ(began_on().size(), 1U);
  wait_s(1);
  ASSERT_EQ(began_on().size(), 2U);
  say(protocols::caught_up{{3}});
  decide_all();
  lose_copy(1, 3);
  wait_s(5);
  EXPECT_EQ(began_on().size(), 3U) << "that one was whole";
}

TEST_F(LateCopies, AreKnownToANodeThatIsOnItsWayBack) {
  begin();
  decide_all();
  kill(nodes[1]);
  decide_all();
  const auto again = comes_back(1, true);
  wait_s(5);
  EXPECT_THAT(began_on(), ElementsAre(2));
  EXPECT_THAT(placed_on(*again), ElementsAre(2)) << "it may have been told where all roles are a moment ago";
  EXPECT_EQ(scripts[0]->all<protocols::new_backup>().size(), 1U) << "nobody waits for it";
  close_round(1, 40);
  EXPECT_THAT(seen->steps, ElementsAre(1)) << "that it has no job yet ends nobody";
}

TEST_F(LateCopies, AreDecidedBeforeAnybodyHearsOfThem) {
  begin();
  decide_all();
  kill(nodes[1]);
  decide_all();
  const auto again = comes_back(1);
  decide_all();
  slow.asked.clear();
  const auto decided_on = [this](const auto& what) {
    return std::ranges::any_of(decisions, [&](const auto& each) { return each == ledger::entry{what}; });
  };
  ASSERT_TRUE(decided_on(ledger::placed{5, 2, {2}, {0}, 1})) << "1 was the number of the first backup";
  EXPECT_THAT(placed_on(*again), ElementsAre(2));
  EXPECT_THAT(placed_on(*scripts[0]), ElementsAre(2));
  EXPECT_EQ(scripts[0]->all<protocols::new_backup>().size(), 1U);
  say(protocols::caught_up{{2}});
  EXPECT_THAT(seen->events, Not(Contains(HasSubstr("has a whole copy of shard 0")))) << "it is not decided yet";
  EXPECT_EQ(std::get<ledger::copied>(slow.asked.back()), (ledger::copied{5, 2, {2}}));
  say(protocols::caught_up{{2}});
  decide_all();
  EXPECT_THAT(seen->events, testing::Contains(HasSubstr("has a whole copy of shard 0")).Times(1));
  EXPECT_EQ(slow.asked.size(), 0U);
}

TEST_F(LateCopies, TheLeadHearsOfNoneWhoseNodeIsLostBeforeItIsDecided) {
  begin();
  decide_all();
  kill(nodes[1]);
  decide_all();
  comes_back(1);
  while (!slow.asked.empty() && !std::holds_alternative<ledger::placed>(slow.asked.back())) {
    slow.asked.clear();
    decide();
  }
  ASSERT_FALSE(slow.asked.empty());
  kill(nodes.back());
  decide_all();
  EXPECT_TRUE(scripts[0]->all<protocols::new_backup>().empty());
  EXPECT_THAT(decisions, Contains(ledger::entry{ledger::holder_lost{5, 2, {2}}}));
}

} // namespace
} // namespace troupe::actors
