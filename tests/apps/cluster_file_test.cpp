// SPDX-License-Identifier: BSD-3-Clause
// Cluster files: what is read from a good one, and every message about a broken one.
#include "apps/config/cluster_file.hpp"

#include <ctime>
#include <filesystem>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "apps/certs/authority.hpp"
#include "tests/apps/corpus.hpp"

namespace troupe::config {
namespace {

using testing::temporary_file;

TEST(ClusterFile, TheOneThatComesWithTheProgramIsAccepted) {
  const auto loaded = load_cluster(TROUPE_SOURCE_DIR "/config/cluster.toml");
  ASSERT_TRUE(loaded) << loaded.error().text();
  EXPECT_EQ(loaded->nodes.size(), 4U);
  EXPECT_EQ(loaded->coordinator().name, "a");
}

TEST(ClusterFile, EveryBrokenFileIsRefusedWithTheMessagesItExpects) {
  for (const auto& file : testing::read_corpus("bad_clusters")) {
    const auto loaded = load_cluster(file.path);
    ASSERT_FALSE(loaded) << file.name << " was accepted";
    EXPECT_EQ(testing::without_path(loaded.error(), file.path), file.expected) << file.name;
  }
}

/// A node with an address beyond loopback, whose [security] names these files.
std::string secured(const std::string& ca, const std::string& certificate, const std::string& key) {
  return fmt::format("[security]\nca = \"{}\"\ncertificate = \"{}\"\nkey = \"{}\"\n[[node]]\nname = \"a\"\n"
                     "host = \"10.0.0.1\"\nport = 7070\n",
                     ca, certificate, key);
}

/// An authority's folder with certificates for a and b.
struct lab {
  lab() {
    const std::time_t now = std::time(nullptr);
    apps::make_authority({folder, "lab"}, now).value();
    for (const char* node : {"a", "b"})
      apps::issue_certificate({folder, node, {}, ""}, now).value();
  }
  std::string operator/(const std::string& name) const { return folder + "/" + name; }
  const temporary_file name{""}; // where a folder of this test alone may stand
  const std::string folder = name.path() + ".lab";
  ~lab() { std::filesystem::remove_all(folder); }
};

TEST(ClusterFile, FilesThatFitEachOtherAreAccepted) {
  const lab files;
  const temporary_file file(secured(files / "ca.pem", files / "a.pem", files / "a.key"));
  const auto loaded = load_cluster(file.path());
  ASSERT_TRUE(loaded) << loaded.error().text();
  EXPECT_EQ(loaded->security.key, files / "a.key");
}

TEST(ClusterFile, AConsolesCertificateIsRefusedWhereANodesIsWanted) {
  const lab files;
  apps::issue_certificate({files.folder, "c", {}, "", 365, actors::net::certified_role::console}, std::time(nullptr)).value();
  const std::string text =
      "[security]\nca = \"{0}/ca.pem\"\ncertificate = \"{0}/{1}.pem\"\nkey = \"{0}/{1}.key\"\n[[node]]\nname = "
      "\"{2}\"\nhost = \"10.0.0.1\"\nport = 7070\n";
  const auto expected =
      fmt::format("3:15: {} is a console's certificate: with it node \"c\" may look and give orders, not join; issue "
                  "one with `troupe certs issue FOLDER --node c`, without --role console",
                  files / "c.pem");
  const temporary_file node(fmt::format(fmt::runtime(text), files.folder, "{name}", "c"));
  const auto refused = load_cluster(node.path(), "c");
  ASSERT_FALSE(refused);
  EXPECT_EQ(testing::without_path(refused.error(), node.path()), std::vector{expected});
  // By `check`, too, whose own certificate is a console's and may be one; the node's is beside it.
  apps::issue_certificate({files.folder, "client", {}, "", 365, actors::net::certified_role::console}, std::time(nullptr))
      .value();
  const auto seen = load_cluster(node.path());
  ASSERT_FALSE(seen);
  EXPECT_EQ(testing::without_path(seen.error(), node.path()), std::vector{expected});
  const temporary_file good(fmt::format(fmt::runtime(text), files.folder, "{name}", "a"));
  EXPECT_TRUE(load_cluster(good.path()));
}

TEST(ClusterFile, OneFileServesEveryNodeWithCertificatesNamedForThem) {
  const lab files;
  const temporary_file file(secured(files / "ca.pem", files / "{name}.pem", files / "{name}.key"));
  for (const std::string node : {"a", "b"}) {
    const auto loaded = load_cluster(file.path(), node);
    ASSERT_TRUE(loaded) << loaded.error().text();
    EXPECT_EQ(loaded->security.certificate, files / (node + ".pem"));
    EXPECT_EQ(loaded->security.key, files / (node + ".key"));
  }
  const temporary_file folders("name = \"lab\"\n[security]\nca = \"for-{name}/ca.pem\"\ncertificate = \"for-{name}/{name}.pem\"\n"
                               "key = \"for-{name}/{name}.key\"\n[[node]]\nname = \"a\"\nhost = \"127.0.0.1\"\nport = 7000\n");
  const auto folder_each = load_cluster(folders.path(), "a");
  ASSERT_FALSE(folder_each);
  EXPECT_NE(folder_each.error().text().find("for-a/a.pem cannot be read"), std::string::npos) << "however often it stands there";
  const auto client = load_cluster(file.path());
  ASSERT_FALSE(client);
  EXPECT_EQ(client.error().all.front().message,
            (files / "client.pem") + " cannot be read: No such file or directory; `troupe certs` makes such files");
}

TEST(ClusterFile, FilesThatMakeNoConnectionAreNamedAtTheirKeys) {
  const lab files, others;
  const temporary_file file(secured(others / "ca.pem", files / "a.pem", files / "b.key"));
  const auto loaded = load_cluster(file.path());
  ASSERT_FALSE(loaded);
  EXPECT_EQ(
      testing::without_path(loaded.error(), file.path()),
      (std::vector<std::string>{
          fmt::format("3:15: {} is not signed by {} (\"lab\"): unable to get local issuer certificate; issue it with `troupe "
                      "certs issue`",
                      files / "a.pem", others / "ca.pem"),
          fmt::format("4:7: {} is not the key of {}; name the one that was issued with it", files / "b.key", files / "a.pem")}));
}

TEST(ClusterFile, EveryKeyIsRead) {
  const lab files;
  const temporary_file file(fmt::format(R"(
name = "lab"
[security]
ca = "{0}/ca.pem"
certificate = "{0}/a.pem"
key = "{0}/a.key"
[lanes]
window_kib = 64
shared_memory = false
congestion = "bbr"
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
)",
                                        files.folder));
  const auto loaded = load_cluster(file.path());
  ASSERT_TRUE(loaded) << loaded.error().text();
  EXPECT_EQ(loaded->name, "lab");
  EXPECT_TRUE(loaded->security.tls());
  EXPECT_FALSE(loaded->security.loopback_only());
  EXPECT_EQ(loaded->security.key, files / "a.key");
  EXPECT_EQ(loaded->lanes.window_kib, 64);
  EXPECT_FALSE(loaded->lanes.shared_memory);
  EXPECT_EQ(loaded->lanes.congestion, "bbr") << "a client's host need not have it";
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

TEST(ClusterFile, ACongestionControlThatANodesHostLacksIsRefusedThere) {
  const temporary_file file(R"(
[lanes]
congestion = "nowhere"
[[node]]
name = "a"
host = "127.0.0.1"
port = 7070
)");
  EXPECT_TRUE(load_cluster(file.path())) << "of a client";
  const auto refused = load_cluster(file.path(), "a");
  ASSERT_FALSE(refused);
  EXPECT_NE(
      refused.error().text().find("3:14: lanes.congestion = \"nowhere\" is not available on the host of node a, which has "),
      std::string::npos)
      << refused.error().text();
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
