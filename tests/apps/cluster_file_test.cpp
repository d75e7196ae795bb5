// SPDX-License-Identifier: BSD-3-Clause
// Cluster files: what is read from a good one, and every message about a broken one.
#include "apps/config/cluster_file.hpp"

#include <gtest/gtest.h>

#include "tests/apps/corpus.hpp"

namespace troupe::config {
namespace {

using testing::temporary_file;

TEST(ClusterFile, EveryBrokenFileIsRefusedWithTheMessagesItExpects) {
  for (const auto& file : testing::read_corpus("bad_clusters")) {
    const auto loaded = load_cluster(file.path);
    ASSERT_FALSE(loaded) << file.name << " was accepted";
    EXPECT_EQ(testing::without_path(loaded.error(), file.path), file.expected) << file.name;
  }
}

TEST(ClusterFile, EveryKeyIsRead) {
  const temporary_file file(R"(
name = "lab"
[security]
ca = "ca.pem"
certificate = "node.pem"
key = "node.key"
[[node]]
name = "a"
host = "10.0.0.1"
port = 7070
lane_port = 7071
roles = ["coordinator", "shard"]
[[node]]
name = "b"
host = "10.0.0.2"
port = 7070
roles = ["worker"]
devices = ["cuda:0", "cuda:1"]
)");
  const auto loaded = load_cluster(file.path());
  ASSERT_TRUE(loaded) << loaded.error().text();
  EXPECT_EQ(loaded->name, "lab");
  EXPECT_TRUE(loaded->security.tls());
  EXPECT_FALSE(loaded->security.loopback_only());
  EXPECT_EQ(loaded->security.key, "node.key");
  ASSERT_EQ(loaded->nodes.size(), 2U);
  const cluster_node& a = *loaded->find("a");
  EXPECT_EQ(a.host, "10.0.0.1");
  EXPECT_EQ(a.port, 7070);
  EXPECT_EQ(a.lane_port, 7071);
  EXPECT_TRUE(a.coordinator && a.shard && !a.worker);
  const cluster_node& b = *loaded->find("b");
  EXPECT_TRUE(!b.coordinator && !b.shard && b.worker);
  EXPECT_EQ(b.devices, (std::vector<std::string>{"cuda:0", "cuda:1"}));
  EXPECT_EQ(loaded->find("c"), nullptr);
}

TEST(ClusterFile, WithoutRolesTheFirstNodeCoordinatesAndEveryNodeHoldsBoth) {
  const temporary_file file(R"(
[[node]]
name = "a"
host = "127.0.0.1"
port = 7070
[[node]]
name = "b"
host = "localhost"
port = 7071
)");
  const auto loaded = load_cluster(file.path());
  ASSERT_TRUE(loaded) << loaded.error().text();
  EXPECT_TRUE(loaded->security.loopback_only());
  EXPECT_TRUE(loaded->nodes[0].coordinator && loaded->nodes[0].shard && loaded->nodes[0].worker);
  EXPECT_TRUE(!loaded->nodes[1].coordinator && loaded->nodes[1].shard && loaded->nodes[1].worker);
}

TEST(ClusterFile, InsecureHostsNeedTheWord) {
  const temporary_file file("[security]\ninsecure = true\n[[node]]\nname = \"a\"\nhost = \"10.0.0.1\"\nport = 7070\n");
  const auto loaded = load_cluster(file.path());
  ASSERT_TRUE(loaded) << loaded.error().text();
  EXPECT_FALSE(loaded->security.loopback_only());
}

} // namespace
} // namespace troupe::config
