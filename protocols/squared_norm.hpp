// SPDX-License-Identifier: BSD-3-Clause
// The square of a gradient's norm, in a form whose sum has the same bits however its terms are grouped.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>

namespace troupe::protocols {

/// high 2^64 + low, in units of 2^-48 of the square of the largest norm that is allowed (`optimizer.clip_norm`). Integers add
/// exactly: the sum is the same over any number of shards, and whoever adds.
struct squared_norm {
  std::uint64_t high = 0, low = 0;
  friend bool operator==(const squared_norm&, const squared_norm&) = default;

  squared_norm& operator+=(const squared_norm& more) {
    low += more.low;
    high += more.high + (low < more.low ? 1 : 0);
    return *this;
  }
  /// `square`: a part of the sum, where 1 is the square of the largest norm. Rounded to a unit. What is beyond 2^60, or no
  /// number, counts as 2^60, so that 2^20 parts fit.
  void add(double square) {
    constexpr double unit = 0x1p48, most = 0x1p60, fits = 0x1p14;
    if (square < fits) // almost always
      return void(*this += {0, static_cast<std::uint64_t>(std::llrint(square * unit))});
    const double bounded = square < most ? square : most;
    const double whole = std::floor(bounded / 0x1p16); // of 2^64 units
    *this +=
        {static_cast<std::uint64_t>(whole), static_cast<std::uint64_t>(std::llrint((bounded - whole * 0x1p16) * 0x1p47)) << 1U};
  }
  /// The norm, where 1 is the largest that is allowed.
  double norm() const { return std::sqrt(std::ldexp(static_cast<double>(high), 16) + std::ldexp(static_cast<double>(low), -48)); }
};

/// What a gradient of these squares is multiplied by, so that its norm is at most `largest`: as by PyTorch's clip_grad_norm_. 1
/// where there are none: then nothing is clipped, and `largest` may be 0.
inline double clip_factor(double largest, const squared_norm& squares) {
  if (squares == squared_norm{})
    return 1;
  return std::min(1.0, 1 / (squares.norm() + 1e-6 / largest));
}

} // namespace troupe::protocols
