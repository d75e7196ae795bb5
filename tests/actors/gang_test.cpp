// SPDX-License-Identifier: BSD-3-Clause
// Which nodes a job gets.
#include "actors/cluster/gang.hpp"

#include <bit>
#include <random>
#include <set>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "actors/node/place_roles.hpp"

namespace troupe::actors {
namespace {

using testing::HasSubstr;
using gang = std::vector<std::uint32_t>;

/// A coordinator that holds no workers, and nodes that may hold anything, all here and free.
std::vector<member_view> seats_on(const std::vector<std::string>& hosts) {
  std::vector<member_view> seats{{.node = {"a", "h0", true, false}, .here = true}};
  for (const auto& host : hosts)
    seats.push_back({.node = {std::string(1, static_cast<char>('a' + seats.size())), host, true, true}, .here = true});
  return seats;
}

/// A letter a node: s may hold shards, w workers, b both; all here and free.
std::vector<member_view> seats_for(const std::string& may) {
  std::vector<member_view> seats;
  for (const char role : may)
    seats.push_back(
        {.node = {std::string(1, static_cast<char>('a' + seats.size())), "h", role != 'w', role != 's'}, .here = true});
  return seats;
}

job wants(std::uint32_t nodes, std::uint32_t workers = 4) {
  actors::job job;
  job.cluster = {.nodes = nodes, .workers = workers, .shards = 1};
  return job;
}

gang chosen(const job& job, const std::vector<member_view>& seats) {
  const auto got = choose_gang(job, seats);
  return std::holds_alternative<gang>(got) ? std::get<gang>(got) : gang{};
}

no_gang refused(const job& job, const std::vector<member_view>& seats) {
  const auto got = choose_gang(job, seats);
  return std::holds_alternative<no_gang>(got) ? std::get<no_gang>(got) : no_gang{};
}

TEST(Gang, AJobGetsAllThatItNeeds) {
  EXPECT_EQ(chosen(wants(3), seats_on({"h0", "h0", "h0"})), (gang{0, 1, 2}));
}

TEST(Gang, AJobMayGrowOntoNodesThatMayHoldWorkersUntilAllHaveAPlace) {
  auto seats = seats_for("sbswbb"); // b and d begin
  seats[4].here = false;
  job grows = wants(3, 4);
  EXPECT_EQ(nodes_to_grow_onto(grows, seats, {0, 1, 3}), gang{}) << "it does not ask for that";
  grows.cluster.max_workers = 100;
  EXPECT_EQ(nodes_to_grow_onto(grows, seats, {0, 1, 3}), (gang{4, 5})) << "whether they are here or not";
  grows.cluster.max_workers = 6;
  EXPECT_EQ(nodes_to_grow_onto(grows, seats, {0, 1, 3}), gang{4}) << "with two workers, as the others have";
  const auto members = members_of(grows, seats, {0, 1, 3, 4}, 3);
  EXPECT_FALSE(members[2].absent);
  EXPECT_TRUE(members[3].absent);
  EXPECT_EQ(place_roles(grows, members).workers.size(), 6U);
}

TEST(Gang, OrNothing) {
  auto seats = seats_on({"h0", "h0", "h0"});
  seats[1].job = 7;
  seats[2].here = false;
  const auto why = refused(wants(3), seats);
  EXPECT_FALSE(why.never);
  EXPECT_THAT(why.reason, HasSubstr("node b runs job 7"));
  EXPECT_THAT(why.reason, HasSubstr("node c has not joined"));
  EXPECT_EQ(chosen(wants(2), seats), (gang{0, 3}));
}

TEST(Gang, WhoLeavesGetsNothingNew) {
  auto seats = seats_on({"h0"});
  seats[1].leaving = true;
  EXPECT_THAT(refused(wants(2), seats).reason, HasSubstr("node b is drained"));
  seats[1].job = 7;
  EXPECT_THAT(refused(wants(2), seats).reason, HasSubstr("node b leaves when job 7 ends"));
}

TEST(Gang, NodesOfOneHostGoTogether) {
  EXPECT_EQ(chosen(wants(3), seats_on({"h1", "h2", "h3", "h2"})), (gang{0, 2, 4}));
  EXPECT_EQ(chosen(wants(4), seats_on({"h1", "h2", "h1", "h2"})), (gang{0, 1, 3, 2}));
}

TEST(Gang, WhatNoStateOfTheClusterCouldServeIsRefusedForGood) {
  EXPECT_TRUE(refused(wants(3), seats_on({"h0"})).never);
  EXPECT_TRUE(refused(wants(1, 1), seats_on({"h0"})).never) << "the coordinator's node may hold no workers";
}

TEST(Gang, WorkersGetNodesThatMayHoldThem) {
  EXPECT_EQ(chosen(wants(2, 1), seats_for("ssw")), (gang{0, 2}));
  EXPECT_EQ(chosen(wants(3, 2), seats_for("sswsw")), (gang{0, 2, 4}));
  EXPECT_EQ(chosen(wants(4, 4), seats_for("ssww")), (gang{0, 1, 2, 3})) << "what is left goes to shards";
  EXPECT_EQ(chosen(wants(3, 2), seats_for("ssw")), (gang{0, 1, 2}));
}

/// Likewise, of a cluster whose jobs outlive their coordinator.
std::vector<member_view> seats_outliving(const std::string& may) {
  auto seats = seats_for(may);
  for (auto& seat : seats)
    seat.node.last_resort = &seat == &seats.front() ? leaders_node : any_node;
  return seats;
}

TEST(Gang, OfAJobThatOutlivesItsCoordinatorTheCoordinatorsNodeCountsAndHasNoPart) {
  EXPECT_EQ(chosen(wants(3, 2), seats_outliving("sbb")), (gang{1, 2}));
  EXPECT_EQ(chosen(wants(2, 2), seats_outliving("sbb")), gang{1});
  EXPECT_EQ(chosen(wants(1, 2), seats_outliving("bbb")), gang{1}) << "another one takes its place";
  EXPECT_EQ(chosen(wants(1, 2), seats_outliving("bsw")), gang{0}) << "no other may do all";
}

TEST(Gang, WhereNoneMayHoldShardsOneThatMayIsTakenInsteadOfTheCoordinators) {
  auto seats = seats_outliving("swsws");
  seats[2].node.last_resort = seats[4].node.last_resort = followers_node;
  EXPECT_EQ(chosen(wants(3, 2), seats), (gang{1, 3, 2}));
  seats[2].job = 7;
  EXPECT_EQ(chosen(wants(3, 2), seats), (gang{1, 3, 4}));
  seats[4].here = false;
  EXPECT_EQ(chosen(wants(3, 2), seats), (gang{0, 1, 3})) << "there is no other place";
}

TEST(Gang, ASingleCoordinatorsNodeHoldsShardsOfAnyNumberOfJobs) {
  auto seats = seats_outliving("sww");
  seats[0].job = 7;
  EXPECT_EQ(chosen(wants(3, 2), seats), (gang{0, 1, 2}));
}

TEST(Gang, WhatIsLackingIsNamed) {
  auto seats = seats_for("sswsw");
  seats[2].job = 3;
  seats[4].here = false;
  EXPECT_EQ(refused(wants(2, 1), seats).reason, "it needs 2 nodes: node c runs job 3, node e has not joined");
  seats[1].here = false;
  EXPECT_EQ(refused(wants(5, 4), seats).reason,
            "it needs 5 nodes, 2 of them for workers: node b has not joined, node c runs job 3, node e has not joined");
  const auto nobody = refused(wants(2, 1), seats_for("ss"));
  EXPECT_TRUE(nobody.never);
  EXPECT_EQ(nobody.reason, "no node of this cluster may hold workers");
}

TEST(Gang, WhoWaitsKeepsTheFreeNodesThatItNeedsAndThenThoseThatAreBusy) {
  auto seats = seats_on({"h0", "h0", "h0", "h0"});
  seats[1].job = 7;
  seats[3].job = 8;
  EXPECT_EQ(nodes_to_keep(wants(4), seats, {}), (gang{2, 4, 1}));
  EXPECT_EQ(nodes_to_keep(wants(3), seats, {{2, 5}}), (gang{4, 1}))
      << "those that a job before it keeps are no better than busy ones";
}

TEST(Gang, WhoLacksANodeThatIsNotHereKeepsNone) {
  auto seats = seats_on({"h0", "h0"});
  seats[2].here = false;
  EXPECT_EQ(nodes_to_keep(wants(3), seats, {}), gang{});
  seats[2].here = true;
  seats[2].leaving = true;
  EXPECT_EQ(nodes_to_keep(wants(3), seats, {}), gang{});
}

TEST(Gang, NodesThatAreKeptForAnotherJobAreNamed) {
  EXPECT_EQ(std::get<no_gang>(choose_gang(wants(3), seats_on({"h0", "h0"}), {{2, 5}})).reason,
            "it needs 3 nodes: node c is reserved for job 5");
  EXPECT_EQ(std::get<gang>(choose_gang(wants(2), seats_on({"h0", "h0"}), {{1, 5}})), (gang{0, 2}));
}

TEST(Gang, TheCoordinatorsNodeIsKeptByThoseWhoseWorkersItShallHold) {
  auto seats = seats_on({"h0"});
  seats[0].node.worker = true;
  seats[0].job = 3;
  EXPECT_EQ(nodes_to_keep(wants(1, 1), seats, {}), gang{0});
  EXPECT_EQ(nodes_to_keep(wants(2), seats, {}), gang{1});
  seats[0].job = 0;
  EXPECT_EQ(refused(wants(1, 1), seats).reason, "");
  EXPECT_EQ(std::get<no_gang>(choose_gang(wants(1, 1), seats, {{0, 4}})).reason,
            "it needs 1 nodes: node a is reserved for job 4");
}

/// As they are described, all here and free; a to c, of which a is the coordinator's and has no list.
std::vector<member_view> seats_with(const std::vector<std::vector<std::string>>& devices) {
  std::vector<member_view> seats{{.node = {"a", "h", true, false}, .here = true}};
  for (const auto& each : devices)
    seats.push_back({.node = {std::string(1, static_cast<char>('a' + seats.size())), "h", true, true, each}, .here = true});
  return seats;
}

job wants_on(const std::string& device, std::uint32_t nodes, std::uint32_t workers = 1) {
  auto job = wants(nodes, workers);
  job.compute.device = device;
  return job;
}

TEST(Gang, AJobForADeviceGetsTheNodesThatListIt) {
  const auto seats = seats_with({{"cpu"}, {"cuda:1"}, {"cpu", "cuda:0"}, {"cuda"}});
  EXPECT_EQ(chosen(wants_on("cuda:0", 2), seats), (gang{0, 3}));
  EXPECT_EQ(chosen(wants_on("cuda:0", 3, 2), seats), (gang{0, 3, 4})) << "all GPUs of node e are listed";
  EXPECT_EQ(chosen(wants_on("cuda", 4, 3), seats), (gang{0, 2, 3, 4}));
  EXPECT_EQ(chosen(wants_on("cpu", 3, 2), seats), (gang{0, 1, 3}));
}

TEST(Gang, ADeviceThatNoNodeListsIsRefusedForGood) {
  const auto seats = seats_with({{"cpu"}, {"cuda:1"}});
  const auto none = refused(wants_on("cuda:0", 2), seats);
  EXPECT_TRUE(none.never);
  EXPECT_EQ(none.reason, "no node of this cluster may hold workers on cuda:0");
  auto busy = seats;
  busy[2].job = 6;
  EXPECT_EQ(refused(wants_on("cuda:1", 2), busy).reason, "it needs 2 nodes: node c runs job 6");
}

TEST(Gang, NodesThatListADeviceComeBeforeThoseThatSayNothing) {
  EXPECT_EQ(chosen(wants_on("cuda:0", 2), seats_with({{}, {"cuda:0"}})), (gang{0, 2}));
  EXPECT_EQ(chosen(wants_on("cuda:0", 3, 2), seats_with({{}, {"cuda:0"}})), (gang{0, 2, 1}));
  EXPECT_EQ(chosen(wants_on("cpu", 2), seats_with({{}, {"cpu"}})), (gang{0, 1}));
}

TEST(Gang, ANodeOfTheCpuAloneIsAskedForNoGpuByShardsEither) {
  auto seats = seats_with({{"cpu"}, {"cpu"}});
  auto job = wants_on("cpu", 3, 2);
  job.compute.shard_device = "cuda:0";
  job.cluster.where = placement::colocated;
  ASSERT_EQ(chosen(job, seats), (gang{0, 1, 2}));
  EXPECT_FALSE(member_of(job, seats[1]).shard);
  job.protocol.fan_in = 2;
  EXPECT_EQ(refused(job, seats).reason, "no node of this cluster may hold workers") << "beside workers are aggregators";
  seats[0].node.devices = {"cpu"};
  EXPECT_EQ(refused(job, seats).reason, "the first shard is on the coordinator's node, a, whose devices are cpu; "
                                        "compute.shard_device = \"cuda:0\" is none of them");
}

class random_cluster {
public:
  explicit random_cluster(std::uint32_t seed) : random_(seed) {
    std::string may;
    for (auto left = 1 + draw(7); left > 0; --left)
      may += "swb"[draw(3)];
    seats = seats_for(may);
    for (auto& seat : seats)
      seat.node.host = std::string("h") + static_cast<char>('0' + draw(3));
    job = wants(1 + draw(static_cast<std::uint32_t>(seats.size()) + 1), 1 + draw(5));
    job.cluster.shards = 1 + draw(4);
    job.cluster.where = draw(2) == 0 ? placement::separate : placement::colocated;
  }
  void disturb() {
    for (auto& seat : seats) {
      seat.job = draw(3) == 0 ? 9 : 0;
      seat.here = &seat == &seats.front() || draw(4) != 0;
      seat.leaving = &seat != &seats.front() && draw(5) == 0;
    }
  }
  std::uint32_t draw(std::uint32_t below) { return random_() % below; }

