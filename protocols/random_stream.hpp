// SPDX-License-Identifier: BSD-3-Clause
// Our own random numbers, so that a seed means the same on every platform: SplitMix64 (Steele, Lea, Flood, OOPSLA 2014).
#pragma once

#include <cstdint>

#include "kernels/assert.hpp"

namespace troupe::protocols {

/// A value type, cheap enough to make one for each thing that is drawn.
class random_stream {
public:
  explicit random_stream(std::uint64_t seed) : state_(seed) {}
  /// The stream that belongs to a tuple of numbers: equal tuples, equal streams.
  template <class... Numbers>
  static random_stream keyed(std::uint64_t seed, Numbers... numbers) {
    random_stream out{seed};
    ((out.state_ = out.next() ^ static_cast<std::uint64_t>(numbers)), ...);
    return random_stream{out.next()};
  }
  std::uint64_t next() {
    std::uint64_t z = (state_ += 0x9e3779b97f4a7c15);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
    z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
    return z ^ (z >> 31);
  }
  std::uint64_t below(std::uint64_t n) {
    TROUPE_ASSERT(n > 0);
    return next() % n;
  }
  /// In [0, 1).
  double uniform() { return static_cast<double>(next() >> 11) * 0x1p-53; }
  bool hit(double probability) { return uniform() < probability; }

private:
  std::uint64_t state_;
};

} // namespace troupe::protocols
