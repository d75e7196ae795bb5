// SPDX-License-Identifier: BSD-3-Clause
// Samples that are kept from training.
#include "tensor/data/holdout.hpp"

#include <algorithm>
#include <numeric>

#include <gtest/gtest.h>

namespace troupe {
namespace {

/// Sample i holds the number i, of class i mod 3.
class numbered final : public data_set {
public:
  explicit numbered(std::int64_t size) : size_(size) {}
  std::int64_t size() const override { return size_; }
  const data_format& format() const override { return format_; }
  std::int32_t label(std::uint32_t index) const override { return static_cast<std::int32_t>(index % 3); }
  void gather(std::span<const std::uint32_t> indices, void* x, void* labels) const override {
    for (std::size_t i = 0; i < indices.size(); ++i) {
      static_cast<float*>(x)[i] = static_cast<float>(indices[i]);
      static_cast<std::int32_t*>(labels)[i] = label(indices[i]);
    }
  }

private:
  std::int64_t size_;
  data_format format_{{1}, 3};
};

data_pair numbers(std::int64_t size) {
  return {.train = std::make_shared<numbered>(size), .test = std::make_shared<numbered>(2)};
}

std::vector<float> all_of(const data_set& set) {
  std::vector<std::uint32_t> indices(static_cast<std::size_t>(set.size()));
  std::iota(indices.begin(), indices.end(), 0U);
  std::vector<float> x(indices.size());
  std::vector<std::int32_t> labels(indices.size());
  set.gather(indices, x.data(), labels.data());
  for (std::size_t i = 0; i < x.size(); ++i) {
    EXPECT_EQ(labels[i], static_cast<int>(x[i]) % 3);
    EXPECT_EQ(set.label(static_cast<std::uint32_t>(i)), labels[i]);
  }
  return x;
}

TEST(Holdout, EverySampleIsInOneHalfInItsOrder) {
  const auto pair = hold_out(numbers(100), 0.1, 7).value();
  const auto trained = all_of(*pair.train), kept = all_of(*pair.validation);
  EXPECT_EQ(kept.size(), 10U);
  EXPECT_TRUE(std::ranges::is_sorted(trained));
  EXPECT_TRUE(std::ranges::is_sorted(kept));
  std::vector<float> both(100), expected(100);
  std::ranges::merge(trained, kept, both.begin());
  std::iota(expected.begin(), expected.end(), 0.0F);
  EXPECT_EQ(both, expected);
  EXPECT_EQ(pair.test->size(), 2);
}

TEST(Holdout, TheSeedDrawsIt) {
  const auto kept = [](std::uint64_t seed) { return all_of(*hold_out(numbers(100), 0.1, seed).value().validation); };
  EXPECT_EQ(kept(1), kept(1));
  EXPECT_NE(kept(1), kept(2));
  EXPECT_NE(kept(1), (std::vector<float>{0, 1, 2, 3, 4, 5, 6, 7, 8, 9}));
}

TEST(Holdout, AnyShareKeepsOneAndLeavesOne) {
  EXPECT_EQ(hold_out(numbers(5), 0, 1).value().validation, nullptr);
  EXPECT_EQ(hold_out(numbers(5), 1e-9, 1).value().validation->size(), 1);
  EXPECT_EQ(hold_out(numbers(5), 0.7, 1).value().train->size(), 1);
  EXPECT_EQ(hold_out(numbers(5), 0.95, 1).error().message,
            "evaluate.holdout = 0.95 keeps 5 of 5 training samples, and leaves none to train with; give a smaller share");
}

} // namespace
} // namespace troupe