  std::vector<member_view> seats;
  actors::job job;

private:
  std::mt19937 random_;
};

/// Whether some of these nodes, all free, would do.
bool could_ever(const job& job, const std::vector<member_view>& seats) {
  for (std::uint32_t others = 0; others < 1U << (seats.size() - 1); ++others) {
    bool works = seats.front().node.worker;
    for (std::size_t i = 1; i < seats.size(); ++i)
      works |= (others >> (i - 1) & 1U) != 0 && seats[i].node.worker;
    if (std::popcount(others) + 1U == job.cluster.nodes && works)
      return true;
  }
  return false;
}

TEST(Gang, OfAnyClusterItIsChosenSoThatItCanBePlaced) {
  for (std::uint32_t seed = 1; seed <= 20'000; ++seed) {
    SCOPED_TRACE(seed);
    random_cluster now{seed};
    const auto at_best = choose_gang(now.job, now.seats);
    if (const auto* none = std::get_if<no_gang>(&at_best)) {
      ASSERT_TRUE(none->never) << "all are free: " << none->reason;
    }
    ASSERT_EQ(std::holds_alternative<gang>(at_best), could_ever(now.job, now.seats));
    now.disturb();
    const auto got = choose_gang(now.job, now.seats);
    if (const auto* none = std::get_if<no_gang>(&got)) {
      ASSERT_EQ(none->never, std::holds_alternative<no_gang>(at_best));
      ASSERT_THAT(none->reason, testing::Not(testing::EndsWith(": "))) << "it waits for somebody";
      continue;
    }
    const auto& members = std::get<gang>(got);
    ASSERT_EQ(members.size(), now.job.cluster.nodes);
    ASSERT_EQ(members.front(), 0U);
    ASSERT_EQ((std::set<std::uint32_t>{members.begin(), members.end()}.size()), members.size());
    std::vector<member_node> nodes;
    for (auto number : members)
      nodes.push_back(member_of(now.job, now.seats[number]));
    const auto placed = place_roles(now.job, nodes);
    ASSERT_EQ(placed.workers.size(), now.job.cluster.workers);
    for (const auto& worker : placed.workers) {
      ASSERT_TRUE(nodes[worker.node].worker);
      const auto& seat = now.seats[members[worker.node]];
      ASSERT_TRUE(seat.here && !seat.leaving && seat.job == 0) << seat.node.name;
    }
    for (const auto& holder : placed.holders)
      ASSERT_TRUE(holder.node == 0 || nodes[holder.node].shard);
  }
}

TEST(Gang, TheCoordinatorsNodeServesManyJobsButItsWorkersOne) {
  auto seats = seats_on({"h0", "h0"});
  seats[0].job = 3;
  EXPECT_EQ(chosen(wants(2), seats), (gang{0, 1})) << "shards alone";
  seats[0].node.worker = true;
  auto spread = wants(2);
  spread.cluster.where = placement::colocated;
  EXPECT_THAT(refused(spread, seats).reason, HasSubstr("node a runs job 3"));
  EXPECT_THAT(refused(wants(1, 1), seats).reason, HasSubstr("node a runs job 3"));
}

} // namespace
} // namespace troupe::actors
