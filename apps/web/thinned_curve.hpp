// SPDX-License-Identifier: BSD-3-Clause
// A curve that stays small however long it gets.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace troupe::apps::web {

/// Values in order of time. Where they become too many, neighbours become one point with their mean and range, so that the
/// whole course stays in sight at half the resolution.
class thinned_curve {
public:
  struct point {
    double at = 0; ///< of the first value
    double mean = 0, low = 0, high = 0;
    std::uint64_t values = 0;
    friend bool operator==(const point&, const point&) = default;
  };

  /// `most`: points, an even number.
  explicit thinned_curve(std::size_t most) : most_(most) {}

  /// What is not finite is no value.
  void add(double at, double value);
  /// Each but the last of equally many values.
  const std::vector<point>& points() const { return points_; }

private:
  std::size_t most_;
  std::uint64_t values_per_point_ = 1;
  std::vector<point> points_;
};

} // namespace troupe::apps::web
