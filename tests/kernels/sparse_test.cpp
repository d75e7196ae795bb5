// SPDX-License-Identifier: BSD-3-Clause
// Sparse forms: which elements are chosen, what they become, and bytes of others.
#include "kernels/sparse.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "kernels/codec.hpp"
#include "kernels/half.hpp"

namespace troupe::kernels {
namespace {

constexpr form sparse_forms[] = {form::sparse_fp32, form::sparse_bf16, form::sparse_sign};
using message = std::vector<std::byte>;

std::vector<float> drawn(std::size_t count, std::uint32_t seed) {
  std::mt19937 dice(seed);
  std::vector<float> out(count);
  for (float& each : out)
    each = static_cast<float>(dice() >> 8U) * 0x1p-23F - 1;
  return out;
}
message encoded(form as, const coded_range& where, const sparse_places& places, const std::vector<float>& values) {
  message out(sparse_bytes(as, where, places), std::byte{0xff});
  encode_sparse(as, where, places, values, out);
  return out;
}
/// By sorting, as the definition says.
sparse_places largest_by_hand(const coded_range& where, const std::vector<float>& values, double density) {
  sparse_places out;
  for (std::int64_t first = where.begin; first < where.begin + where.count;) {
    const std::int64_t last = std::min((first / 4096 + 1) * 4096, where.begin + where.count);
    std::vector<std::uint32_t> block(static_cast<std::size_t>(last - first));
    std::iota(block.begin(), block.end(), static_cast<std::uint32_t>(first - where.begin));
    std::ranges::stable_sort(block, [&](auto a, auto b) { return std::fabs(values[a]) > std::fabs(values[b]); });
    const auto share = static_cast<std::size_t>(std::llround(density * static_cast<double>(block.size())));
    block.resize(std::max(share, std::size_t{1}));
    std::erase_if(block, [&](auto i) { return values[i] == 0; });
    out.insert(out.end(), block.begin(), block.end());
    first = last;
  }
  std::ranges::sort(out);
  return out;
}

TEST(Sparse, TheLargestAreChosenAndOfEqualOnesTheFirst) {
  for (const double density : {0.0001, 0.001, 0.016, 0.25, 0.9, 1.0})
    for (const auto& [begin, count] : {std::pair{0, 16}, {0, 4096}, {4080, 32}, {96, 10'000}, {8192, 4096}}) {
      const coded_range where{begin, count};
      auto values = drawn(static_cast<std::size_t>(count), 3);
      EXPECT_EQ(choose_largest(where, values, density), largest_by_hand(where, values, density)) << density << ", " << count;
      for (float& each : values) // many that are equal, of both signs, some of them 0
        each = std::round(4 * each) / 4;
      EXPECT_EQ(choose_largest(where, values, density), largest_by_hand(where, values, density)) << density << ", " << count;
    }
}

TEST(Sparse, TinyAndHugeNumbersAreInOrder) {
  const std::vector<float> values{1e-45F, -3e38F, 1e-40F, 0.0F, -0.0F, 2e38F, -1e-45F, 5e-45F};
  EXPECT_EQ(choose_largest({0, 8}, values, 0.25), (sparse_places{1, 5}));
  EXPECT_EQ(choose_largest({0, 8}, values, 0.5), (sparse_places{1, 2, 5, 7}));
  EXPECT_EQ(choose_largest({0, 8}, values, 1), (sparse_places{0, 1, 2, 5, 6, 7}));
}

TEST(Sparse, ACutBetweenBlocksChoosesTheSame) {
  const auto values = drawn(3 * 4096, 7);
  const auto whole = choose_largest({0, 3 * 4096}, values, 0.01);
  sparse_places parts;
  for (const std::uint32_t begin : {0U, 4096U})
    for (const auto place :
         choose_largest({begin, begin == 0 ? 4096 : 8192}, std::span{values}.subspan(begin, begin == 0 ? 4096 : 8192), 0.01))
      parts.push_back(begin + place);
  EXPECT_EQ(parts, whole);
}

TEST(Sparse, ThresholdsReachAndChangesAreOfBits) {
  const std::vector<float> now{0.5F, -0.5F, 0.49F, -0.7F, 0.0F, -0.0F};
  EXPECT_EQ(choose_from(now, 0.5F), (sparse_places{0, 1, 3}));
  EXPECT_EQ(choose_nonzero(now), (sparse_places{0, 1, 2, 3, 5})) << "-0 is not 0, or a sum would not be exact";
  auto before = now;
  before[2] = 0.4F;
  before[4] = -0.0F;
  EXPECT_EQ(choose_changed(now, before), (sparse_places{2, 4}));
  before = now;
  before[1] = std::numeric_limits<float>::quiet_NaN();
  EXPECT_EQ(choose_changed(before, before), sparse_places{}) << "not a number, and yet the same";
}

/// Few and many, at the edges and beside each other.
TEST(Sparse, WhatIsEncodedComesBackAtItsPlace) {
  std::mt19937 dice(11);
  for (const form as : sparse_forms)
    for (int round = 0; round < 200; ++round) {
      const coded_range where{16 * static_cast<std::int64_t>(dice() % 500), 16 * static_cast<std::int64_t>(1 + dice() % 300)};
      auto values = drawn(static_cast<std::size_t>(where.count), dice());
      if (as == form::sparse_sign)
        for (float& each : values)
          each = std::copysign(0.0625F, each);
      const std::uint32_t of = 1 + dice() % 1000; // a place in so many
      sparse_places places;
      for (std::uint32_t i = 0; i < values.size(); ++i)
        if (dice() % of == 0)
          places.push_back(i);
      const auto bytes = encoded(as, where, places, values);
      ASSERT_TRUE(is_sound(as, where, bytes));
      ASSERT_LE(bytes.size(), encoded_bytes(as, where));
      std::vector<float> wanted(values.size());
      for (const auto place : places)
        wanted[place] = as == form::sparse_bf16 ? from_bfloat(to_bfloat(values[place])) : values[place];
      std::vector<float> found(values.size(), 7);
      decode(as, where, bytes, found);
      ASSERT_EQ(found, wanted) << name_of(as);
      std::vector<float> sum(values.size(), 1);
      add_decoded(as, where, bytes, -2, sum);
      auto over = values;
      overwrite_sparse(as, bytes, over);
      for (std::uint32_t i = 0; i < values.size(); ++i) {
        ASSERT_EQ(sum[i], 1 - 2 * wanted[i]);
        ASSERT_EQ(over[i], std::ranges::binary_search(places, i) ? wanted[i] : values[i]);
      }
    }
}

TEST(Sparse, NothingAtAllIsEightBytesOrNone) {
  for (const form as : sparse_forms) {
    EXPECT_EQ(encoded(as, {0, 16}, {}, std::vector<float>(16)).size(), 8U);
    EXPECT_EQ(encoded(as, {16, 0}, {}, {}).size(), 0U);
    EXPECT_TRUE(is_sound(as, {16, 0}, {}));
    EXPECT_FALSE(is_sound(as, {0, 16}, {}));
  }
}

/// 16 bits of bfloat, and about log2(n / k) + 1.5 of a place.
TEST(Sparse, BytesAreAsExpected) {
  const coded_range where{0, 1 << 20};
  const auto values = drawn(1 << 20, 5);
  for (const double density : {0.25, 0.0625, 0.015625, 0.004, 0.001}) {
    const auto places = choose_largest(where, values, density);
    const auto bytes = static_cast<double>(sparse_bytes(form::sparse_bf16, where, places));
    const double chosen = static_cast<double>(places.size()) / (1 << 20); // 4 of 4,096 are not quite 0.001
    EXPECT_NEAR(bytes / expected_bytes(form::sparse_bf16, where, chosen), 1, 0.01) << density;
    EXPECT_LT(8 * bytes / static_cast<double>(places.size()), 16 + std::log2(1 / density) + 1.7) << density;
  }
  EXPECT_EQ(expected_bytes(form::int8, where, 0.1), static_cast<double>(encoded_bytes(form::int8, where)));
  EXPECT_EQ(expected_bytes(form::sparse_fp32, where, 1), 4U << 20U) << "never more than all of them as they are";
}

// -- bytes of another host

struct hostile : ::testing::TestWithParam<form> {
  hostile() {
    if (as == form::sparse_sign)
      for (float& each : values)
        each = std::copysign(0.5F, each);
  }
  const form as = GetParam();
  const coded_range where{64, 512};
  std::vector<float> values = drawn(512, 2);
  const sparse_places places{0, 3, 4, 100, 511};
  const message good = encoded(as, where, places, values);
};

TEST_P(hostile, EveryCutAndEveryLongerOneIsRefused) {
  ASSERT_TRUE(is_sound(as, where, good));
  for (std::size_t size = 0; size < good.size(); ++size)
    EXPECT_FALSE(is_sound(as, where, std::span{good}.first(size))) << size;
  auto longer = good;
  longer.resize(good.size() + 8);
  EXPECT_FALSE(is_sound(as, where, longer));
}

/// What is sound is decoded within its range, whatever it was.
TEST_P(hostile, NoFlippedBitLeavesTheRange) {
  std::size_t refused = 0;
  for (std::size_t bit = 0; bit < 8 * good.size(); ++bit) {
    auto flipped = good;
    flipped[bit / 8] ^= static_cast<std::byte>(1U << bit % 8);
    if (!is_sound(as, where, flipped)) {
      ++refused;
      continue;
    }
    std::vector<float> out(512);
    decode(as, where, flipped, out);
    add_decoded(as, where, flipped, 1, out);
  }
  EXPECT_GT(refused, 60U) << "the counts' upper bits, and some gaps";
  auto padded = good;
  padded.back() |= std::byte{0x80};
  EXPECT_FALSE(is_sound(as, where, padded)) << "behind the last place there are zeros";
}

TEST_P(hostile, NoiseIsRefusedOrHarmless) {
  std::mt19937 dice(3);
  for (int round = 0; round < 20'000; ++round) {
    message noise(8 * (dice() % 12));
    for (auto& each : noise)
      each = static_cast<std::byte>(dice());
    if (noise.size() >= 8 && round % 2 == 0) { // a likely head
      const std::uint32_t head[2] = {static_cast<std::uint32_t>(dice() % 20), static_cast<std::uint32_t>(dice() % 32)};
      std::memcpy(noise.data(), head, sizeof head);
    }
    std::vector<float> out(512);
    if (is_sound(as, where, noise))
      decode(as, where, noise, out);
  }
}

TEST_P(hostile, PlacesBeyondTheRangeAreRefused) {
  EXPECT_FALSE(is_sound(as, {64, 496}, good)) << "511 is not in it";
  auto many = good;
  const std::uint32_t count = 513;
  std::memcpy(many.data(), &count, sizeof count);
  EXPECT_FALSE(is_sound(as, where, many));
  auto steep = good;
  const std::uint32_t rice = 31;
  std::memcpy(steep.data() + 4, &rice, sizeof rice);
  EXPECT_FALSE(is_sound(as, where, steep));
}

INSTANTIATE_TEST_SUITE_P(Sparse, hostile, ::testing::ValuesIn(sparse_forms),
                         [](const auto& info) { return std::string(name_of(info.param)); });

TEST(Sparse, ASizeThatIsNoNumberIsRefused) {
  const coded_range where{0, 16};
  auto bytes = encoded(form::sparse_sign, where, {3}, std::vector<float>(16, 0.5F));
  const float bad = std::numeric_limits<float>::infinity();
  std::memcpy(bytes.data() + 8, &bad, sizeof bad);
  EXPECT_FALSE(is_sound(form::sparse_sign, where, bytes));
}

} // namespace
} // namespace troupe::kernels
