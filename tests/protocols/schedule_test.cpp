// SPDX-License-Identifier: BSD-3-Clause
// Whole jobs under random schedules and faults: whatever the order of delivery, the checkers of cluster.hpp find nothing.
#include <cstdlib>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gtest/gtest.h>

#include "tests/protocols/cluster.hpp"

namespace troupe::protocols {
namespace {

/// TROUPE_TEST_SEED=S runs the one schedule S again.
std::vector<std::uint64_t> seeds(std::uint64_t many) {
  if (const char* given = std::getenv("TROUPE_TEST_SEED"))
    return {std::strtoull(given, nullptr, 10)};
  std::vector<std::uint64_t> out;
  for (std::uint64_t seed = 1; seed <= many; ++seed)
    out.push_back(seed);
  return out;
}

/// A job whose shape the seed chooses: 1..7 workers, 1..3 shards, 12 steps, and an evaluation every so often.
cluster_options job_of(std::uint64_t seed) {
  dice shape{seed * 7919};
  cluster_options out{.seed = seed};
  out.job.workers = 1 + static_cast<std::uint32_t>(shape.below(7));
  out.job.shards = 1 + static_cast<std::uint32_t>(shape.below(3));
  out.job.batch = 1 + static_cast<std::int64_t>(shape.below(5));
  out.job.data_size = 1 + static_cast<std::int64_t>(shape.below(60));
  out.job.evaluate_every_samples = 1 + shape.below(40);
  out.job.stop_steps = 12;
  return out;
}

/// Runs the job and fails on whatever a checker found.
void expect_sound(cluster& job, std::uint64_t seed) {
  job.start();
  job.run();
  EXPECT_EQ(job.kept(), 0u) << "pushes are neither used nor dropped; TROUPE_TEST_SEED=" << seed;
  EXPECT_EQ(job.open(), 0u) << "the lead remembers pushes for ever; TROUPE_TEST_SEED=" << seed;
  EXPECT_EQ(job.tensors(), 0u) << "tensors leak; TROUPE_TEST_SEED=" << seed;
  ASSERT_TRUE(job.broken().empty()) << fmt::format("{}", fmt::join(job.broken(), "\n")) << "\nTROUPE_TEST_SEED=" << seed
                                    << " repeats it; the end of its trace:\n"
                                    << fmt::format("{}", fmt::join(job.trace().end()
                                                                       - std::min<std::ptrdiff_t>(40, std::ssize(job.trace())),
                                                                   job.trace().end(), "\n"));
}

/// Every shard made the same versions from the same pushes.
void expect_shards_agree(const cluster& job) {
  for (const auto& shard : job.applied())
    EXPECT_EQ(shard, job.applied().front());
}

/// The samples of each version follow those of the version before, without a gap or an overlap.
void expect_every_sample_once(const cluster& job) {
  std::uint64_t position = 0;
  for (const auto& made : job.applied().front())
    for (const auto& [id, weight] : made) {
      EXPECT_EQ(job.slice_of(id).first, position);
      position = job.slice_of(id).second;
    }
}

TEST(Schedules, UndisturbedJobUsesEverySampleOnce) {
  for (const std::uint64_t seed : seeds(150)) {
    cluster job{job_of(seed)};
    expect_sound(job, seed);
    EXPECT_FALSE(job.end().failed);
    EXPECT_EQ(job.made().value, 12u);
    expect_shards_agree(job);
    expect_every_sample_once(job);
    if (HasFailure())
      return;
  }
}

TEST(Schedules, JoinsAndDuplicatesLoseNoSample) {
  for (const std::uint64_t seed : seeds(150)) {
    cluster_options options = job_of(seed);
    options.duplicate = 0.1;
    options.latecomers = 3;
    cluster job{options};
    expect_sound(job, seed);
    EXPECT_EQ(job.made().value, 12u);
    expect_shards_agree(job);
    expect_every_sample_once(job);
    if (HasFailure())
      return;
  }
}

TEST(Schedules, DeathsAndComebacksKeepShardsInStep) {
  std::uint64_t failed = 0;
  for (const std::uint64_t seed : seeds(400)) {
    cluster_options options = job_of(seed);
    options.duplicate = 0.05;
    options.wild = 0.05;
    options.deaths = 6;
    options.comebacks = 4;
    options.latecomers = 1;
    cluster job{options};
    expect_sound(job, seed);
    failed += job.end().failed ? 1 : 0;
    expect_shards_agree(job);
    if (HasFailure())
      return;
  }
  if (!std::getenv("TROUPE_TEST_SEED")) {
    EXPECT_TRUE(failed > 0 && failed < 300) << failed << ": jobs should die sometimes and mostly live";
  }
}

TEST(Schedules, TreeOfAggregatorsAppliesTheSamePushes) {
  for (const std::uint64_t seed : seeds(200)) {
    cluster_options options = job_of(seed);
    options.job.workers += 3;
    options.job.protocol.fan_in = 2 + static_cast<std::uint32_t>(seed % 2);
    options.duplicate = 0.05;
    options.deaths = seed % 3 == 0 ? 0 : 3;
    options.comebacks = 2;
    cluster job{options};
    expect_sound(job, seed);
    expect_shards_agree(job);
    if (seed % 3 == 0)
      expect_every_sample_once(job);
    if (HasFailure())
      return;
  }
}

TEST(Schedules, DeathOfAnAggregatorStopsNobodyElse) {
  for (const std::uint64_t seed : seeds(200)) {
    cluster_options options = job_of(seed);
    options.job.workers += 4;
    options.job.protocol.fan_in = 2;
    options.aggregator_deaths = 1 + static_cast<std::uint32_t>(seed % 2);
    options.deaths = 2;
    options.comebacks = 2;
    cluster job{options};
    expect_sound(job, seed);
    for (const auto& shard : job.applied())
      EXPECT_EQ(shard.size(), job.applied().front().size());
    if (HasFailure())
      return;
  }
}

} // namespace
} // namespace troupe::protocols
