// SPDX-License-Identifier: BSD-3-Clause
// Allreduce: whole jobs in virtual time, beside sync's and local's.
#include <cstdint>
#include <map>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "protocols/sim/quadratic.hpp"
#include "protocols/sim/simulate.hpp"

namespace troupe::protocols {
namespace {

using kind = peer_message::kind;

sim::options job_of(const std::string& protocol, std::uint32_t workers, const std::string& algorithm = {}) {
  constexpr nanoseconds ms = 1'000'000;
  sim::options job;
  job.protocol.name = protocol;
  if (!algorithm.empty())
    job.protocol.parameters["algorithm"] = algorithm;
  job.job.workers = workers;
  job.job.batch = 3;
  job.job.data_size = 100;
  job.job.evaluate_every_samples = 1'000'000;
  job.job.stop.steps = 20;
  job.inject.step_ms = 10;
  job.inject.link.latency_ms = 1;
  job.inject.stragglers.push_back({.distribution = straggler_spec::law::jitter, .spread = 0.5});
  job.model_bytes = 16 * 720'720; // of which 2 to 16 segments are equal
  job.stall_after = 10'000 * ms;
  return job;
}

/// What is evaluated at the end, and what each worker has sent to others.
struct seen final : sim::listener {
  void heard(nanoseconds, sim::endpoint from, sim::endpoint to, const sim::message& msg) override {
    if (const auto* part = std::get_if<sim::params_envelope>(&msg); part != nullptr && to.kind == sim::endpoint::role::evaluator)
      last = part->range;
    const auto* replica = std::get_if<sim::peer_envelope>(&msg);
    if (replica == nullptr)
      return;
    if (to.kind == sim::endpoint::role::evaluator)
      last = replica->data;
    else if (replica->head.is == kind::chunk)
      sent[{from.index, to.index}] +=
          std::uint64_t{16 * 720'720} / replica->head.part.of * (replica->head.part.last - replica->head.part.first);
  }
  /// From a host of so many workers to another.
  std::map<std::pair<std::uint32_t, std::uint32_t>, std::uint64_t> between(std::uint32_t workers_each) const {
    std::map<std::pair<std::uint32_t, std::uint32_t>, std::uint64_t> out;
    for (const auto& [way, bytes] : sent)
      if (const std::pair hosts{way.first / workers_each, way.second / workers_each}; hosts.first != hosts.second)
        out[hosts] += bytes;
    return out;
  }
  sim::tensor last;
  std::map<std::pair<std::uint32_t, std::uint32_t>, std::uint64_t> sent; ///< of sums, from a worker to another
};

/// And how long that took.
std::pair<std::vector<double>, nanoseconds> trained_for(const sim::options& job, seen& what, double noise = 0.5) {
  sim::quadratic maths{{.curvature = std::vector<double>(40, 0.5),
                        .minimum = std::vector<double>(40, 1.0),
                        .noise = noise,
                        .data_size = 100,
                        .lr = 0.1,
                        .momentum = 0.9}};
  sim::listener* const listeners[] = {&what};
  const sim::result out = simulate(job, maths, listeners);
  EXPECT_FALSE(out.failed) << out.reason;
  EXPECT_EQ(out.steps, 20U);
  const auto found = sim::elements_of(what.last);
  return {{found.begin(), found.end()}, out.virtual_time};
}

std::vector<double> trained(const sim::options& job, seen& what, double noise = 0.5) {
  return trained_for(job, what, noise).first;
}

TEST(AllreduceJobs, DirectMakesTheBitsOfSync) {
  for (const std::uint32_t workers : {1U, 2U, 3U, 7U}) {
    seen sync, direct;
    EXPECT_EQ(trained(job_of("sync", workers), sync), trained(job_of("allreduce", workers, "direct"), direct)) << workers;
  }
}

TEST(AllreduceJobs, DirectMakesTheBitsOfLocal) {
  for (const std::uint32_t workers : {1U, 2U, 3U, 7U})
    for (const std::string rule : {"average", "momentum", "nesterov"}) {
      seen centre, direct, ring;
      auto local = job_of("local", workers), own = job_of("allreduce", workers, "direct");
      for (sim::options* each : {&local, &own}) {
        each->protocol.parameters["steps"] = std::int64_t{3};
        each->protocol.parameters["outer"] = rule;
      }
      const auto expected = trained(local, centre);
      EXPECT_EQ(expected, trained(own, direct)) << workers << ", " << rule;
      own.protocol.parameters["algorithm"] = std::string{"ring"};
      const auto near = trained(own, ring);
      for (std::size_t i = 0; i < near.size(); ++i)
        ASSERT_NEAR(near[i], expected[i], 1e-9) << workers << ", " << rule;
    }
}

/// Between hosts travels what as many workers as there are hosts would send; the rest of it stays within them.
TEST(AllreduceJobs, WorkersOfAHostSendWhatOneWould) {
  for (const std::string name : {"auto", "direct", "ring", "halving", "tree", "broadcast"}) {
    seen sync, grouped, few;
    auto job = job_of("allreduce", 12, name);
    job.blocks = {4, 4, 4};
    const auto expected = trained(job_of("sync", 12), sync), found = trained(job, grouped);
    for (std::size_t i = 0; i < found.size(); ++i)
      ASSERT_NEAR(found[i], expected[i], 1e-9) << name;
    trained(job_of("allreduce", 3, name), few);
    EXPECT_EQ(grouped.between(4), few.between(1)) << name;
    job.blocks.clear();
    job.protocol.parameters["group"] = std::int64_t{4};
    EXPECT_EQ(trained(job, grouped), found) << name << ": the same groups, by their workers' numbers";
  }
}

/// What Streaming DiLoCo makes of 40 numbers, by its formulas: where there is no noise, all workers are at the same point w. The
/// worker's optimizer is SGD with momentum 0.9, the outer one is Nesterov's.
std::vector<double> streamed(int steps, int fragments, int overlap, double merge, int versions) {
  const int apart = steps / fragments;
  const std::size_t size = 40;
  std::vector<double> w(size), x(size), velocity(size), outer(size), moved(size);
  for (int step = 1, made = 0; made < versions; ++step) {
    for (std::size_t k = 0; k < size; ++k) {
      velocity[k] = 0.9 * velocity[k] + 0.5 * (w[k] - 1);
      w[k] -= 0.1 * velocity[k];
    }
    if (step % apart == 0)
      for (std::size_t k = 0; k < size; ++k)
        moved[k] = x[k] - w[k];
    if (step < apart || (step - overlap) % apart != 0)
      continue;
    const auto fragment = static_cast<std::size_t>(++made % fragments), parts = static_cast<std::size_t>(fragments);
    for (std::size_t k = size * fragment / parts; k < size * (fragment + 1) / parts; ++k) {
      outer[k] = 0.8 * outer[k] + moved[k];
      x[k] -= 0.5 * (moved[k] + 0.8 * outer[k]);
      w[k] = overlap > 0 ? merge * w[k] + (1 - merge) * x[k] : x[k];
    }
  }
  return x;
}

TEST(AllreduceJobs, FragmentsAndLateSumsAreThoseOfStreamingDiloco) {
  for (const auto& [steps, fragments, overlap, merge] :
       {std::tuple{4, 1, 0, 0.5}, {4, 4, 0, 0.5}, {4, 1, 3, 0.5}, {6, 3, 1, 0.25}, {12, 3, 2, 0.0}, {20, 4, 2, 0.5}})
    for (const std::string name : {"direct", "ring", "tree"})
      for (const std::uint32_t workers : {1U, 3U}) {
        auto job = job_of("allreduce", workers, name);
        job.job.data_size = 90; // every batch is whole
        job.protocol.parameters["steps"] = std::int64_t{steps};
        job.protocol.parameters["fragments"] = std::int64_t{fragments};
        job.protocol.parameters["overlap_steps"] = std::int64_t{overlap};
        job.protocol.parameters["merge"] = merge;
        job.protocol.parameters["outer"] = std::string{"nesterov"};
        job.protocol.parameters["outer_lr"] = 0.5;
        job.protocol.parameters["outer_momentum"] = 0.8;
        seen what;
        const auto found = trained(job, what, 0), expected = streamed(steps, fragments, overlap, merge, 20);
        ASSERT_EQ(found.size(), expected.size());
        for (std::size_t k = 0; k < found.size(); ++k)
          ASSERT_NEAR(found[k], expected[k], 1e-9)
              << name << ", " << steps << " steps, " << fragments << " fragments, " << overlap;
      }
}

TEST(AllreduceJobs, AVersionOfAFragmentSendsThatFragment) {
  seen whole, parts;
  auto job = job_of("allreduce", 4, "ring");
  job.protocol.parameters["steps"] = std::int64_t{4};
  trained(job, whole);
  job.protocol.parameters["fragments"] = std::int64_t{4};
  trained(job, parts);
  for (const auto& [way, bytes] : whole.sent)
    EXPECT_EQ(bytes, 4 * parts.sent[way]);
}

/// Steps of 10 ms and a sum that takes about 30 ms: only the first way stands still for it.
TEST(AllreduceJobs, WhatComesLateIsNotWaitedFor) {
  const auto duration = [](std::int64_t overlap) {
    auto job = job_of("allreduce", 2, "direct");
    job.inject.stragglers.clear();
    job.inject.link.latency_ms = 15;
    job.protocol.parameters["steps"] = std::int64_t{6};
    job.protocol.parameters["overlap_steps"] = overlap;
    seen what;
    return trained_for(job, what).second;
  };
  const nanoseconds plain = duration(0), late = duration(4);
  EXPECT_LT(late, (20 * 6 + 4) * 10'000'000 + 60'000'000)
      << "20 rounds of 6 steps, the last version 4 later; to begin and to end";
  EXPECT_GT(plain, 20 * (6 * 10'000'000 + 29'000'000));
}

TEST(AllreduceJobs, AnyAlgorithmMakesTheSameStepsAndSendsWhatItsFormulaSays) {
  const std::uint64_t s = 16 * 720'720, rounds = 20;
  for (std::uint32_t p = 2; p <= 16; ++p) {
    seen sync;
    const auto expected = trained(job_of("sync", p), sync);
    for (const std::string name : {"auto", "direct", "ring", "halving", "tree", "broadcast"}) {
      seen first, again;
      const auto found = trained(job_of("allreduce", p, name), first);
      EXPECT_EQ(found, trained(job_of("allreduce", p, name), again)) << name;
      for (std::size_t i = 0; i < found.size(); ++i)
        ASSERT_NEAR(found[i], expected[i], 1e-9) << name << " of " << p;
      std::uint64_t total = 0;
      std::map<std::uint32_t, std::uint64_t> by_rank;
      for (const auto& [way, bytes] : first.sent)
        by_rank[way.first] += bytes;
      for (const auto& [rank, bytes] : by_rank) {
        total += bytes;
        if (name == "direct" || name == "ring") {
          EXPECT_EQ(bytes, rounds * 2 * (p - 1) * s / p) << name << " of " << p << ", rank " << rank;
        }
        EXPECT_LE(bytes, rounds * (name == "broadcast" ? p - 1 : 2) * s) << name << " of " << p << ", rank " << rank;
      }
      EXPECT_EQ(total, rounds * (name == "broadcast" ? p : 2) * (p - 1) * s) << name << " of " << p;
    }
  }
}

} // namespace
} // namespace troupe::protocols
