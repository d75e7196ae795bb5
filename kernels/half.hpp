// SPDX-License-Identifier: BSD-3-Clause
// Floats of numbers that have half their width.
#pragma once

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

} // namespace troupe::kernels
