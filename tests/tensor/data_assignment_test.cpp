// SPDX-License-Identifier: BSD-3-Clause
// Every sample goes to one worker, skewed as asked; the rows of each step come from its own list.
#include "tensor/data/sample_assignment.hpp"

#include <algorithm>
#include <map>
#include <numeric>

#include <gtest/gtest.h>

#include "tests/tensor/counting_set.hpp"

namespace troupe {
namespace {

using indices = std::vector<std::uint32_t>;
using testing::counting_set;

sample_assignment own(int worker, int workers, double sorted_fraction = 0) {
  return {.by_worker = true, .worker = worker, .workers = workers, .sorted_fraction = sorted_fraction};
}

indices sorted(indices values) {
  std::ranges::sort(values);
  return values;
}

// Worked out apart from this code; another assignment would be another run of every such job.
TEST(SampleAssignment, IsTheSameOnEveryMachine) {
  const counting_set ten{10};
  // The deck is 6 2 9 4 7 5 0 8 1 3.
  EXPECT_EQ(own_samples(own(0, 3), 1, ten), (indices{6, 2, 9, 4}));
  EXPECT_EQ(own_samples(own(1, 3), 1, ten), (indices{7, 5, 0}));
  EXPECT_EQ(own_samples(own(2, 3), 1, ten), (indices{8, 1, 3}));
  // Half of it, with labels 6 2 2 4 0, sorted: 7 2 | 9 4 | 6. The rest: 5 0 | 8 | 1 3.
  EXPECT_EQ(own_samples(own(0, 3, 0.5), 1, ten), (indices{7, 2, 5, 0}));
  EXPECT_EQ(own_samples(own(1, 3, 0.5), 1, ten), (indices{9, 4, 8}));
  EXPECT_EQ(own_samples(own(2, 3, 0.5), 1, ten), (indices{6, 1, 3}));
  EXPECT_EQ(own_samples(own(0, 3, 0.46), 1, ten), (indices{7, 2, 5, 0})) << "4.6 samples are 5";
  EXPECT_EQ(own_order({7, 2, 5, 0}, 0, 1, 5), (indices{2, 7, 5, 0}));
  EXPECT_EQ(own_order({9, 4, 8}, 1, 1, 5), (indices{8, 4, 9}));
  EXPECT_EQ(own_order({6, 1, 3}, 2, 1, 5), (indices{3, 6, 1}));
}

// Labels 0 0 1 1 2 2 3 4 5 6 of samples 0 7 1 8 2 9 3 4 5 6, cut in 4, 3 and 3, whatever the seed.
TEST(SampleAssignment, WhollySortedIsContiguousInTheLabels) {
  for (std::uint64_t seed : {1, 2, 3}) {
    EXPECT_EQ(sorted(own_samples(own(0, 3, 1), seed, counting_set{10})), (indices{0, 1, 7, 8}));
    EXPECT_EQ(sorted(own_samples(own(1, 3, 1), seed, counting_set{10})), (indices{2, 3, 9}));
    EXPECT_EQ(sorted(own_samples(own(2, 3, 1), seed, counting_set{10})), (indices{4, 5, 6}));
  }
}

TEST(SampleAssignment, EverySampleIsAssignedOnceAndSharesDifferByOneAtMost) {
  for (std::int64_t size : {0, 1, 7, 8, 100, 1003})
    for (int workers : {1, 2, 3, 8, 9})
      for (double fraction : {0.0, 0.01, 0.3, 0.5, 0.99, 1.0}) {
        SCOPED_TRACE(::testing::Message() << size << " samples, " << workers << " workers, sorted " << fraction);
        const counting_set data{size};
        indices assigned;
        for (int worker = 0; worker < workers; ++worker) {
          const auto samples = own_samples(own(worker, workers, fraction), 3, data);
          EXPECT_EQ(std::ssize(samples), own_size(own(worker, workers, fraction), size));
          EXPECT_EQ(std::ssize(samples), size / workers + (worker < size % workers ? 1 : 0));
          assigned.insert(assigned.end(), samples.begin(), samples.end());
        }
        indices all(static_cast<std::size_t>(size));
        std::iota(all.begin(), all.end(), 0U);
        EXPECT_EQ(sorted(assigned), all);
      }
}

TEST(SampleAssignment, DependsOnTheSeed) {
  const counting_set data{1000};
  EXPECT_NE(sorted(own_samples(own(0, 4), 1, data)), sorted(own_samples(own(0, 4), 2, data)));
  EXPECT_NE(sorted(own_samples(own(0, 4, 0.5), 1, data)), sorted(own_samples(own(0, 4, 0.5), 2, data)));
}

// Ten classes of 1,000, ten workers: of 1,000 samples a worker has about 500 from the sorted half, of one class or two beside
// each other, and 50 of every class from the rest.
TEST(SampleAssignment, TheSortedPartIsSkewedAndTheRestIsNot) {
  const counting_set data{10000, 10};
  for (int worker = 0; worker < 10; ++worker) {
    std::map<int, int> count;
    for (auto sample : own_samples(own(worker, 10, 0.5), 1, data))
      ++count[data.label(sample)];
    EXPECT_GT(count[worker], 400) << "worker " << worker;
    for (int label = 0; label < 10; ++label)
      if (std::abs(label - worker) > 1) {
        EXPECT_NEAR(count[label], 50, 35) << "worker " << worker << ", label " << label; // five deviations of seven
      }
  }
}

TEST(SampleAssignment, WithoutASortedPartEveryWorkerHasEveryLabel) {
  const counting_set data{10000, 10};
  for (int worker = 0; worker < 10; ++worker) {
    std::map<int, int> count;
    for (auto sample : own_samples(own(worker, 10), 1, data))
      ++count[data.label(sample)];
    for (int label = 0; label < 10; ++label)
      EXPECT_NEAR(count[label], 100, 47) << "worker " << worker << ", label " << label; // five deviations of 9.4
  }
}

TEST(SampleAssignment, AnEpochShufflesTheSameOwnSamplesAgain) {
  indices list(100);
  std::iota(list.begin(), list.end(), 0U);
  const auto order = own_order(list, 2, 1, 0);
  EXPECT_EQ(sorted(order), list);
  EXPECT_EQ(order, own_order(list, 2, 1, 0));
  EXPECT_NE(order, own_order(list, 2, 1, 1)) << "the epoch";
  EXPECT_NE(order, own_order(list, 3, 1, 0)) << "the worker";
  EXPECT_NE(order, own_order(list, 2, 2, 0)) << "the seed";
}

TEST(SampleAssignment, TheJobFilesWordsArriveInTheAssignment) {
  EXPECT_FALSE(assignment_for({}, 2, 5).by_worker);
  const auto assigned = assignment_for({.partition = "by-worker", .sorted_fraction = 0.25}, 2, 5);
  EXPECT_TRUE(assigned.by_worker);
  EXPECT_EQ(assigned.worker, 2);
  EXPECT_EQ(assigned.workers, 5);
  EXPECT_EQ(assigned.sorted_fraction, 0.25);
}

TEST(StepRows, ShuffledAreTheCutsOfTheGlobalBatch) {
  EXPECT_EQ(step_rows({}, {.position = 34, .batch = 2, .cuts = 3, .index = 1}, 30), (slice{1, 6, 8}));
  EXPECT_EQ(step_rows({}, {.position = 58, .batch = 2, .cuts = 3, .index = 1}, 30), (slice{1, 29, 30}));
}

// Ten samples for three workers: 4, 3 and 3 of their own; a batch of two each takes two steps.
TEST(StepRows, ByWorkerBeginWhereAllHaveCome) {
  const auto rows = [](int worker, std::uint64_t position) {
    return step_rows(own(worker, 3), {.position = position, .batch = 2, .cuts = 3, .index = worker}, 10);
  };
  EXPECT_EQ(rows(0, 0), (slice{0, 0, 2}));
  EXPECT_EQ(rows(2, 0), (slice{0, 0, 2}));
  EXPECT_EQ(rows(0, 6), (slice{0, 2, 4})); // the four left are cut in 2, 1 and 1
  EXPECT_EQ(rows(1, 6), (slice{0, 2, 3}));
  EXPECT_EQ(rows(2, 6), (slice{0, 2, 3}));
  EXPECT_EQ(rows(1, 10), (slice{1, 0, 2}));
  EXPECT_EQ(rows(1, 26), (slice{2, 2, 3}));
}

TEST(StepRows, ByWorkerEveryOwnSampleComesOnceAnEpoch) {
  for (std::int64_t size : {1, 6, 7, 8, 100, 1003})
    for (int workers = 1; workers <= 9; ++workers)
      for (int worker = 0; worker < workers; ++worker) {
        const auto how = own(worker, workers);
        std::int64_t next = 0;
        for (std::uint64_t position = 0; position < static_cast<std::uint64_t>(size);) {
          const auto rows = step_rows(how, {.position = position, .batch = 7, .cuts = workers, .index = worker}, size);
          if (rows.size() > 0) {
            EXPECT_EQ(rows.begin, next);
            next = rows.end;
          }
          EXPECT_LE(rows.size(), 7);
          position += static_cast<std::uint64_t>(global_batch(position, 7 * workers, size).size());
        }
        EXPECT_EQ(next, own_size(how, size)) << size << " samples, worker " << worker << " of " << workers;
      }
}

// Twelve samples, three of four workers are left, each with its own three: position 9 is their fourth sample, the first again.
TEST(StepRows, ByWorkerTheLastOnesGoRoundTheirOwnList) {
  const auto rows = [](std::uint64_t position, std::int64_t batch) {
    return step_rows(own(3, 4), {.position = position, .batch = batch, .cuts = 3, .index = 2}, 12);
  };
  EXPECT_EQ(rows(6, 1), (slice{0, 2, 3}));
  EXPECT_EQ(rows(9, 1), (slice{0, 0, 1}));
  EXPECT_EQ(rows(6, 2), (slice{0, 2, 3})) << "cut off at the list's end";
  EXPECT_EQ(rows(12, 2), (slice{1, 0, 2}));
}

TEST(StepRows, AWorkerWithoutSamplesHasEmptySteps) {
  const auto rows = step_rows(own(2, 3), {.position = 0, .batch = 5, .cuts = 3, .index = 2}, 2);
  EXPECT_EQ(rows.size(), 0);
  const auto alone = step_rows(own(2, 3), {.position = 4, .batch = 5, .cuts = 1, .index = 0}, 2); // the others have died
  EXPECT_EQ(alone, (slice{2, 0, 0}));
}

} // namespace
} // namespace troupe
