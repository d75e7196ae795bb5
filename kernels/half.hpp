// SPDX-License-Identifier: BSD-3-Clause
// Floats of numbers that have half their width.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>

namespace troupe::kernels {

/// Of IEEE half precision; exact. Without branches, so that loops of it become vectors: the conversion of _Float16 is a call for
/// each element where a processor's own is not assumed.
inline float from_half(std::uint16_t bits) {
  const std::uint32_t size = (bits & 0x7fffU) << 13U, sign = (bits & 0x8000U) << 16U;
  const float subnormal = std::bit_cast<float>(size + (113U << 23U)) - 0x1p-14F;
  const std::uint32_t finite = size < 1U << 23U ? std::bit_cast<std::uint32_t>(subnormal) : size + (112U << 23U);
  return std::bit_cast<float>(sign | (size < 31U << 23U ? finite : size | 0x7f800000U));
}

/// The nearest, ties to even; beyond the largest finite: that.
inline std::uint16_t to_half(float x) {
  const auto bits = std::bit_cast<std::uint32_t>(x);
  const float size = std::min(std::bit_cast<float>(bits & 0x7fffffffU), 65504.0F);
  const auto raw = std::bit_cast<std::uint32_t>(size);
  // A subnormal is a whole number of 2^-24, which the addition rounds.
  const std::uint32_t subnormal = std::bit_cast<std::uint32_t>(size + 0.5F) - std::bit_cast<std::uint32_t>(0.5F);
  const std::uint32_t normal = (raw - (112U << 23U) + 0xfffU + (raw >> 13U & 1U)) >> 13U;
  const std::uint32_t out = raw < 113U << 23U ? subnormal : std::min(normal, std::uint32_t{0x7bff});
  return static_cast<std::uint16_t>((bits >> 16U & 0x8000U) | out);
}

/// Of bfloat16, the upper half of a float; exact.
inline float from_bfloat(std::uint16_t bits) {
  return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16U);
}

/// The nearest, ties to even; beyond the largest finite: that.
inline std::uint16_t to_bfloat(float x) {
  const auto bits = std::bit_cast<std::uint32_t>(x);
  const std::uint32_t size = bits & 0x7fffffffU, odd = size >> 16U & 1U;
  const std::uint32_t out = std::min((size + 0x7fffU + odd) >> 16U, std::uint32_t{0x7f7f});
  return static_cast<std::uint16_t>((bits >> 16U & 0x8000U) | out);
}

} // namespace troupe::kernels
