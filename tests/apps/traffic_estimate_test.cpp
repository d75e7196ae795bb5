// SPDX-License-Identifier: BSD-3-Clause
// Bytes of a round by formula, worked out by hand; heads of frames are a few hundred bytes.
#include "apps/traffic_estimate.hpp"

#include <cmath>

#include <gtest/gtest.h>

#include "actors/node/place_roles.hpp"

namespace troupe::apps {
namespace {

constexpr std::int64_t floats = 1'600'000;
constexpr double model = 4.0 * floats, heads = 0.002 * model;

actors::job job_of(actors::cluster_spec cluster, const std::string& protocol = "sync", std::uint32_t fan_in = 0) {
  actors::job out;
  out.cluster = cluster;
  out.protocol.name = protocol;
  out.protocol.fan_in = fan_in;
  return out;
}
traffic_estimate estimate(const actors::job& job) {
  return estimate_traffic(job, floats, {});
}

TEST(TrafficEstimate, OneProcessSendsNothing) {
  EXPECT_EQ(estimate(job_of({.nodes = 1, .workers = 8})).round.all(), 0);
}

/// Eight workers of one node: eight pushes go to the shard's, one set of parameters comes back; 9 of 16.
TEST(TrafficEstimate, ParametersGoToANodeOnceAndPushesOfEachWorker) {
  const auto found = estimate(job_of({.nodes = 2, .workers = 8}));
  EXPECT_NEAR(found.round.push, 8 * model, 8 * heads);
  EXPECT_NEAR(found.round.params, model, heads);
  ASSERT_EQ(found.nodes.size(), 2U);
  EXPECT_EQ(found.nodes[0].node, "node-0");
  EXPECT_EQ(found.nodes[0].sends, found.round.params);
  EXPECT_EQ(found.nodes[0].receives, found.round.push);
  EXPECT_EQ(found.nodes[1].sends, found.round.push);
  EXPECT_EQ(found.evaluation, 0) << "the evaluator is beside the shard";
}

/// Pushes alone are encoded; sums of aggregators and parameters are not.
TEST(TrafficEstimate, APushHasTheBytesOfItsForm) {
  auto job = job_of({.nodes = 2, .workers = 8});
  for (const auto& [form, bytes] :
       {std::pair{"fp16", 2.0}, {"int8", 1 + 4.0 / 256}, {"int4", 0.5 + 4.0 / 256}, {"onebit", 0.125 + 8.0 / 512}}) {
    job.codec.push = form;
    const auto found = estimate(job).round;
    EXPECT_NEAR(found.push, 8 * floats * bytes, 8 * heads) << form;
    EXPECT_NEAR(found.params, model, heads);
  }
  job.protocol.fan_in = protocols::fan_in_of_nodes;
  EXPECT_NEAR(estimate(job).round.push, model, heads);
}

/// A thousandth of each push, in 16 bits and a place; of what has changed, that of all eight, in 32.
TEST(TrafficEstimate, OfSomeElementsThereAreTheirBytesAndPlaces) {
  auto job = job_of({.nodes = 2, .workers = 8});
  job.codec.push = "dgc";
  job.codec.params = "changed";
  job.codec.warmup_steps = 15;
  const auto found = estimate(job);
  const auto bytes = [](double share, double element) { return floats * share * (element + std::log2(1 / share) + 1.5) / 8; };
  constexpr double few = 7 * 220; // heads of seven partitions
  EXPECT_NEAR(found.round.push, 8 * bytes(0.001, 16), 8 * few);
  EXPECT_NEAR(found.round.params, bytes(0.008, 32), few);
  EXPECT_NEAR(found.start, model - found.round.params, few);
  job.protocol.fan_in = protocols::fan_in_of_nodes;
  EXPECT_NEAR(estimate(job).round.push, bytes(0.008, 32), few) << "the node's sum is sparse, too";
  job.codec.push = "topk";
  EXPECT_NEAR(estimate(job).round.params, bytes(0.008, 32), few);
  job.optimizer.momentum = 0.9;
  EXPECT_NEAR(estimate(job).round.params, model, heads) << "whatever was touched moves on";
  job.codec.push = "threshold";
  EXPECT_LE(estimate(job).round.push, model + heads) << "at most all of them";
}

TEST(TrafficEstimate, ParametersHaveTheBytesOfTheirFormButForTheFirst) {
  auto job = job_of({.nodes = 2, .workers = 8});
  for (const auto& [form, bytes] : {std::pair{"fp16", 2.0}, {"int8", 1 + 4.0 / 256}, {"onebit", 0.125 + 8.0 / 512}}) {
    job.codec.params = form;
    const auto found = estimate(job);
    EXPECT_NEAR(found.round.params, floats * bytes, heads) << form;
    EXPECT_NEAR(found.start, model - floats * bytes, heads) << form;
    EXPECT_NEAR(found.round.push, 8 * model, 8 * heads);
  }
}

TEST(TrafficEstimate, WithAnAggregatorOnEachNodeASumGoesUpInstead) {
  const auto job = job_of({.nodes = 2, .workers = 8}, "sync", protocols::fan_in_of_nodes);
  EXPECT_NEAR(estimate(job).round.all(), 2 * model, 2 * heads);
  const auto lighter = lighten(job_of({.nodes = 2, .workers = 8}), floats, {});
  ASSERT_TRUE(lighter);
  EXPECT_EQ(lighter->key, "protocol.fan_in");
  EXPECT_EQ(lighter->value, "node");
  EXPECT_EQ(lighter->round, estimate(job).round.all());
  EXPECT_FALSE(lighten(job, floats, {})) << "it has that already";
  EXPECT_FALSE(lighten(job_of({.nodes = 3, .workers = 2}), floats, {})) << "each node has one worker";
}

TEST(TrafficEstimate, WorkersThatMayComeLaterSendNothingYet) {
  const auto without = estimate(job_of({.nodes = 2, .workers = 4, .shards = 2, .where = actors::placement::colocated}));
  const auto with =
      estimate(job_of({.nodes = 2, .workers = 4, .max_workers = 9, .shards = 2, .where = actors::placement::colocated}));
  EXPECT_EQ(with.round.all(), without.round.all());
}

TEST(TrafficEstimate, WherePushesAreAnsweredAloneSoAreTheirWorkers) {
  const auto found = estimate(job_of({.nodes = 2, .workers = 8}, "async"));
  EXPECT_NEAR(found.round.params, 8 * model, 8 * heads);
  EXPECT_FALSE(lighten(job_of({.nodes = 2, .workers = 8}, "async"), floats, {})) << "it takes no fan_in";
}

/// Two nodes with a shard and two workers each: half of each push, and of the parameters, is for the other node.
TEST(TrafficEstimate, ShardsOnTheWorkersNodesTakeTheirOwnForNothing) {
  const auto found = estimate(job_of({.nodes = 2, .workers = 4, .shards = 2, .where = actors::placement::colocated}));
  EXPECT_NEAR(found.round.push, 4 * model / 2, 4 * heads);
  EXPECT_NEAR(found.round.params, 2 * model / 2, 4 * heads);
  EXPECT_EQ(found.nodes[0].sends, found.nodes[1].sends);
  EXPECT_NEAR(found.evaluation, model / 2, heads) << "of the shard that is not beside the evaluator";
}

/// Aggregators 1, 2 (on nodes 1 and 2) below the shard; those of workers 0, 1 and 2, 3.
TEST(TrafficEstimate, ATreesSumsGoFromNodeToNode) {
  EXPECT_NEAR(estimate(job_of({.nodes = 3, .workers = 4}, "sync", 2)).round.push, 2 * model, 4 * heads);
}

TEST(TrafficEstimate, ABackupIsSentTheSumOfItsShard) {
  const auto found = estimate(job_of({.nodes = 3, .workers = 2, .replicas = 2}));
  EXPECT_NEAR(found.round.push, 3 * model, 4 * heads);
}

/// Three of four workers' peers are on other nodes.
TEST(TrafficEstimate, GossipSendsReplicasToOtherNodes) {
  const auto found = estimate(job_of({.nodes = 4, .workers = 4, .where = actors::placement::colocated}, "gossip"));
  EXPECT_NEAR(found.round.peers, 4 * model, 8 * heads);
  EXPECT_EQ(found.round.push + found.round.params, 0);
  EXPECT_NEAR(found.start, 3 * model, 4 * heads);
  EXPECT_NEAR(found.evaluation, 3 * model, 4 * heads);
}

/// The shard's node takes in eight pushes of 6.4 MB: 51.2 ms each at 1 Gbit/s.
TEST(BoundRound, IsTheLongerOfComputingAndOfTheBusiestLink) {
  auto job = job_of({.nodes = 2, .workers = 8});
  job.inject.link.mbit = 1000;
  const auto found = bound_round(job, estimate(job), 20, {});
  ASSERT_TRUE(found);
  EXPECT_EQ(found->computing_ms, 20);
  EXPECT_NEAR(found->link_ms, 8 * 51.2, 1);
  EXPECT_EQ(found->at_best_ms(), found->link_ms);
  EXPECT_EQ(bound_round(job, estimate(job), 500, {})->at_best_ms(), 500);
}

TEST(BoundRound, CountsAllThatAWorkerComputesForAPush) {
  auto job = job_of({.nodes = 2, .workers = 4}, "local");
  job.protocol.parameters = {{"steps", std::int64_t{5}}};
  job.inject.link.mbit = 1000;
  EXPECT_EQ(bound_round(job, estimate(job), 20, {})->computing_ms, 100);
  job.protocol = {.name = "coded", .parameters = {{"stragglers", std::int64_t{1}}}};
  EXPECT_EQ(bound_round(job, estimate(job), 20, {})->computing_ms, 40);
}

TEST(BoundRound, IsUnknownWithoutALinkOrAStep) {
  auto job = job_of({.nodes = 2, .workers = 8});
  EXPECT_FALSE(bound_round(job, estimate(job), 20, {}));
  job.inject.link.mbit = 1000;
  EXPECT_FALSE(bound_round(job, estimate(job), 0, {}));
  job.cluster.nodes = 1;
  EXPECT_FALSE(bound_round(job, estimate(job), 20, {}));
}

} // namespace
} // namespace troupe::apps
