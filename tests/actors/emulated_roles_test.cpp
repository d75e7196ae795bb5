// SPDX-License-Identifier: BSD-3-Clause
// Emulated steps and links: the roles of a run take the time that the simulator says, on a clock that a test moves.
#include <algorithm>
#include <cmath>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "protocols/sim/null_numerics.hpp"
#include "protocols/sim/simulate.hpp"
#include "tests/actors/role_cluster.hpp"

namespace troupe::actors {
namespace {

using protocols::nanoseconds;

constexpr nanoseconds ms = 1'000'000;

/// Steps of 20 ms. 1 Gbit/s is scaled by the model, which takes 5 ms then, as a model of 625,000 bytes would.
arrangement over_a_link(const std::string& protocol, std::uint32_t workers, bool slow, std::uint32_t fan_in = 0,
                        std::uint32_t shards = 1) {
  arrangement out{.protocol = protocol, .workers = workers, .shards = shards, .fan_in = fan_in};
  out.inject.step_ms = 20;
  out.inject.link = slow ? protocols::link_spec{.mbit = 40.96} : protocols::link_spec{.latency_ms = 30};
  return out;
}

nanoseconds simulated(const arrangement& setup, const role_cluster& like) {
  protocols::sim::options job;
  job.protocol = {.name = setup.protocol, .fan_in = setup.fan_in, .parameters = setup.parameters};
  job.blocks = setup.blocks;
  job.job.workers = setup.workers;
  job.job.shards = setup.shards;
  job.job.batch = role_cluster::batch;
  job.job.data_size = like.data_size();
  job.job.stop.steps = setup.versions;
  job.job.evaluate_every_samples = 1'000'000;
  job.inject = setup.inject;
  job.model_bytes = like.model_bytes();
  protocols::sim::null_numerics nothing;
  return protocols::sim::simulate(job, nothing).virtual_time;
}

/// Links round what is left of a message up to a nanosecond.
void expect_the_simulators_time(const arrangement& setup) {
  SCOPED_TRACE(fmt::format("{} with {} workers, fan-in {}, {} shards, {} ms, {} Mbit/s", setup.protocol, setup.workers,
                           setup.fan_in, setup.shards, setup.inject.link.latency_ms, setup.inject.link.mbit));
  role_cluster run{setup, 1};
  const nanoseconds took = run.train_on_the_clock();
  EXPECT_NEAR(static_cast<double>(took), static_cast<double>(simulated(setup, run)), 1e-4 * static_cast<double>(took));
}

TEST(EmulatedRoles, TakeTheSimulatorsTime) {
  for (const bool slow : {false, true}) {
    expect_the_simulators_time(over_a_link("sync", 2, slow));
    expect_the_simulators_time(over_a_link("easgd", 2, slow));
    expect_the_simulators_time(over_a_link("gossip", 4, slow));
    expect_the_simulators_time(over_a_link("sync", 4, slow, 2));
    expect_the_simulators_time(over_a_link("sync", 8, slow, 2));
  }
  expect_the_simulators_time(over_a_link("sync", 4, false, 0, 2));
  expect_the_simulators_time(over_a_link("sync", 4, false, 2, 2));
}

TEST(EmulatedRoles, WorkersOfANodeShareItsLink) {
  for (const bool slow : {false, true}) {
    arrangement setup = over_a_link("sync", 4, slow, protocols::fan_in_of_nodes);
    setup.blocks = {2, 2};
    expect_the_simulators_time(setup);
    setup.blocks = {3, 1};
    expect_the_simulators_time(setup);
  }
}

// Steps of 20 ms, the second of which has 12 of 32 samples; the push, its arrival, the close, the sum and the parameters take 30
// ms each.
TEST(EmulatedRoles, ATreeTakesALatencyForEachOfItsMessages) {
  arrangement setup = over_a_link("sync", 4, false, 2);
  setup.versions = 3;
  EXPECT_EQ((role_cluster{setup, 1}.train_on_the_clock()), (20 + 20 * 12 / 32 + 20 + 3 * 5 * 30) * ms + ms / 2);
}

TEST(EmulatedRoles, EvaluationsTakeNoTimeWhateverIsOnItsWay) {
  for (const bool slow : {false, true})
    for (const std::uint32_t fan_in : {0U, 2U})
      for (const std::uint32_t shards : {1U, 2U}) {
        arrangement setup = over_a_link("sync", 8, slow, fan_in, shards);
        setup.versions = 4;
        SCOPED_TRACE(fmt::format("fan-in {}, {} shards, {}", fan_in, shards, slow ? "slow" : "far"));
        const nanoseconds alone = role_cluster{setup, 1}.train_on_the_clock();
        setup.versions = 1;
        role_cluster run{setup, 1};
        nanoseconds often = run.train_on_the_clock();
        for (std::uint64_t version = 2; version <= 4; ++version) {
          run.evaluate();
          EXPECT_TRUE(std::ranges::none_of(run.what_arrived(), [](float p) { return std::isnan(p); })) << "the evaluator waits";
          run.go_on(version);
          often += run.until_held();
        }
        // What of the other shard's sums is under way when a hold begins is handed over at once, for the evaluator waits for it.
        EXPECT_NEAR(static_cast<double>(often), static_cast<double>(alone),
                    (shards == 1 ? 1e-4 : 1e-3) * static_cast<double>(alone));
      }
}

TEST(EmulatedRoles, GossipIsEvaluatedBetweenSteps) {
  arrangement setup = over_a_link("gossip", 2, false);
  setup.versions = 1;
  setup.inject.stragglers = {{.worker = protocols::worker_id{1}, .factor = 1000}};
  role_cluster run{setup, 1};
  run.train_on_the_clock();
  run.evaluate();
  const std::vector<float> first = run.what_arrived();
  const auto& replicas = run.replicas();
  ASSERT_EQ(replicas.size(), 2U);
  const auto of = [&](std::uint32_t worker) { return replicas.at(worker).second.span<const float>(); };
  EXPECT_TRUE(std::ranges::equal(of(1), first)) << "its step has hardly begun";
  EXPECT_FALSE(std::ranges::equal(of(0), first));
  EXPECT_EQ(replicas.at(0).first.made, (protocols::step_count{2, 16})) << "the lead has not heard of the second yet";
  EXPECT_EQ(replicas.at(1).first.made, protocols::step_count{});
}

} // namespace
} // namespace troupe::actors
