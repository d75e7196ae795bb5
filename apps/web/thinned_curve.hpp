// SPDX-License-Identifier: BSD-3-Clause
// A curve of bounded size.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace troupe::apps::web {

/// Values in order of time. When there are too many, neighbours are merged into one point with their mean and range, so that the
/// whole curve stays visible at half the resolution.
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

  /// Values that are not finite are ignored.
  void add(double at, double value);
  /// All but the last stand for equally many values.
  const std::vector<point>& points() const { return points_; }

private:
  std::size_t most_;
  std::uint64_t values_per_point_ = 1;
  std::vector<point> points_;
};

} // namespace troupe::apps::web
