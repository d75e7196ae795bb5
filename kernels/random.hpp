// SPDX-License-Identifier: BSD-3-Clause
// Philox4x32-10, the counter-based generator behind every random number in Troupe, and the distributions drawn from it.
#pragma once

#include <array>
#include <cmath>
#include <cstdint>
#include <numbers>

#include "kernels/random_key.hpp"

namespace troupe::kernels {

/// Four random words from a counter and a key, a pure function: J. Salmon, M. Moraes, R. Dror, D. Shaw, "Parallel random
/// numbers: as easy as 1, 2, 3" (SC 2011), section 4.3, with their ten rounds. Checked against the authors' known answers.
constexpr std::array<std::uint32_t, 4> philox4x32(std::array<std::uint32_t, 4> counter, std::array<std::uint32_t, 2> key) {
  for (int round = 0; round < 10; ++round) {
    const std::uint64_t left = std::uint64_t{0xD2511F53} * counter[0];
    const std::uint64_t right = std::uint64_t{0xCD9E8D57} * counter[2];
    counter = {static_cast<std::uint32_t>(right >> 32) ^ counter[1] ^ key[0], static_cast<std::uint32_t>(right),
               static_cast<std::uint32_t>(left >> 32) ^ counter[3] ^ key[1], static_cast<std::uint32_t>(left)};
    key[0] += 0x9E3779B9; // the golden ratio
    key[1] += 0xBB67AE85; // sqrt(3) - 1
  }
  return counter;
}

/// Words 4 * block .. 4 * block + 3 of the sequence that `key` names. A sequence has 2^34 words.
constexpr std::array<std::uint32_t, 4> random_block(const random_key& key, std::uint32_t block) {
  return philox4x32({block, key.stream, static_cast<std::uint32_t>(key.step), static_cast<std::uint32_t>(key.step >> 32)},
                    {static_cast<std::uint32_t>(key.seed), static_cast<std::uint32_t>(key.seed >> 32)});
}

/// Word `index` of the sequence.
constexpr std::uint32_t random_word(const random_key& key, std::uint64_t index) {
  return random_block(key, static_cast<std::uint32_t>(index / 4))[index % 4];
}

/// A word as a float in [0, 1): its upper 24 bits, so that the value is exact and never rounds up to 1.
constexpr float uniform_float(std::uint32_t word) {
  return static_cast<float>(word >> 8) * 0x1p-24F;
}

/// Element `index` of a uniform [0, 1) sequence.
constexpr float random_uniform(const random_key& key, std::uint64_t index) {
  return uniform_float(random_word(key, index));
}

/// An integer in [0, bound) from one word: the upper half of word * bound (Lemire 2019, without the rejection: the bias is
/// below bound / 2^32, nothing for a shuffle of a data set). `bound` > 0.
constexpr std::uint32_t random_below(std::uint32_t word, std::uint32_t bound) {
  return static_cast<std::uint32_t>(std::uint64_t{word} * bound >> 32);
}

namespace detail {

/// ln(x) for x in (0, 1]. Not std::log: a C library may round differently in its next version, and initial weights must not
/// depend on that. Only +, -, *, / on doubles, each exactly rounded, in a fixed order.
constexpr double portable_log(double x) {
  int exponent = 0;
  for (; x < std::numbers::sqrt2 / 2; x *= 2)
    --exponent;
  const double s = (x - 1) / (x + 1), z = s * s; // ln x = 2 artanh(s), |s| < 0.172
  double series = 0;
  for (int k = 21; k >= 1; k -= 2)
    series = series * z + 1.0 / k;
  return 2 * s * series + exponent * std::numbers::ln2;
}

/// {cos, sin} of 2 pi u for u in [0, 1), made like portable_log.
constexpr std::array<double, 2> portable_cos_sin_turn(double u) {
  const int octant = static_cast<int>(u * 4 + 0.5);                       // nearest quarter turn
  const double x = (u - octant * 0.25) * 2 * std::numbers::pi, z = x * x; // |x| <= pi/4
  double cosine = 0, sine = 0;
  for (int k = 9; k >= 1; --k) {
    cosine = (1 - cosine) * z / ((2 * k - 1) * (2 * k));
    sine = (1 - sine) * z / ((2 * k) * (2 * k + 1));
  }
  cosine = 1 - cosine;
  sine = (1 - sine) * x;
  switch (octant % 4) {
  case 0:
    return {cosine, sine};
  case 1:
    return {-sine, cosine};
  case 2:
    return {-cosine, -sine};
  default:
    return {sine, -cosine};
  }
}

} // namespace detail

/// Element `index` of a standard normal sequence, by Box and Muller (1958): words 2i and 2i + 1 give elements 2i and 2i + 1.
/// The same bits on every machine whose compiler keeps IEEE arithmetic (no contraction is possible in what it calls on x86-64
/// without -mfma; elsewhere build with -ffp-contract=off).
inline float random_normal(const random_key& key, std::uint64_t index) {
  const auto words = random_block(key, static_cast<std::uint32_t>(index / 4));
  const std::size_t pair = index % 4 / 2 * 2;
  const double u = (words[pair] + 1.0) * 0x1p-32; // (0, 1]: the logarithm of 0 never happens
  const double radius = std::sqrt(-2 * detail::portable_log(u));
  return static_cast<float>(radius * detail::portable_cos_sin_turn(words[pair + 1] * 0x1p-32)[index % 2]);
}

} // namespace troupe::kernels
