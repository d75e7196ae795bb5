// SPDX-License-Identifier: BSD-3-Clause
// What is wrong with a cluster before a job, from what its nodes say.
#include "apps/cluster_check.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace troupe::apps {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

/// Three nodes that agree.
class ClusterCheck : public testing::Test {
protected:
  actors::job job;
  config::cluster file;
  std::vector<role_memory> roles;
  actors::cluster_probe probe{.name = "lab", .nodes = {}};

  ClusterCheck() {
    job.cluster.nodes = 3;
    for (const auto* name : {"a", "b", "c"}) {
      file.nodes.push_back({.name = name, .host = "10.0.0.1", .coordinator = file.nodes.empty(), .shard = true, .worker = true});
      probe.nodes.push_back({.node = name,
                             .host = "10.0.0.1",
                             .here = true,
                             .version = "1.0",
                             .lane_version = 1,
                             .devices = {{.name = "cpu", .free_bytes = 8'000'000'000}},
                             .files = {{.path = "x.csv", .bytes = 3, .sha256 = "0123456789"}}});
    }
  }

  std::vector<std::string> wrong() { return mismatches(probe, {job, file, roles}); }
};

TEST_F(ClusterCheck, NothingIsWrongWithNodesThatAgree) {
  EXPECT_THAT(wrong(), IsEmpty());
}

TEST_F(ClusterCheck, VersionsThatDifferAreNamed) {
  probe.nodes[1].version = "0.9";
  probe.nodes[2].lane_version = 2;
  EXPECT_THAT(wrong(),
              ElementsAre("node b: runs Troupe 0.9, node a 1.0; install the same on both",
                          "node c: speaks version 2 of the lanes' protocol, node a version 1; install the same Troupe on both"));
}

TEST_F(ClusterCheck, ANodeIsMissedOnlyWhereTheJobNeedsIt) {
  probe.nodes[2] = {.node = "c", .silent = "has not joined"};
  EXPECT_THAT(wrong(), ElementsAre(HasSubstr("node c: it has not joined; the job needs 3 nodes and 2 are here")));
  job.cluster.nodes = 2;
  EXPECT_THAT(wrong(), IsEmpty());
}

TEST_F(ClusterCheck, ASilentNodeIsNamedAndComparedWithNobody) {
  probe.nodes[0] = {.node = "a", .here = true, .silent = "no answer in time"};
  EXPECT_THAT(wrong(), ElementsAre(HasSubstr("node a: does not answer (no answer in time)")));
}

TEST_F(ClusterCheck, FilesAreComparedWithTheFirstThatHasThem) {
  probe.nodes[0].files[0] = {.path = "x.csv", .wrong = "No such file or directory"};
  probe.nodes[2].files[0].sha256 = "1123456789";
  EXPECT_THAT(
      wrong(),
      ElementsAre("node a: x.csv: No such file or directory; every node reads the data from the same path",
                  HasSubstr("node c: x.csv differs from node b's (3 bytes, SHA-256 11234567..., there 3 bytes, 01234567...)")));
}

TEST_F(ClusterCheck, AClockCountsAsWrongBeyondWhatTheRoundTripLeavesOpen) {
  probe.nodes[1].clock_ahead_s = -1.4;
  probe.nodes[1].round_trip_s = 1;
  EXPECT_THAT(wrong(), IsEmpty());
  probe.nodes[1].round_trip_s = 0.1;
  EXPECT_THAT(wrong(), ElementsAre(HasSubstr("node b: its clock is 1.4 s behind the coordinator's")));
}

TEST_F(ClusterCheck, DevicesAreThoseOfTheJobAndOfTheFile) {
  job.compute.device = "cuda";
  probe.nodes[1].devices.push_back({.name = "cuda:0", .usable = false, .reason = "no driver"});
  probe.nodes[2].devices.push_back({.name = "cuda:0", .usable = false, .reason = "busy"});
  probe.nodes[2].devices.push_back({.name = "cuda:1"});
  file.nodes[0].worker = false;
  file.nodes[2].devices = {"cuda:1", "cuda:2"};
  EXPECT_THAT(
      wrong(),
      ElementsAre(HasSubstr("node b: compute.device = \"cuda\" cannot be used there: no driver"),
                  HasSubstr("node c: its device \"cuda:2\" of the cluster file cannot be used there: there is no such device")));
}

TEST_F(ClusterCheck, ANodeIsAskedForWhatItListsAndNoJobsDeviceElse) {
  job.compute.device = "cuda:0";
  file.nodes[0].worker = false;
  file.nodes[1].devices = {"cpu"};
  file.nodes[2].devices = {"cuda:0"};
  probe.nodes[2].devices.push_back({.name = "cuda:0"});
  EXPECT_THAT(wrong(), IsEmpty()) << "b is not asked for a GPU";
  file.nodes[2].devices = {"cuda:1"};
  EXPECT_THAT(
      wrong(),
      ElementsAre("no node of this cluster may hold workers on cuda:0",
                  HasSubstr("node c: its device \"cuda:1\" of the cluster file cannot be used there: there is no such device")));
}

TEST_F(ClusterCheck, MoreNodesThanTheFileHasAreMissed) {
  job.cluster.nodes = 4;
  EXPECT_THAT(wrong(), ElementsAre("the job wants 4 nodes and the cluster has 3"));
}

TEST_F(ClusterCheck, AWorkerThatDoesNotFitIsNamed) {
  roles = {{.role = "worker", .items = {{"activations", 6e9}, {"batches", 3e9, false}}}};
  probe.nodes[0].devices[0].free_bytes = 16'000'000'000;
  probe.nodes[1].devices[0].free_bytes = 0; // nobody knows
  EXPECT_THAT(wrong(), ElementsAre("node c: its host has 8.0 GB free and a worker takes 9.0 GB; "
                                   "a smaller data.batch or data.micro_batch takes less"));
}

/// Two nodes for workers beside the coordinator's: each holds a worker of 2 GB, the first a shard of 1 GB and the evaluator, 1
/// GB; each process takes 1 GB.
class ClusterShortages : public ClusterCheck {
protected:
  ClusterShortages() {
    job.cluster = {.nodes = 3, .workers = 2, .shards = 1};
    roles = {{.role = "worker", .count = 2, .items = {{"activations", 2e9}}},
             {.role = "shard", .items = {{"parameters", 1e9}}},
             {.role = "evaluator", .items = {{"activations", 1e9}}},
             {.role = "node", .count = 3, .items = {{"program", 1e9}}}};
    for (int i = 0; i < 3; ++i) {
      file.nodes[i].host = "10.0.0." + std::to_string(i);
      probe.nodes[i].devices[0].memory_bytes = 16'000'000'000;
    }
  }
  void frees(std::size_t node, std::uint64_t bytes) { probe.nodes[node].devices[0].free_bytes = bytes; }
  std::vector<std::string> lacks() { return shortages(probe, {job, file, roles}); }
};

TEST_F(ClusterShortages, WhatTheCoordinatorsHostCannotHoldIsNamed) {
  frees(0, 3'000'000'000);
  EXPECT_THAT(lacks(), IsEmpty());
  frees(0, 2'900'000'000);
  EXPECT_THAT(lacks(), ElementsAre("node a: its host has 2.9 GB free and the job takes about 3.0 GB there"));
}

TEST_F(ClusterShortages, NodesOfTheCoordinatorsHostTakeItsMemory) {
  for (auto& node : file.nodes)
    node.host = "10.0.0.0";
  EXPECT_THAT(lacks(), ElementsAre("node a: its host has 8.0 GB free and the job takes about 9.0 GB there"));
}

TEST_F(ClusterShortages, ANodeThatDoesNotFitMattersWhereTheJobNeedsIt) {
  frees(2, 2'000'000'000);
  EXPECT_THAT(lacks(), ElementsAre("node c: its host has 2.0 GB free and the job takes about 3.0 GB there"));
  probe.nodes[2].job = 7;
  EXPECT_THAT(lacks(), IsEmpty()) << "what job 7 has will be free";
  probe.nodes[2] = {.node = "c", .silent = "has not joined"};
  EXPECT_THAT(lacks(), IsEmpty()) << "nobody knows";
  job.cluster = {.nodes = 2, .workers = 1, .shards = 1};
  frees(1, 2'000'000'000);
  EXPECT_THAT(lacks(), IsEmpty()) << "c will do";
}

TEST_F(ClusterShortages, ADeviceThatTooFewHaveIsNamed) {
  job.compute.device = roles[0].device = "cuda:7";
  roles[0].items[0].bytes = 0;
  EXPECT_THAT(lacks(), ElementsAre("node b: cuda:7 cannot be used there: there is no such device",
                                   "node c: cuda:7 cannot be used there: there is no such device"));
  for (auto node : {1, 2})
    probe.nodes[node].devices.push_back({.name = "cuda:7", .free_bytes = 3'000'000'000});
  EXPECT_THAT(lacks(), IsEmpty());
  roles[0].items[0].bytes = 4e9;
  EXPECT_THAT(lacks(), ElementsAre("node b: its cuda:7 has 3.0 GB free and the job takes about 4.0 GB there",
                                   "node c: its cuda:7 has 3.0 GB free and the job takes about 4.0 GB there"));
}

TEST_F(ClusterShortages, WorkersOfANodeTakeTheMemoryOfEachDeviceThatItLists) {
  job.compute.device = roles[0].device = "cuda";
  roles[0].items[0].bytes = 2e9;
  job.cluster = {.nodes = 2, .workers = 4, .shards = 1};
  file.nodes[1].devices = {"cpu"};
  file.nodes[2].devices = {"cuda:1", "cuda:2"};
  for (const auto* name : {"cuda:0", "cuda:1", "cuda:2"})
    probe.nodes[2].devices.push_back({.name = name, .free_bytes = 4'000'000'000});
  EXPECT_THAT(lacks(), IsEmpty()) << "two on each";
  probe.nodes[2].devices[3].free_bytes = 3'000'000'000;
  EXPECT_THAT(lacks(), ElementsAre("node c: its cuda:2 has 3.0 GB free and the job takes about 4.0 GB there"));
}

TEST_F(ClusterCheck, APortThatIsTakenIsNamed) {
  probe.nodes[1].lane_port_wrong = "cannot listen for lanes on h:1: Address already in use";
  EXPECT_THAT(wrong(), ElementsAre(HasSubstr(
                           "node b: cannot listen for lanes on h:1: Address already in use; give it another lane_port")));
}

TEST_F(ClusterCheck, JsonHasAllThatTheNodesSaid) {
  probe.nodes[2] = {.node = "c", .host = "10.0.0.1", .silent = "has not joined"};
  const auto all = nodes_json(probe, file);
  ASSERT_EQ(all.size(), 3U);
  EXPECT_EQ(boost::json::serialize(all[2]),
            R"({"name":"c","host":"10.0.0.1","state":"absent","reason":"has not joined","port":0})");
  EXPECT_EQ(all[0].at("data").at(0).at("sha256"), "0123456789");
  EXPECT_EQ(all[0].at("devices").at(0).at("free_bytes"), 8'000'000'000);
}

} // namespace
} // namespace troupe::apps
