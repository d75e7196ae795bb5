// SPDX-License-Identifier: BSD-3-Clause
// The generator against its authors' known answers, the distributions against their moments.
#include "kernels/random.hpp"

#include <bit>

#include <gtest/gtest.h>

namespace troupe::kernels {

namespace {

using words = std::array<std::uint32_t, 4>;

// The lines "philox4x32 10" of kat_vectors in Random123 1.14 (Salmon et al. 2011).
TEST(Random, PhiloxGivesItsAuthorsKnownAnswers) {
  constexpr std::uint32_t ones = 0xffffffff;
  EXPECT_EQ(philox4x32({0, 0, 0, 0}, {0, 0}), (words{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  EXPECT_EQ(philox4x32({ones, ones, ones, ones}, {ones, ones}), (words{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  EXPECT_EQ(philox4x32({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, {0xa4093822, 0x299f31d0}),
            (words{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

TEST(Random, EveryFieldOfTheKeyIsUsed) {
  const random_key key{.seed = 0x299f31d0a4093822, .stream = 0x85a308d3, .step = 0x0370734413198a2e};
  EXPECT_EQ(random_block(key, 0x243f6a88), (words{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
  EXPECT_EQ(random_word(key, 4 * std::uint64_t{0x243f6a88} + 2), 0x5001e420U);
}

TEST(Random, UniformIsExactAndBelowOne) {
  EXPECT_EQ(uniform_float(0), 0.0F);
  EXPECT_EQ(uniform_float(0xffffffff), 1.0F - 0x1p-24F);
  EXPECT_EQ(uniform_float(0x80000000), 0.5F);
}

TEST(Random, BelowCoversItsRange) {
  EXPECT_EQ(random_below(0, 10), 0U);
  EXPECT_EQ(random_below(0x80000000, 10), 5U);
  EXPECT_EQ(random_below(0xffffffff, 10), 9U);
}

TEST(Random, OwnLogarithmAndCircleAgreeWithTheLibrary) {
  for (double x : {1.0, 0.999999, 0.75, 0.7, 0.5, 0.1, 1e-5, 0x1p-32})
    EXPECT_NEAR(detail::portable_log(x), std::log(x), 4e-16 * std::max(1.0, -std::log(x))) << x;
  for (int i = 0; i < 1000; ++i) {
    const double u = i / 1000.0;
    const auto [cosine, sine] = detail::portable_cos_sin_turn(u);
    EXPECT_NEAR(cosine, std::cos(2 * std::numbers::pi * u), 1e-15) << u;
    EXPECT_NEAR(sine, std::sin(2 * std::numbers::pi * u), 1e-15) << u;
  }
}

TEST(Random, NormalHasItsMoments) {
  const random_key key{.seed = 7};
  constexpr int n = 200'000;
  double sum = 0, square = 0, fourth = 0, neighbours = 0, last = 0;
  for (int i = 0; i < n; ++i) {
    const double x = random_normal(key, static_cast<std::uint64_t>(i));
    sum += x;
    square += x * x;
    fourth += x * x * x * x;
    neighbours += x * last;
    last = x;
  }
  const double sigma = 1 / std::sqrt(n); // of the mean; five of them are allowed
  EXPECT_NEAR(sum / n, 0, 5 * sigma);
  EXPECT_NEAR(square / n, 1, 5 * sigma * std::sqrt(2.0));
  EXPECT_NEAR(fourth / n, 3, 5 * sigma * std::sqrt(96.0));
  EXPECT_NEAR(neighbours / n, 0, 5 * sigma);
}

// Initial weights hang on these: a change here is a change of every model's start. The numbers are those of Python's math
// module for the same words: 0.80356773, 0.74179479, -0.62158975.
TEST(Random, NormalIsTheSameEverywhere) {
  const random_key key{.seed = 1, .stream = 2, .step = 3};
  const auto bits = [&](std::uint64_t i) { return std::bit_cast<std::uint32_t>(random_normal(key, i)); };
  EXPECT_EQ(bits(0), 0x3f4db69dU);
  EXPECT_EQ(bits(1), 0x3f3de643U);
  EXPECT_EQ(bits(6), 0xbf1f2081U);
}

} // namespace

} // namespace troupe::kernels
