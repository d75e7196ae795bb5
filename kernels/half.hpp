// SPDX-License-Identifier: BSD-3-Clause
// Floats of numbers that have half their width.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>

namespace troupe::kernels {

/// Of IEEE half precision; exact.
inline float from_half(std::uint16_t bits) {
  return static_cast<float>(std::bit_cast<_Float16>(bits));
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
