// SPDX-License-Identifier: BSD-3-Clause
// Where a job's roles go.
#include "actors/node/place_roles.hpp"

#include <algorithm>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "protocols/catalog.hpp"
#include "protocols/tree.hpp"

namespace troupe::actors {
namespace {

job job_of(cluster_spec cluster, std::uint32_t fan_in = 0) {
  actors::job job;
  job.cluster = cluster;
  job.protocol.fan_in = fan_in;
  return job;
}

job_places place(const job& job) {
  std::vector<member_node> nodes(job.cluster.nodes);
  for (std::size_t i = 0; i < nodes.size(); ++i)
    nodes[i].name = "node-" + std::to_string(i);
  return place_roles(job, nodes);
}

std::vector<std::uint32_t> nodes_of(const std::vector<role_place>& roles) {
  std::vector<std::uint32_t> nodes;
  for (std::uint32_t i = 0; i < roles.size(); ++i) {
    EXPECT_EQ(roles[i].index, i) << "roles come in the order of their numbers";
    nodes.push_back(roles[i].node);
  }
  return nodes;
}

using places = std::vector<std::uint32_t>;

TEST(PlaceRoles, OneNodeHoldsEverything) {
  for (auto where : {placement::separate, placement::colocated}) {
    auto placed = place(job_of({.nodes = 1, .workers = 3, .shards = 2, .where = where}));
    EXPECT_EQ(nodes_of(placed.workers), (places{0, 0, 0}));
    EXPECT_EQ(nodes_of(placed.holders), (places{0, 0}));
    ASSERT_EQ(placed.nodes.size(), 1U);
    EXPECT_EQ(placed.nodes[0].name, "node-0");
  }
}

TEST(PlaceRoles, AnAggregatorForEachNodeIsBesideItsWorkers) {
  const job of_nodes = job_of({.nodes = 3, .workers = 5, .shards = 1}, protocols::fan_in_of_nodes);
  const auto placed = place(of_nodes);
  EXPECT_EQ(nodes_of(placed.workers), (places{1, 1, 1, 2, 2}));
  const auto sync = protocols::find_protocol("sync"), allreduce = protocols::find_protocol("allreduce");
  EXPECT_EQ(worker_blocks(of_nodes, *sync, placed), (places{3, 2}));
  auto plain = job_of({.nodes = 3, .workers = 5});
  EXPECT_TRUE(worker_blocks(plain, *sync, placed).empty()) << "nobody asks for them";
  EXPECT_EQ(worker_blocks(plain, *allreduce, placed), (places{3, 2}));
  plain.inject.link.mbit = 100;
  EXPECT_TRUE(worker_blocks(plain, *allreduce, placed).empty()) << "each is on a host of its own";
  plain.inject.link = {};
  plain.protocol.parameters["group"] = std::int64_t{2};
  EXPECT_TRUE(worker_blocks(plain, *allreduce, placed).empty()) << "groups go by numbers";
  EXPECT_EQ(nodes_of(placed.holders), (places{0, 1, 2, nowhere, nowhere, nowhere}));
}

TEST(PlaceRoles, NodesThatAreAbsentHaveTheWorkersBeyondThoseThatTheJobBeginsWith) {
  const job begins = job_of({.nodes = 3, .workers = 4, .max_workers = 9, .shards = 2});
  std::vector<member_node> nodes(6);
  for (std::size_t i = 3; i < nodes.size(); ++i)
    nodes[i].absent = true;
  const auto placed = place_roles(begins, nodes);
  EXPECT_EQ(nodes_of(placed.workers), (places{1, 1, 2, 2, 3, 3, 4, 4, 5}));
  EXPECT_EQ(nodes_of(placed.holders), (places{0, 0})) << "what nobody may lose is on nodes that are here";
  EXPECT_EQ(placed.absent(), (std::set<std::uint32_t>{3, 4, 5}));
  EXPECT_EQ(placed.workers_on({3, 5}), (std::set<std::uint32_t>{4, 5, 8}));
  const job of_nodes = job_of(begins.cluster, protocols::fan_in_of_nodes);
  const auto summed = place_roles(of_nodes, nodes);
  EXPECT_EQ(nodes_of(summed.holders), (places{0, 0, 1, 2, nowhere, nowhere})) << "those who come later push to every shard";
  EXPECT_EQ(worker_blocks(of_nodes, *protocols::find_protocol("sync"), summed), (places{2, 2}));
  nodes.resize(3);
  EXPECT_EQ(place_roles(begins, nodes).workers.size(), 4U) << "nobody is there to hold more";
}

TEST(PlaceRoles, ShardsAndWorkersLiveApart) {
  auto placed = place(job_of({.nodes = 3, .workers = 4, .shards = 2}));
  EXPECT_EQ(nodes_of(placed.workers), (places{1, 1, 2, 2}));
  EXPECT_EQ(nodes_of(placed.holders), (places{0, 0}));
}

TEST(PlaceRoles, ColocatedNodesShareShardsAndWorkers) {
  auto placed = place(job_of({.nodes = 3, .workers = 6, .shards = 4, .where = placement::colocated}));
  EXPECT_EQ(nodes_of(placed.workers), (places{0, 0, 1, 1, 2, 2}));
  EXPECT_EQ(nodes_of(placed.holders), (places{0, 1, 2, 0}));
}

/// A letter a node: s may hold shards, w workers, b both, - neither.
job_places place_on(const std::string& may, const job& job) {
  std::vector<member_node> nodes(may.size());
  for (std::size_t i = 0; i < may.size(); ++i) {
    nodes[i].shard = may[i] == 's' || may[i] == 'b';
    nodes[i].worker = may[i] == 'w' || may[i] == 'b';
  }
  return place_roles(job, nodes);
}

TEST(PlaceRoles, RolesGoWhereTheyMay) {
  auto apart = place_on("ssww", job_of({.nodes = 4, .workers = 4, .shards = 2}));
  EXPECT_EQ(nodes_of(apart.holders), (places{0, 1}));
  EXPECT_EQ(nodes_of(apart.workers), (places{2, 2, 3, 3}));
  auto spread = place_on("bsbw", job_of({.nodes = 4, .workers = 3, .shards = 3, .where = placement::colocated}));
  EXPECT_EQ(nodes_of(spread.holders), (places{0, 1, 2}));
  EXPECT_EQ(nodes_of(spread.workers), (places{0, 2, 3}));
}

TEST(PlaceRoles, TheFirstShardIsAlwaysBesideTheCoordinator) {
  auto placed = place_on("-sww", job_of({.nodes = 4, .workers = 2, .shards = 2}));
  EXPECT_EQ(nodes_of(placed.holders), (places{0, 1}));
  EXPECT_EQ(nodes_of(placed.workers), (places{2, 3}));
}

/// Likewise, of a job that outlives its coordinator; a digit after the letter: last_resort, else any_node.
job_places place_outliving(const std::string& may, const job& job) {
  std::vector<member_node> nodes;
  for (const char each : may)
    if (each >= '0' && each <= '9')
      nodes.back().last_resort = static_cast<std::uint8_t>(each - '0');
    else {
      auto& node = nodes.emplace_back();
      node.shard = each == 's' || each == 'b';
      node.worker = each == 'w' || each == 'b';
      node.last_resort = any_node;
    }
  return place_roles(job, nodes);
}

TEST(PlaceRoles, OfAJobThatOutlivesItsCoordinatorParametersAreElsewhere) {
  const auto two = job_of({.nodes = 3, .workers = 2, .shards = 2});
  const auto beside_workers = place_outliving("s3bb", two);
  EXPECT_EQ(nodes_of(beside_workers.holders), (places{1, 2})) << "nobody else may hold them";
  EXPECT_EQ(nodes_of(beside_workers.workers), (places{1, 2}));
  EXPECT_EQ(beside_workers.evaluator, 1U) << "beside the lead";
  EXPECT_FALSE(beside_workers.uses(0));
  EXPECT_EQ(nodes_of(place_outliving("s3wsw", two).holders), (places{2, 2})) << "apart from workers";
  EXPECT_EQ(nodes_of(place_outliving("s3s2ww", two).holders), (places{1, 1})) << "rather a coordinator that follows";
  EXPECT_EQ(nodes_of(place_outliving("s3s2bw", two).holders), (places{2, 2})) << "and rather than that another node";
  const auto nowhere_else = place_outliving("s3ww", two);
  EXPECT_EQ(nodes_of(nowhere_else.holders), (places{0, 0}));
  EXPECT_EQ(nowhere_else.evaluator, 0U);
  EXPECT_EQ(nodes_of(place_outliving("ws", two).holders), (places{1, 1})) << "the leader may not be among its nodes";
}

TEST(PlaceRoles, OfAJobThatOutlivesItsCoordinatorWorkersAreWithTheLeaderOnlyIfSharedOrNowhereElse) {
  const auto two = job_of({.nodes = 2, .workers = 2, .shards = 1});
  EXPECT_EQ(nodes_of(place_outliving("b3b", two).workers), (places{1, 1}));
  EXPECT_EQ(nodes_of(place_outliving("b3s", two).workers), (places{0, 0}));
  const auto shared = job_of({.nodes = 2, .workers = 2, .shards = 1, .where = placement::colocated});
  EXPECT_EQ(nodes_of(place_outliving("b3b", shared).workers), (places{0, 1}));
  EXPECT_EQ(nodes_of(place_outliving("b3b", shared).holders), (places{1}));
}

TEST(PlaceRoles, OfAJobThatOutlivesItsCoordinatorCopiesComeToTheLeaderLast) {
  const auto copied = job_of({.nodes = 4, .workers = 2, .shards = 1, .replicas = 3});
  EXPECT_EQ(nodes_of(place_outliving("s3s2bb", copied).holders), (places{2, 3, 1}));
  EXPECT_EQ(nodes_of(place_outliving("s3bb", copied).holders), (places{1, 2, 0}));
  const auto twice = job_of({.nodes = 3, .workers = 2, .shards = 1, .replicas = 2});
  EXPECT_EQ(nodes_of(place_outliving("wss", twice).holders), (places{1, 2})) << "and to none that may hold no shard";
}

TEST(PlaceRoles, TheFirstNodeWorksOnlyWhereNoOtherMay) {
  EXPECT_EQ(nodes_of(place_on("bsw", job_of({.nodes = 3, .workers = 2, .shards = 2})).workers), (places{2, 2}));
  EXPECT_EQ(nodes_of(place_on("bss", job_of({.nodes = 3, .workers = 2, .shards = 3})).workers), (places{0, 0}));
}

TEST(PlaceRolesDeathTest, SomebodyMayHoldWorkers) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_DEATH(place_on("ss", job_of({.nodes = 2, .workers = 1, .shards = 1})), "workers");
}

TEST(PlaceRoles, WorkersAreSpreadEvenlyInContiguousBlocks) {
  for (std::uint32_t nodes = 1; nodes <= 9; ++nodes)
    for (std::uint32_t workers = 1; workers <= 40; ++workers)
      for (auto where : {placement::separate, placement::colocated}) {
        auto placed = place(job_of({.nodes = nodes, .workers = workers, .shards = 1, .where = where}));
        std::map<std::uint32_t, std::uint32_t> load;
        std::uint32_t before = 0;
        for (auto node : nodes_of(placed.workers)) {
          EXPECT_LE(before, node);
          before = node;
          ++load[node];
        }
        auto first = where == placement::separate && nodes > 1 ? 1U : 0U;
        auto hosts = nodes - first;
        EXPECT_EQ(load.size(), std::min(hosts, workers)) << nodes << " nodes, " << workers << " workers";
        for (auto [node, count] : load) {
          EXPECT_GE(node, first);
          EXPECT_LT(node, nodes);
          EXPECT_GE(count, workers / hosts);
          EXPECT_LE(count, (workers + hosts - 1) / hosts);
        }
      }
}

/// Where each worker is, "1 cuda:0"; on the first node none, on the others these devices.
std::vector<std::string> workers_on(const std::vector<std::vector<std::string>>& devices, const std::string& wanted,
                                    std::uint32_t workers) {
  std::vector<member_node> nodes(1 + devices.size());
  nodes[0].worker = false;
  for (std::size_t i = 0; i < devices.size(); ++i)
    nodes[1 + i].devices = devices[i];
  auto job = job_of({.nodes = static_cast<std::uint32_t>(nodes.size()), .workers = workers, .shards = 1});
  job.compute.device = wanted;
  std::vector<std::string> found;
  for (const auto& worker : place_roles(job, nodes).workers)
    found.push_back(std::to_string(worker.node) + (worker.device.empty() ? "" : " " + worker.device));
  return found;
}

using on = std::vector<std::string>;

TEST(PlaceRoles, WorkersOfANodeHaveItsDevicesInTurn) {
  EXPECT_EQ(workers_on({{"cpu", "cuda:0", "cuda:2"}}, "cuda", 3), (on{"1 cuda:0", "1 cuda:2", "1 cuda:0"}));
  EXPECT_EQ(workers_on({{"cuda:0", "cuda:1"}, {"cuda:0", "cuda:1"}}, "cuda", 4),
            (on{"1 cuda:0", "1 cuda:1", "2 cuda:0", "2 cuda:1"}));
}

TEST(PlaceRoles, NodesWithMoreDevicesGetMoreWorkersAndNoneGetsNone) {
  EXPECT_EQ(workers_on({{"cuda:0"}, {"cuda:0", "cuda:1", "cuda:2"}}, "cuda", 4),
            (on{"1 cuda:0", "2 cuda:0", "2 cuda:1", "2 cuda:2"}));
  EXPECT_EQ(workers_on({{"cuda:0", "cuda:1", "cuda:2"}, {"cuda:0"}}, "cuda", 2), (on{"1 cuda:0", "2 cuda:0"}));
}

TEST(PlaceRoles, ADeviceThatTheJobNamesIsThatOne) {
  EXPECT_EQ(workers_on({{"cuda:0", "cuda:1"}, {"cuda"}}, "cuda:1", 4), (on{"1", "1", "2", "2"}));
  EXPECT_EQ(workers_on({{"cpu", "cuda:0", "cuda:1"}, {}}, "cpu", 2), (on{"1", "2"}));
  EXPECT_EQ(workers_on({{}, {}}, "cuda", 4), (on{"1", "1", "2", "2"})) << "the library has them in turn";
}

TEST(PlaceRoles, ShardsOfANodeHaveItsDevicesInTurnToo) {
  std::vector<member_node> nodes(1);
  nodes[0].devices = {"cpu", "cuda:0", "cuda:1"};
  auto job = job_of({.nodes = 1, .workers = 1, .shards = 3});
  job.compute.shard_device = "cuda";
  std::vector<std::string> devices;
  for (const auto& holder : place_roles(job, nodes).holders)
    devices.push_back(holder.device);
  EXPECT_EQ(devices, (on{"cuda:0", "cuda:1", "cuda:0"}));
}

TEST(PlaceRoles, AnAggregatorIsBesideItsFirstWorker) {
  auto job = job_of({.nodes = 4, .workers = 9, .shards = 2}, 3);
  auto placed = place(job);
  ASSERT_EQ(nodes_of(placed.workers), (places{1, 1, 1, 2, 2, 2, 3, 3, 3}));
  EXPECT_EQ(nodes_of(placed.holders), (places{0, 0, 1, 2, 3})); // two shards, then an aggregator for each node's three workers
}

TEST(PlaceRoles, AHigherAggregatorIsBesideItsFirstChild) {
  auto job = job_of({.nodes = 4, .workers = 12, .shards = 1}, 2);
  auto placed = place(job);
  auto tree = protocols::holder_tree({12, 1, 2});
  ASSERT_EQ(placed.holders.size(), tree.size());
  int higher = 0;
  for (const auto& holder : tree)
    if (!holder.is_shard && holder.workers.empty()) {
      ++higher;
      auto first_worker = protocols::workers_below(tree, holder.self).begin()->value;
      EXPECT_EQ(placed.holders[holder.self.value].node, placed.workers[first_worker].node);
    }
  EXPECT_GT(higher, 0);
}

} // namespace
} // namespace troupe::actors
