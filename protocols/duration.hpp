// SPDX-License-Identifier: BSD-3-Clause
// Durations that a job gives as numbers, in the machines' nanoseconds.
#pragma once

#include <cmath>

#include "protocols/ids.hpp"

namespace troupe::protocols {

/// About thirty years; a few such durations added up still fit into 64 bits of nanoseconds.
inline constexpr nanoseconds longest_duration = 1'000'000'000'000'000'000;

/// Rounded; a longer duration, or one that is not a number, becomes the longest.
inline nanoseconds duration(double ns) {
  return ns < static_cast<double>(longest_duration) ? std::llround(std::fmax(ns, 0)) : longest_duration;
}
inline nanoseconds duration_of_s(double seconds) {
  return duration(seconds * 1e9);
}
inline nanoseconds duration_of_ms(double milliseconds) {
  return duration(milliseconds * 1e6);
}

} // namespace troupe::protocols
