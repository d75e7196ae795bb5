// SPDX-License-Identifier: BSD-3-Clause
// batch_loader: which samples a slice holds, and whose memory they lie in.
#include "tensor/data/batch_loader.hpp"

#include <algorithm>
#include <thread>

#include <gtest/gtest.h>

#include "tensor/data/digits.hpp"
#include "tensor/data/memory_set.hpp"
#include "tests/tensor/counting_set.hpp"

namespace troupe {
namespace {

using testing::allocate;
using testing::counting_set;

TEST(BatchLoader, SliceHoldsItsPartOfTheEpochsPermutation) {
  batch_loader loader{std::make_shared<counting_set>(100), 3, allocate};
  for (std::uint64_t epoch : {0, 1, 0, 2, 1, 5}) { // in order, back, and far ahead
    auto order = epoch_permutation(3, epoch, 100);
    auto batch = loader.load({epoch, 90, 100});
    ASSERT_EQ(batch.rows, 10);
    ASSERT_EQ(batch.x.bytes(), 10 * 2 * sizeof(float));
    ASSERT_EQ(batch.labels.bytes(), 10 * sizeof(std::int32_t));
    for (std::size_t i = 0; i < 10; ++i) {
      EXPECT_EQ(batch.x.span<float>()[2 * i], static_cast<float>(order[90 + i]));
      EXPECT_EQ(batch.x.span<float>()[2 * i + 1], -static_cast<float>(order[90 + i]));
      EXPECT_EQ(batch.labels.span<std::int32_t>()[i], static_cast<std::int32_t>(order[90 + i] % 7));
    }
  }
}

TEST(BatchLoader, BatchKnowsThePlaceOfItsFirstRowAmongAllThatTheJobHandsOut) {
  batch_loader shared{std::make_shared<counting_set>(100), 3, allocate};
  EXPECT_EQ(shared.load({0, 0, 4}).place, 0U);
  EXPECT_EQ(shared.load({2, 90, 100}).place, 290U);
  // Of 100 samples the first of three workers has 34.
  batch_loader second{std::make_shared<counting_set>(100), 3, allocate, {.by_worker = true, .worker = 1, .workers = 3}};
  EXPECT_EQ(second.load({2, 5, 8}).place, 239U);
}

TEST(BatchLoader, ByWorkerASliceIsOfTheWorkersOwnOrder) {
  const counting_set data{100};
  const sample_assignment second{.by_worker = true, .worker = 1, .workers = 3, .sorted_fraction = 0.5};
  batch_loader loader{std::make_shared<counting_set>(100), 3, allocate, second};
  for (std::uint64_t epoch : {0, 1, 0, 7}) {
    const auto order = own_order(own_samples(second, 3, data), 1, 3, epoch);
    ASSERT_EQ(order.size(), 33U);
    const auto batch = loader.load({epoch, 30, 33});
    ASSERT_EQ(batch.rows, 3);
    for (std::size_t i = 0; i < 3; ++i) {
      EXPECT_EQ(batch.x.span<float>()[2 * i], static_cast<float>(order[30 + i]));
      EXPECT_EQ(batch.labels.span<std::int32_t>()[i], data.label(order[30 + i]));
    }
  }
}

/// Samples of two ids, and a label for each: the id, or what says that it is ignored.
class token_set final : public data_set {
public:
  std::int64_t size() const override { return 4; }
  const data_format& format() const override { return format_; }
  std::int32_t label(std::uint32_t) const override { return 0; }
  void gather(std::span<const std::uint32_t> indices, void* samples, void* labels) const override {
    auto *x = static_cast<std::int32_t*>(samples), *y = static_cast<std::int32_t*>(labels);
    for (auto index : indices) {
      const auto id = static_cast<std::int32_t>(index);
      *x++ = id, *x++ = id + 10;
      *y++ = id, *y++ = id % 2 == 0 ? -100 : -1;
    }
  }

private:
  data_format format_{.sample = {2}, .classes = 20, .type = dtype::i32, .ids = 20, .labels = {2}};
};

TEST(BatchLoader, SamplesMayBeIdsAndLabelsThatAreIgnoredAreNotCounted) {
  batch_loader loader{std::make_shared<token_set>(), 3, allocate};
  const auto batch = loader.load_in_order(1, 4);
  EXPECT_EQ(batch.rows, 3);
  EXPECT_EQ(batch.counted, 3);
  EXPECT_TRUE(std::ranges::equal(batch.x.span<std::int32_t>(), std::vector{1, 11, 2, 12, 3, 13}));
  EXPECT_TRUE(std::ranges::equal(batch.labels.span<std::int32_t>(), std::vector{1, -1, 2, -1, 3, -1}));
}

TEST(DataFormat, APredictionIsAClassOrAListOfNumbers) {
  EXPECT_EQ((data_format{{4}, 3}.predictions()), 1);
  EXPECT_EQ((data_format{.sample = {8}, .classes = 3, .labels = {2, 5}}.predictions()), 10);
  EXPECT_EQ((data_format{.sample = {8}, .labels = {2, 5}, .label_type = dtype::f32}.predictions()), 2);
  EXPECT_EQ((data_format{.sample = {8}, .label_type = dtype::f32}.predictions()), 1);
}

TEST(BatchLoader, EmptySliceIsAnEmptyBatch) {
  batch_loader loader{std::make_shared<counting_set>(100), 3, allocate};
  auto batch = loader.load({0, 100, 100});
  EXPECT_EQ(batch.rows, 0);
  EXPECT_TRUE(batch.x.empty() && batch.labels.empty());
}

TEST(BatchLoader, InOrderIsTheDataSetsOrder) {
  batch_loader loader{std::make_shared<counting_set>(100), 3, allocate};
  auto batch = loader.load_in_order(97, 100);
  ASSERT_EQ(batch.rows, 3);
  EXPECT_EQ(batch.x.span<float>()[0], 97);
  EXPECT_EQ(batch.x.span<float>()[4], 99);
}

TEST(BatchLoader, EveryBatchHasMemoryOfItsOwn) {
  batch_loader loader{std::make_shared<counting_set>(100), 3, allocate};
  auto first = loader.load({0, 0, 50});
  auto value = first.x.span<float>()[0];
  auto second = loader.load({0, 50, 100});
  EXPECT_NE(first.x.data(), second.x.data());
  EXPECT_EQ(first.x.span<float>()[0], value);
}

TEST(BatchLoader, LoadersOnSeveralThreadsShareADataSet) {
  std::shared_ptr<const data_set> shared = make_image_pair(draw_digits(1, 500, 1), pixel_scale::standard).train;
  auto alone = batch_loader{shared, 1, allocate}.load({0, 0, 500});
  std::vector<batch> made(4);
  std::vector<std::thread> threads;
  for (auto& each : made)
    threads.emplace_back([&each, shared] { each = batch_loader{shared, 1, allocate}.load({0, 0, 500}); });
  for (auto& thread : threads)
    thread.join();
  for (const auto& each : made) {
    EXPECT_TRUE(std::ranges::equal(each.x.span<float>(), alone.x.span<float>()));
    EXPECT_TRUE(std::ranges::equal(each.labels.span<std::int32_t>(), alone.labels.span<std::int32_t>()));
  }
}

} // namespace
} // namespace troupe
