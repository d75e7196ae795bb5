// SPDX-License-Identifier: BSD-3-Clause
// What a job's roles take, counted by hand, and what is said where a device has less. memory_test.py compares with real runs.
#include "apps/memory_estimate.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/protocols/added_protocol.hpp"

namespace troupe::apps {
namespace {

using testing::HasSubstr;

constexpr memory_facts facts{.parameters = 100, .activations = 1000, .evaluation = 10, .sample = 3, .data = 7, .step = {}};

actors::job small_job(const std::string& device = "cpu") {
  actors::job job;
  job.data.batch = 8;
  job.compute.device = device;
  job.cluster.workers = 2;
  return job;
}

double bytes_of(const std::vector<role_memory>& roles, const std::string& role, const std::string& name) {
  for (const role_memory& r : roles)
    for (const memory_item& i : r.items)
      if (r.role == role && i.name == name)
        return i.bytes;
  return 0;
}

TEST(MemoryEstimate, AWorkerKeepsActivationsGradientsParametersAndTwoBatches) {
  auto job = small_job();
  job.cluster.nodes = 3;
  const auto worker = estimate_memory(job, facts).front();
  EXPECT_EQ(worker.role, "worker");
  EXPECT_EQ(worker.count, 2U);
  EXPECT_EQ(worker.device_bytes(), 1000 + 100 + 2 * 100 + 2 * 8 * 3);
  EXPECT_EQ(worker.host_bytes(), 0);
}

TEST(MemoryEstimate, OneProcessSharesItsParameters) {
  EXPECT_EQ(bytes_of(estimate_memory(small_job(), facts), "worker", "parameters"), 0);
  EXPECT_EQ(bytes_of(estimate_memory(small_job(), facts), "shard", "pushes of workers"), 0);
}

TEST(MemoryEstimate, OptimizerStateLivesWhereTheStepIsTaken) {
  auto job = small_job();
  job.optimizer.name = "adamw";
  EXPECT_EQ(bytes_of(estimate_memory(job, facts), "shard", "optimizer"), 200);
  job.protocol.name = "local";
  EXPECT_EQ(bytes_of(estimate_memory(job, facts), "shard", "optimizer"), 0);
  EXPECT_EQ(bytes_of(estimate_memory(job, facts), "worker", "optimizer"), 200);
  EXPECT_EQ(bytes_of(estimate_memory(job, facts), "worker", "replica"), 100);
}

TEST(MemoryEstimate, ACheckpointIsCopiedBeforeItIsWritten) {
  auto job = small_job();
  job.optimizer.name = "adamw";
  job.cluster.shards = 2;
  EXPECT_EQ(bytes_of(estimate_memory(job, facts), "shard", "copies for a checkpoint"), 0);
  job.checkpoint.dir = "/kept";
  EXPECT_EQ(bytes_of(estimate_memory(job, facts), "shard", "copies for a checkpoint"), 50 + 2 * 50);
  job.protocol.name = "local";
  EXPECT_EQ(bytes_of(estimate_memory(job, facts), "shard", "copies for a checkpoint"), 50) << "workers have the optimizer";
  job.protocol.name = "gossip";
  EXPECT_EQ(bytes_of(estimate_memory(job, facts), "shard", "copies for a checkpoint"), 0);
}

TEST(MemoryEstimate, ARateOfAMatrixIsMeasuredOnItsGradient) {
  memory_facts rated = facts;
  rated.matrix = 60;
  EXPECT_EQ(bytes_of(estimate_memory(small_job(), rated), "shard", "gradient of a matrix"), 60);
  EXPECT_EQ(bytes_of(estimate_memory(small_job(), facts), "shard", "gradient of a matrix"), 0);
}

/// 100 bytes are 25 floats: in int8 25 bytes and one scale, padded to 8; a shard decodes each push to a block of its own.
TEST(MemoryEstimate, WhatCodesLoseIsKept) {
  auto job = small_job();
  job.codec = {"int8", false};
  EXPECT_EQ(bytes_of(estimate_memory(job, facts), "worker", "codes of a push"), 32);
  EXPECT_EQ(bytes_of(estimate_memory(job, facts), "worker", "what codes lost"), 0);
  EXPECT_EQ(bytes_of(estimate_memory(job, facts), "shard", "pushes of workers"), 2 * 100);
  job.codec.error_feedback = true;
  EXPECT_EQ(bytes_of(estimate_memory(job, facts), "worker", "what codes lost"), 2 * 100);
}

TEST(MemoryEstimate, DelayCompensationRetainsAVersionAWorker) {
  auto job = small_job();
  job.protocol.name = "dc-async";
  job.cluster.shards = 2;
  EXPECT_EQ(bytes_of(estimate_memory(job, facts), "shard", "versions that workers compute with"), 2 * 50);
}

TEST(MemoryEstimate, RoundedOperandsLieBesideTheirOriginals) {
  auto job = small_job("cuda:0");
  EXPECT_EQ(bytes_of(estimate_memory(job, facts), "worker", "operands in bfloat16"), 0);
  job.compute.precision = "bf16";
  EXPECT_EQ(bytes_of(estimate_memory(job, facts), "worker", "operands in bfloat16"), 2 * 100 / 2 + 1000 / 2);
}

TEST(MemoryEstimate, AutoTakesWhatItsHungriestCandidateDoes) {
  auto job = small_job();
  job.protocol.name = "auto";
  EXPECT_EQ(bytes_of(estimate_memory(job, facts), "worker", "replica"), 0);
  job.protocol.parameters["candidates"] = std::vector<std::string>{"sync", "local"};
  EXPECT_EQ(bytes_of(estimate_memory(job, facts), "worker", "replica"), 100);
}

TEST(MemoryEstimate, AnAddedProtocolTakesWhatItSays) {
  const std::vector<protocols::protocol> added{protocols::paced_protocol()};
  auto job = small_job();
  job.optimizer.name = "adamw";
  job.protocol.name = "paced";
  EXPECT_EQ(bytes_of(estimate_memory(job, facts, added), "worker", "replica"), 100);
  EXPECT_EQ(bytes_of(estimate_memory(job, facts, added), "worker", "optimizer"), 200);
  job.protocol = {.name = "auto", .parameters = {{"candidates", std::vector<std::string>{"sync", "paced"}}}};
  EXPECT_EQ(bytes_of(estimate_memory(job, facts, added), "worker", "replica"), 100);
}

TEST(MemoryEstimate, RolesThatShareADeviceAreAddedUp) {
  const std::vector<role_memory> roles{{"worker", 3, "cuda:0", {{"activations", 1000}, {"batches", 10, false}}},
                                       {"shard", 1, "cuda:0", {{"parameters", 200}}},
                                       {"node", 1, "cpu", {{"program", 30}}}};
  const auto needs = compare_with_devices(roles, {{.name = "cpu", .free_bytes = 60}, {.name = "cuda:0", .free_bytes = 3199}});
  ASSERT_EQ(needs.size(), 2U);
  EXPECT_EQ(needs[0].bytes, 3 * 10 + 30);
  EXPECT_TRUE(needs[0].fits());
  EXPECT_EQ(needs[1].device, "cuda:0");
  EXPECT_EQ(needs[1].bytes, 3200);
  EXPECT_FALSE(needs[1].fits());
}

TEST(MemoryEstimate, CudaWithoutANumberIsTheFirstThatWorks) {
  const std::vector<role_memory> roles{{"worker", 1, "cuda", {{"activations", 5}}}};
  const auto needs = compare_with_devices(
      roles, {{.name = "cpu"}, {.name = "cuda:0", .usable = false}, {.name = "cuda:1", .usable = true, .free_bytes = 4}});
  EXPECT_EQ(needs.back().device, "cuda:1");
  EXPECT_FALSE(needs.back().fits());
}

TEST(MemoryEstimate, AShortageNamesTheSizesAndWhatWouldHelp) {
  const std::vector<role_memory> roles{{"worker", 2, "cuda:0", {{"activations", 3e9}, {"parameters", 1e9}}},
                                       {"node", 1, "cpu", {{"program", 3e7}}}};
  const auto text = shortage_text({"cuda:0", 8e9, 5e9}, roles);
  EXPECT_THAT(text, HasSubstr("cuda:0 has 5.0 GB free and the job needs about 8.0 GB"));
  EXPECT_THAT(text, HasSubstr("2 workers of 4.0 GB each (activations 3.0 GB, parameters 1.0 GB)"));
  EXPECT_THAT(text, HasSubstr("a smaller data.batch"));
  EXPECT_THAT(text, HasSubstr("fewer workers a device"));
  EXPECT_THAT(text, HasSubstr("bf16"));
  EXPECT_THAT(text, testing::Not(HasSubstr("program")));
}

TEST(MemoryEstimate, ABatchThatIsNotTheTroubleIsNotBlamed) {
  const std::vector<role_memory> roles{{"worker", 1, "cpu", {{"activations", 1e6}, {"parameters", 5e9}}}};
  EXPECT_THAT(shortage_text({"cpu", 5.1e9, 4e9}, roles), testing::Not(HasSubstr("data.batch")));
}

} // namespace
} // namespace troupe::apps
