// SPDX-License-Identifier: BSD-3-Clause
// A cluster asks its nodes what they have: scripted nodes beside the coordinator's own, under CAF's testing scheduler.
#include <chrono>
#include <filesystem>
#include <string>
#include <thread>
#include <vector>

#include <unistd.h>

#include <caf/actor_registry.hpp>
#include <caf/event_based_actor.hpp>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "actors/cluster/cluster_actor.hpp"
#include "actors/messages/dialect.hpp"
#include "actors/system.hpp"
#include "actors/version.hpp"
#include "tests/actors/scheduler_of_two.hpp"

namespace troupe::actors {
namespace {

class ClusterProbe : public testing::Test {
protected:
  testing_config config;
  caf::actor_system system{config};
  scheduler_of_two& schedule = dynamic_cast<scheduler_of_two&>(system.scheduler());
  cluster_control cluster = system.spawn<cluster_impl>(cluster_setup{.name = "lab", .nodes = {{"a"}, {"b"}, {"c"}}, .own = {}});
  std::vector<caf::actor> nodes;

  void TearDown() override {
    for (const auto& node : nodes)
      caf::anon_send_exit(node, caf::exit_reason::kill);
    caf::anon_send_exit(cluster, caf::exit_reason::kill);
    schedule.run_all();
  }

  /// A node that answers to two messages alone, with the folder that it is asked for, and hears who leads; without a reading it
  /// lets whoever asks for its clock wait.
  caf::actor join(const std::string& name, const node_probe& says, std::optional<std::int64_t> ahead_ns) {
    auto unanswered =
        std::make_shared<std::vector<caf::typed_response_promise<clock_reading>>>(); // one that is forgotten is an answer
    auto node = system.spawn([=](caf::event_based_actor* me) {
      return caf::behavior{
          [=](wall_clock_query) -> caf::result<clock_reading> {
            if (!ahead_ns)
              return unanswered->emplace_back(me->make_response_promise<clock_reading>());
            return clock_reading{wall_clock_ns() + *ahead_ns};
          },
          [=](const probe_query& asked) {
            auto out = says;
            out.checkpoints.path = asked.checkpoints;
            return out;
          },
          [](const led_by&) {},
      };
    });
    nodes.push_back(node);
    caf::anon_send(cluster, node_hello{name, message_dialect(), 7}, caf::actor_cast<node_actor>(node));
    schedule.run_all();
    return node;
  }

  /// The coordinator's own node looks around on a thread of its own.
  cluster_probe probe(const probe_query& what = {}) {
    std::optional<cluster_probe> answer;
    auto asker = system.spawn([&](caf::event_based_actor* me) {
      me->request(cluster, caf::infinite, what).then([&](const cluster_probe& all) { answer = all; });
    });
    schedule.run_all();
    schedule.advance_time(std::chrono::seconds{3}); // beyond the time for reading a clock, not that for reading data
    while (!answer)
      schedule.run_all() == 0 ? std::this_thread::yield() : void();
    return *answer;
  }
};

TEST_F(ClusterProbe, EveryNodeOfTheFileIsThereInItsOrder) {
  const node_probe says{.version = "9.9",
                        .lane_version = 4,
                        .pid = 7,
                        .devices = {{.name = "cpu", .free_bytes = 5}},
                        .files = {{.path = "x", .bytes = 3}}};
  join("b", says, 5'000'000'000);
  const auto all = probe();
  ASSERT_EQ(all.nodes.size(), 3U);
  EXPECT_EQ(all.nodes[0].node, "a");
  EXPECT_EQ(all.nodes[0].version, version);
  EXPECT_FALSE(all.nodes[0].devices.empty());
  const auto& b = all.nodes[1];
  EXPECT_LE(std::abs(b.clock_ahead_s - 5), b.round_trip_s / 2 + 1e-6);
  node_probe expected = says;
  expected.node = "b", expected.host = "127.0.0.1", expected.here = true;
  expected.round_trip_s = b.round_trip_s, expected.clock_ahead_s = b.clock_ahead_s;
  EXPECT_EQ(b, expected);
  EXPECT_EQ(all.nodes[2], (node_probe{.node = "c", .host = "127.0.0.1", .silent = "has not joined"}));
}

TEST_F(ClusterProbe, ASilentNodeKeepsNobodyWaiting) {
  join("b", {.version = "1"}, std::nullopt);
  join("c", {.version = "2"}, 0);
  const auto all = probe();
  EXPECT_TRUE(all.nodes[1].here);
  EXPECT_EQ(all.nodes[1].silent, "no answer in time");
  EXPECT_EQ(all.nodes[2].silent, "");
  EXPECT_EQ(all.nodes[2].version, "2");
}

TEST_F(ClusterProbe, WhatBecameOfANodeIsKnown) {
  const auto node = join("b", {}, 0);
  caf::anon_send_exit(node, caf::exit_reason::kill);
  schedule.run_all();
  const auto all = probe();
  EXPECT_FALSE(all.nodes[1].here);
  EXPECT_THAT(all.nodes[1].silent, testing::StartsWith("is gone: "));
}

TEST_F(ClusterProbe, AFolderForCheckpointsIsAskedOfThoseWhoMayWriteThere) {
  caf::anon_send_exit(cluster, caf::exit_reason::kill);
  cluster = system.spawn<cluster_impl>(cluster_setup{.name = "lab",
                                                     .nodes = {{.name = "a"},
                                                               {.name = "b", .shard = false},
                                                               {.name = "c", .shard = false, .worker = false},
                                                               {.name = "d", .worker = false}},
                                                     .own = {}});
  schedule.run_all();
  for (const char* name : {"b", "c", "d"})
    join(name, {}, 0);
  const std::string folder = testing::TempDir() + "troupe-cluster-probe-" + std::to_string(::getpid());
  const auto asked = [&](bool workers_write) {
    std::vector<std::string> out;
    for (const auto& each : probe({.checkpoints = folder, .workers_write = workers_write}).nodes)
      if (!each.checkpoints.path.empty())
        out.push_back(each.node);
    return out;
  };
  EXPECT_THAT(asked(false), testing::ElementsAre("a", "d"));
  EXPECT_THAT(asked(true), testing::ElementsAre("a", "b", "d"));
  std::filesystem::remove_all(folder);
}

TEST_F(ClusterProbe, WhoLooksForACoordinatorWithoutAJobIsGoneAfterwards) {
  caf::anon_send_exit(cluster, caf::exit_reason::kill);
  cluster = system.spawn<cluster_impl>(
      cluster_setup{.name = "lab", .nodes = {{"a"}}, .own = {.metrics = std::make_shared<metrics_registry>()}});
  schedule.run_all();
  const auto before = system.registry().running();
  probe();
  for (const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds{60};
       system.registry().running() > before && std::chrono::steady_clock::now() < deadline;)
    schedule.run_all() == 0 ? std::this_thread::yield() : void();
  EXPECT_EQ(system.registry().running(), before) << "its timer keeps it, and the process from ending";
}

} // namespace
} // namespace troupe::actors
