// SPDX-License-Identifier: BSD-3-Clause
// What roles say of themselves in figures agrees from one role to the other.
#include <chrono>
#include <cstdlib>
#include <map>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "tensor/model.hpp"
#include "tests/apps/cluster_in_process.hpp"

namespace troupe::tests {
namespace {

using steady = std::chrono::steady_clock;
constexpr std::chrono::seconds patience{30};

actors::job small(const std::string& protocol) {
  actors::job job;
  job.own_data.name = "gated";
  job.data.batch = 16;
  job.model.layers = {"flatten", "linear 16 relu", "linear 10"};
  job.protocol.name = protocol;
  job.evaluate.every_s = 3600;
  job.stop.epochs = 1e6;
  job.cluster = {.nodes = 4, .workers = 3, .shards = 1};
  return job;
}

std::uint64_t figure(const actors::actor_report& of, const std::string& name) {
  return std::strtoull(of.fields.at(name).c_str(), nullptr, 10);
}

/// Of a cluster that has come to rest.
struct figures {
  actors::actor_report shard;
  std::uint64_t clocks = 0, bytes_pushed = 0, slowest = ~std::uint64_t{0}, fastest = 0;
  bool rest = true;
};
figures look(cluster_in_process& cluster) {
  figures out;
  const auto all = cluster.look().actors();
  for (const auto& actor : all)
    if (actor.role == "shard")
      out.shard = actor;
  for (const auto& actor : all) {
    if (actor.role != "worker")
      continue;
    const auto clock = figure(actor, "clock");
    // A worker whose next rows were there already pushes once more, and waits for those that have none.
    const bool pushed_to_open_round = actor.state == "waits for parameters" && clock > figure(out.shard, "version");
    out.rest = out.rest && (actor.state == "waits for data" || pushed_to_open_round);
    out.clocks += clock;
    out.bytes_pushed += figure(actor, "bytes_pushed");
    out.slowest = std::min(out.slowest, clock);
    out.fastest = std::max(out.fastest, clock);
  }
  out.rest = out.rest && out.shard.state == "collects" && figure(out.shard, "pushes") == out.clocks;
  return out;
}

/// Runs for a while, then shuts all data: everybody comes to rest.
figures at_rest(cluster_in_process& cluster, const std::string& protocol) {
  cluster.run(small(protocol), 5);
  for (const auto* node : {"b", "c", "d"})
    cluster.gates.at(node)->set(false);
  auto seen = look(cluster);
  for (const auto began = steady::now(); !seen.rest && steady::now() - began < patience;)
    seen = look(cluster);
  return seen;
}

TEST(RoleFields, AShardHasWhatWorkersPushed) {
  const auto layers = small("sync").model.layers;
  const auto bytes =
      static_cast<std::uint64_t>(model::build({layers}, {{1, 28, 28}, 10}).value().layout().floats()) * sizeof(float);
  for (const auto* protocol : {"sync", "async"}) {
    SCOPED_TRACE(protocol);
    cluster_in_process cluster;
    const auto seen = at_rest(cluster, protocol);
    ASSERT_TRUE(seen.rest);
    EXPECT_EQ(seen.bytes_pushed, seen.clocks * bytes);
    EXPECT_EQ(figure(seen.shard, "bytes_received"), seen.bytes_pushed);
    EXPECT_EQ(figure(seen.shard, "round"), figure(seen.shard, "version") + 1);
  }
}

TEST(RoleFields, ARoundHasOneVersionAndAPushOfEveryWorker) {
  cluster_in_process cluster;
  const auto seen = at_rest(cluster, "sync");
  ASSERT_TRUE(seen.rest);
  EXPECT_EQ(figure(seen.shard, "staleness"), 0);
  EXPECT_EQ(figure(seen.shard, "arrivals"), seen.clocks - 3 * figure(seen.shard, "version"));
  EXPECT_LE(seen.fastest, seen.slowest + 1);
}

TEST(RoleFields, WithoutRoundsEveryPushIsAVersion) {
  cluster_in_process cluster;
  const auto seen = at_rest(cluster, "async");
  ASSERT_TRUE(seen.rest);
  EXPECT_EQ(figure(seen.shard, "version"), seen.clocks);
  EXPECT_EQ(figure(seen.shard, "arrivals"), 0);
}

using names = std::vector<std::string>;

TEST(RoleFields, InATreeEachWaitsForWhatIsBelowIt) {
  auto job = small("sync");
  job.protocol.fan_in = 2; // aggregator 1 sums workers 0 and 1, aggregator 2 worker 2
  cluster_in_process cluster;
  cluster.run(job, 5);
  cluster.gates.at("d")->set(false);
  const std::map<std::string, names> expected{{"shard 0", {"aggregator 2"}},  {"aggregator 1", {"shard 0"}},
                                              {"aggregator 2", {"worker 2"}}, {"worker 0", {"shard 0"}},
                                              {"worker 1", {"shard 0"}},      {"worker 2", {"loader 2"}}};
  std::map<std::string, names> seen;
  apps::console::snapshot at;
  for (const auto began = steady::now(); seen != expected && steady::now() - began < patience;) {
    at = cluster.look();
    for (const auto& actor : at.actors())
      if (expected.contains(actor.id))
        seen[actor.id] = actor.waits_for;
  }
  EXPECT_EQ(seen, expected);
  for (const auto* from : {"coordinator", "worker 0", "aggregator 1"}) {
    const auto causes = apps::console::why(at, from).json.at("causes").as_array();
    ASSERT_EQ(causes.size(), 1U) << from;
    EXPECT_TRUE(causes[0].as_string().starts_with("loader 2 on node d: it loads a batch")) << causes[0];
  }
}

} // namespace
} // namespace troupe::tests
