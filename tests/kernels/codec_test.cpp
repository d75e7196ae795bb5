// SPDX-License-Identifier: BSD-3-Clause
// Codecs: sizes, rounding, what feedback keeps, and bytes of others.
#include "kernels/codec.hpp"

#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <map>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include <gtest/gtest.h>

namespace troupe::kernels {
namespace {

constexpr std::array all_forms{form::fp32, form::fp16, form::bf16, form::int8, form::int4, form::onebit};
constexpr random_key some_key{.seed = 5, .stream = 2, .step = 9};

using message = std::vector<std::byte>;

message encoded(form as, const coded_range& where, const std::vector<float>& values, const random_key& key = some_key) {
  message out(encoded_bytes(as, where));
  EXPECT_TRUE(encode(as, where, key, values, out));
  return out;
}
std::vector<float> decoded(form as, const coded_range& where, const message& from) {
  EXPECT_TRUE(is_sound(as, where, from));
  std::vector<float> out(static_cast<std::size_t>(where.count));
  decode(as, where, from, out);
  return out;
}
std::vector<float> through(form as, const std::vector<float>& values, std::int64_t begin = 0) {
  const coded_range where{begin, std::ssize(values)};
  return decoded(as, where, encoded(as, where, values));
}
std::vector<float> drawn(std::size_t count, std::uint32_t seed, float deviation = 1) {
  std::mt19937 dice(seed);
  std::vector<float> out(count);
  for (float& each : out)
    each = deviation * (static_cast<float>(dice() >> 8U) * 0x1p-23F - 1);
  return out;
}

TEST(Codec, SizesFollowFromFormAndRange) {
  const coded_range million{0, 1 << 20};
  const std::map<form, std::size_t> wanted{{form::fp32, 4U << 20U},
                                           {form::fp16, 2U << 20U},
                                           {form::bf16, 2U << 20U},
                                           {form::int8, (1U << 20U) + 4 * 4096},
                                           {form::int4, (1U << 19U) + 4 * 4096},
                                           {form::onebit, (1U << 17U) + 8 * 2048}};
  for (const auto& [as, bytes] : wanted)
    EXPECT_EQ(encoded_bytes(as, million), bytes);
  EXPECT_NEAR((4.0 * (1 << 20)) / static_cast<double>(encoded_bytes(form::onebit, million)), 28.4, 0.1);
  EXPECT_EQ(encoded_bytes(form::int8, {16, 16}), 24U) << "a scale, sixteen elements, and up to a multiple of 8";
  EXPECT_EQ(encoded_bytes(form::int8, {240, 32}), 40U) << "parts of two blocks";
  for (const form as : all_forms)
    EXPECT_EQ(encoded_bytes(as, {64, 0}), 0U);
}

// -- 16 bits

/// By the definition: sign, 5 bits of exponent, 10 of mantissa.
float half_by_hand(std::uint16_t bits) {
  const int exponent = bits >> 10U & 31U, mantissa = bits & 1023U;
  const double size = exponent == 0 ? std::ldexp(mantissa, -24) : std::ldexp(1024 + mantissa, exponent - 25);
  return static_cast<float>((bits & 0x8000U) != 0 ? -size : size);
}

TEST(Codec, EveryHalfIsItself) {
  std::vector<float> halves;
  for (std::uint32_t bits = 0; bits < 65536; ++bits)
    if ((bits >> 10U & 31U) != 31)
      halves.push_back(half_by_hand(static_cast<std::uint16_t>(bits)));
  EXPECT_EQ(through(form::fp16, halves), halves);
}

/// Bytes of another host may be any.
TEST(Codec, AHalfThatIsNotFiniteStaysSo) {
  const std::uint16_t halves[] = {0x7c00, 0xfc00, 0x7e01, 0xfc01};
  float out[4];
  decode(form::fp16, {0, 4}, std::as_bytes(std::span{halves}), out);
  EXPECT_EQ(out[0], std::numeric_limits<float>::infinity());
  EXPECT_EQ(out[1], -std::numeric_limits<float>::infinity());
  EXPECT_TRUE(std::isnan(out[2]) && std::isnan(out[3]));
}

TEST(Codec, BetweenTwoHalvesTheNearestTiesToEven) {
  for (const float above : {1.0F, 1.0F + 0x1p-10F, 0x1p-14F, 0x1p-24F, 3 * 0x1p-24F, 1000.0F, 1023 * 0x1p-24F}) {
    const auto bits = static_cast<std::uint16_t>(above < 0x1p-14F ? above * 0x1p24F
                                                                  : (std::bit_cast<std::uint32_t>(above) >> 13U) - (112U << 10U));
    ASSERT_EQ(half_by_hand(bits), above);
    const float next = half_by_hand(bits + 1), middle = above + (next - above) / 2;
    const float even = bits % 2 == 0 ? above : next;
    EXPECT_EQ(through(form::fp16, {middle, std::nextafter(middle, 0.0F), std::nextafter(middle, 1e9F), -middle}),
              (std::vector{even, above, next, -even}))
        << above;
  }
}

TEST(Codec, WhatIsTooLargeForSixteenBitsIsTheLargest) {
  constexpr float most = std::numeric_limits<float>::max();
  EXPECT_EQ(through(form::fp16, {65519, 65520, most, -most}), (std::vector<float>{65504, 65504, 65504, -65504}));
  EXPECT_EQ(through(form::bf16, {most, -most}), (std::vector<float>{0x1.fep127F, -0x1.fep127F}));
}

TEST(Codec, BfloatKeepsEightBitsNearestTiesToEven) {
  EXPECT_EQ(through(form::bf16, {1.0F + 0x1p-8F, 1.0F + 3 * 0x1p-8F, 1.0F + 0x1.02p-8F, -0x1p-140F, 0.0F, 0x1p-133F}),
            (std::vector{1.0F, 1.0F + 0x1p-6F, 1.0F + 0x1p-7F, 0.0F, 0.0F, 0x1p-133F}));
}

// -- whole numbers

TEST(Codec, WholeNumbersAreOffByLessThanAScaleAndKeepTheLargest) {
  for (const auto& [as, levels] : {std::pair{form::int8, 127.0F}, std::pair{form::int4, 7.0F}}) {
    auto values = drawn(1000, 1);
    values[300] = 4;
    const auto found = through(as, values);
    EXPECT_FLOAT_EQ(found[300], 4);
    for (std::size_t i = 256; i < 512; ++i)
      EXPECT_LT(std::fabs(found[i] - values[i]), 4 / levels * 1.0001F);
    for (std::size_t i = 0; i < 256; ++i)
      EXPECT_LT(std::fabs(found[i] - values[i]), 1 / levels * 1.0001F) << "another block, another scale";
  }
}

/// A mean over n draws has a deviation of at most s / 2 / sqrt(n).
TEST(Codec, RoundingIsUnbiased) {
  const std::vector<float> values{1, 0.3F, -0.77F, 0.0625F, -1, 0.501F, 0, 1e-3F};
  constexpr std::uint32_t draws = 20'000;
  for (const auto& [as, levels] : {std::pair{form::int8, 127.0}, std::pair{form::int4, 7.0}}) {
    std::vector<double> sums(values.size());
    for (std::uint32_t step = 0; step < draws; ++step) {
      const auto found = decoded(as, {0, 8}, encoded(as, {0, 8}, values, {.seed = 1, .step = step}));
      for (std::size_t i = 0; i < sums.size(); ++i)
        sums[i] += found[i];
    }
    for (std::size_t i = 0; i < sums.size(); ++i)
      EXPECT_NEAR(sums[i] / draws, values[i], 3 * 0.5 / levels / std::sqrt(draws)) << values[i];
  }
}

TEST(Codec, RoundingIsNamedByItsKeyAndPlace) {
  const auto values = drawn(512, 2);
  const coded_range here{0, 512}, there{512, 512};
  EXPECT_EQ(encoded(form::int4, here, values), encoded(form::int4, here, values));
  EXPECT_NE(encoded(form::int4, here, values), encoded(form::int4, here, values, {.seed = 6}));
  EXPECT_NE(encoded(form::int4, here, values), encoded(form::int4, there, values));
}

TEST(Codec, TinyAndEmptyBlocksAreNoTrouble) {
  constexpr float tiny = std::numeric_limits<float>::denorm_min();
  for (const form as : all_forms) {
    EXPECT_EQ(through(as, std::vector<float>(32)), std::vector<float>(32));
    for (const float each : through(as, std::vector<float>(32, tiny)))
      EXPECT_TRUE(each >= 0 && each <= 200 * tiny);
    for (const float each : through(as, std::vector<float>{std::numeric_limits<float>::max(), 0}))
      EXPECT_TRUE(std::isfinite(each));
    EXPECT_TRUE(through(as, {}).empty());
    EXPECT_EQ(through(as, {-2.0F}, 510).size(), 1U);
  }
}

// -- one bit

TEST(Codec, ABitStandsForTheMeanOfItsSign) {
  EXPECT_EQ(through(form::onebit, {1, 2, -4, 3, -2, 0}), (std::vector<float>{1.5F, 1.5F, -3, 1.5F, -3, 1.5F}));
  std::vector<float> two(514, 1.0F);
  two[512] = 8;
  two[513] = -8;
  const auto found = through(form::onebit, two);
  EXPECT_EQ(found[0], 1);
  EXPECT_EQ(found[512], 8) << "the next block";
  EXPECT_EQ(through(form::onebit, two, 510)[1], 1);
  EXPECT_EQ(through(form::onebit, two, 510)[512], 518 / 511.0F) << "blocks begin at multiples of 512 in the flat array";
}

// -- all of them

TEST(Codec, ARangeCutBetweenBlocksIsTheSameNumbers) {
  const auto values = drawn(1024, 3);
  for (const form as : all_forms) {
    auto parts = through(as, {values.begin(), values.begin() + 512});
    const auto rest = through(as, {values.begin() + 512, values.end()}, 512);
    parts.insert(parts.end(), rest.begin(), rest.end());
    EXPECT_EQ(parts, through(as, values));
  }
}

TEST(Codec, DecodedNumbersAreAddedWithTheirWeight) {
  const auto values = drawn(600, 4);
  for (const form as : all_forms) {
    const coded_range where{32, 600};
    const auto bytes = encoded(as, where, values);
    std::vector<float> sum(600, 1.0F);
    add_decoded(as, where, bytes, 0.5F, sum);
    const auto alone = decoded(as, where, bytes);
    for (std::size_t i = 0; i < sum.size(); ++i)
      EXPECT_EQ(sum[i], 1.0F + 0.5F * alone[i]);
  }
}

TEST(Codec, WhatWasSentAndTheResidualAddUpToAllGradients) {
  for (const form as : all_forms) {
    const coded_range where{0, 700};
    std::vector<float> residual(700);
    std::vector<double> given(700), sent(700);
    for (std::uint32_t step = 0; step < 100; ++step) {
      const auto gradient = drawn(700, 100 + step, 0.01F);
      message bytes(encoded_bytes(as, where));
      ASSERT_TRUE(encode_with_feedback(as, where, {.seed = 3, .step = step}, gradient, residual, bytes));
      const auto found = decoded(as, where, bytes);
      for (std::size_t i = 0; i < 700; ++i) {
        given[i] += gradient[i];
        sent[i] += found[i];
      }
    }
    for (std::size_t i = 0; i < 700; ++i)
      EXPECT_NEAR(sent[i] + residual[i], given[i], 1e-5);
  }
}

TEST(Codec, WhatIsNotFiniteLeavesTheResidualAndSendsZeros) {
  for (const form as : all_forms)
    for (const float bad : {std::numeric_limits<float>::quiet_NaN(), -std::numeric_limits<float>::infinity()}) {
      const coded_range where{0, 300};
      std::vector<float> gradient(300, 1.0F), residual(300, 0.25F);
      gradient[299] = bad;
      message bytes(encoded_bytes(as, where), std::byte{0xff});
      EXPECT_FALSE(encode_with_feedback(as, where, some_key, gradient, residual, bytes));
      EXPECT_EQ(residual, std::vector<float>(300, 0.25F));
      EXPECT_EQ(decoded(as, where, bytes), std::vector<float>(300));
    }
}

TEST(Codec, BytesOfOthersAreLookedAt) {
  const coded_range where{0, 600};
  const auto values = drawn(600, 5);
  for (const form as : all_forms) {
    auto bytes = encoded(as, where, values);
    EXPECT_TRUE(is_sound(as, where, bytes));
    EXPECT_FALSE(is_sound(as, {0, 700}, bytes));
    EXPECT_FALSE(is_sound(as, {1, 600}, bytes));
    EXPECT_FALSE(is_sound(as, {0, -600}, bytes));
    const float bad = std::numeric_limits<float>::quiet_NaN();
    std::memcpy(bytes.data() + 4, &bad, 4);
    EXPECT_EQ(is_sound(as, where, bytes), as == form::fp32 || as == form::fp16 || as == form::bf16);
    bytes.pop_back();
    EXPECT_FALSE(is_sound(as, where, bytes));
  }
  // Any bits decode to something.
  std::mt19937 dice(6);
  for (int times = 0; times < 200; ++times)
    for (const form as : all_forms) {
      message noise(encoded_bytes(as, where));
      for (auto& each : noise)
        each = static_cast<std::byte>(dice());
      std::vector<float> out(600);
      if (is_sound(as, where, noise))
        decode(as, where, noise, out);
    }
}

} // namespace
} // namespace troupe::kernels
