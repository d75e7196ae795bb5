// SPDX-License-Identifier: BSD-3-Clause
// Permutations and cuts: every sample once an epoch, whatever the number of workers.
#include "tensor/data/partition.hpp"

#include <algorithm>
#include <array>
#include <numeric>

#include <gtest/gtest.h>

#include "tensor/data/random_stream.hpp"

namespace troupe {
namespace {

std::vector<std::uint32_t> sorted(std::vector<std::uint32_t> values) {
  std::ranges::sort(values);
  return values;
}

std::vector<std::uint32_t> up_to(std::int64_t size) {
  std::vector<std::uint32_t> values(static_cast<std::size_t>(size));
  std::iota(values.begin(), values.end(), 0U);
  return values;
}

TEST(Partition, PermutationHoldsEverySampleOnce) {
  for (std::int64_t size : {0, 1, 2, 3, 10, 1000, 60000})
    EXPECT_EQ(sorted(epoch_permutation(1, 0, size)), up_to(size)) << size;
}

TEST(Partition, PermutationDependsOnSeedAndEpochAlone) {
  auto order = epoch_permutation(1, 0, 1000);
  EXPECT_EQ(order, epoch_permutation(1, 0, 1000));
  EXPECT_NE(order, epoch_permutation(1, 1, 1000));
  EXPECT_NE(order, epoch_permutation(2, 0, 1000));
  EXPECT_NE(order, epoch_permutation(std::uint64_t{1} << 32 | 1, 0, 1000));
  EXPECT_NE(order, epoch_permutation(1, std::uint64_t{1} << 32, 1000));
}

// Worked out apart from this code; another order would be another run of every job.
TEST(Partition, PermutationIsTheSameOnEveryMachine) {
  EXPECT_EQ(epoch_permutation(1, 2, 10), (std::vector<std::uint32_t>{1, 8, 9, 4, 0, 6, 7, 2, 3, 5}));
}

// 24,000 permutations of four: each of the 24 about 1,000 times, within five standard deviations (31 each).
TEST(Partition, PermutationsAreEquallyLikely) {
  std::vector<int> count(256);
  for (std::uint64_t epoch = 0; epoch < 24000; ++epoch) {
    auto order = epoch_permutation(7, epoch, 4);
    ++count[order[0] << 6 | order[1] << 4 | order[2] << 2 | order[3]];
  }
  EXPECT_EQ(std::ranges::count_if(count, [](int n) { return n > 0; }), 24);
  for (auto n : count) {
    if (n > 0) {
      EXPECT_NEAR(n, 1000, 155);
    }
  }
}

// Scaling a word to 3 * 2^30 without rejection would draw a multiple of three half the time: words 4k to 4k + 3 go to 3k, 3k,
// 3k + 1 and 3k + 2.
TEST(Partition, BoundedDrawsAreUnbiased) {
  constexpr std::uint32_t bound = 3U << 30;
  random_stream draws{{.seed = 5}};
  std::array<int, 3> thirds{};
  for (int i = 0; i < 30000; ++i) {
    auto value = draws.below(bound);
    ASSERT_LT(value, bound);
    ++thirds[value % 3];
  }
  for (auto n : thirds)
    EXPECT_NEAR(n, 10000, 410); // five standard deviations
}

TEST(Partition, BoundOfOneAlwaysDrawsZero) {
  random_stream draws{{.seed = 5}};
  for (int i = 0; i < 100; ++i)
    EXPECT_EQ(draws.below(1), 0U);
}

TEST(Partition, GlobalBatchesFollowEachOther) {
  EXPECT_EQ(global_batch(0, 4, 10), (slice{0, 0, 4}));
  EXPECT_EQ(global_batch(4, 4, 10), (slice{0, 4, 8}));
  EXPECT_EQ(global_batch(8, 4, 10), (slice{0, 8, 10})); // short, closes the epoch
  EXPECT_EQ(global_batch(10, 4, 10), (slice{1, 0, 4}));
  EXPECT_EQ(global_batch(25, 40, 10), (slice{2, 5, 10}));
}

TEST(Partition, GlobalBatchSurvivesPositionsBeyond32Bits) {
  EXPECT_EQ(global_batch((std::uint64_t{1} << 63) + 3, 4, std::int64_t{1} << 32), (slice{std::uint64_t{1} << 31, 3, 7}));
}

TEST(Partition, CutsOfTenInThree) {
  slice batch{2, 30, 40};
  EXPECT_EQ(cut(batch, 3, 0), (slice{2, 30, 34}));
  EXPECT_EQ(cut(batch, 3, 1), (slice{2, 34, 37}));
  EXPECT_EQ(cut(batch, 3, 2), (slice{2, 37, 40}));
}

TEST(Partition, CutsOfTwoInFourAreEmptyAtTheEnd) {
  slice batch{0, 8, 10};
  EXPECT_EQ(cut(batch, 4, 0), (slice{0, 8, 9}));
  EXPECT_EQ(cut(batch, 4, 1), (slice{0, 9, 10}));
  EXPECT_EQ(cut(batch, 4, 2), (slice{0, 10, 10}));
  EXPECT_EQ(cut(batch, 4, 3), (slice{0, 10, 10}));
}

TEST(Partition, EverySampleComesOnceAnEpochWhateverTheWorkers) {
  constexpr std::int64_t batch_per_worker = 7;
  for (std::int64_t size : {1, 6, 7, 8, 100, 1003})
    for (int workers = 1; workers <= 9; ++workers) {
      auto order = epoch_permutation(3, 0, size);
      std::vector<std::uint32_t> seen;
      std::int64_t steps = 0;
      for (std::uint64_t position = 0; position < static_cast<std::uint64_t>(size); ++steps) {
        auto batch = global_batch(position, batch_per_worker * workers, size);
        std::int64_t least = batch.size(), most = 0;
        for (int worker = 0; worker < workers; ++worker) {
          auto part = cut(batch, workers, worker);
          least = std::min(least, part.size());
          most = std::max(most, part.size());
          seen.insert(seen.end(), order.begin() + part.begin, order.begin() + part.end);
        }
        EXPECT_LE(most - least, 1);
        EXPECT_LE(most, batch_per_worker);
        position += static_cast<std::uint64_t>(batch.size());
      }
      EXPECT_EQ(seen, order) << size << " samples, " << workers << " workers"; // also: workers together take the one global order
      EXPECT_EQ(steps, (size + batch_per_worker * workers - 1) / (batch_per_worker * workers));
    }
}

} // namespace
} // namespace troupe
