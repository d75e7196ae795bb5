// SPDX-License-Identifier: BSD-3-Clause
// Squares as integers, and what a gradient is multiplied by.
#include "protocols/squared_norm.hpp"

#include <cmath>
#include <limits>
#include <vector>

#include <gtest/gtest.h>

#include "protocols/random_stream.hpp"

namespace troupe::protocols {
namespace {

squared_norm sum_of(const std::vector<double>& parts) {
  squared_norm out;
  for (const double part : parts)
    out.add(part);
  return out;
}

TEST(SquaredNorm, IsTheSameHoweverItsPartsAreGrouped) {
  random_stream draw = random_stream::keyed(1, 2);
  std::vector<double> parts;
  for (int i = 0; i < 1000; ++i)
    parts.push_back(std::exp(80 * draw.uniform() - 40)); // 1e-17 to 1e17
  const squared_norm whole = sum_of(parts);
  for (const std::size_t cut : {1U, 17U, 500U, 999U}) {
    const auto middle = parts.begin() + static_cast<std::ptrdiff_t>(cut);
    squared_norm first = sum_of({middle, parts.end()});
    first += sum_of({parts.begin(), middle});
    EXPECT_EQ(first, whole) << cut;
  }
}

TEST(SquaredNorm, IsTheRootOfTheSum) {
  EXPECT_DOUBLE_EQ(sum_of({9, 16}).norm(), 5);
  EXPECT_NEAR(sum_of({0x1p40, 0x1p-40}).norm(), 0x1p20, 1e-6);
  EXPECT_DOUBLE_EQ(sum_of({0.25}).norm(), 0.5);
  for (const double square : {1e3, 16383.9, 16384.0, 65536.0, 65536.5, 1e9, 1.5e15})
    EXPECT_NEAR(sum_of({square}).norm() / std::sqrt(square), 1, 1e-13) << square;
}

TEST(SquaredNorm, CarriesFromItsLowHalf) {
  squared_norm out{0, ~std::uint64_t{0}};
  out += {2, 1};
  EXPECT_EQ(out, (squared_norm{3, 0}));
}

TEST(SquaredNorm, WhatIsNoNumberCountsAsVeryMuch) {
  const squared_norm most = sum_of({0x1p60});
  EXPECT_EQ(sum_of({std::numeric_limits<double>::infinity()}), most);
  EXPECT_EQ(sum_of({std::numeric_limits<double>::quiet_NaN()}), most);
  EXPECT_DOUBLE_EQ(most.norm(), 0x1p30);
}

TEST(SquaredNorm, AFactorBringsALargeGradientToTheLargestNormAndLeavesASmallOne) {
  EXPECT_DOUBLE_EQ(clip_factor(2, sum_of({0.9})), 1);
  EXPECT_EQ(clip_factor(0, {}), 1) << "nothing is clipped";
  EXPECT_DOUBLE_EQ(clip_factor(2, sum_of({16})), 2 / (8 + 1e-6)) << "the norm is 4 times 2";
  EXPECT_DOUBLE_EQ(clip_factor(1e-6, sum_of({1})), 0.5) << "PyTorch adds 1e-6 to the norm";
}

} // namespace
} // namespace troupe::protocols
