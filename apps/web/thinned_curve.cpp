// SPDX-License-Identifier: BSD-3-Clause
// Merges neighbouring points.
#include "apps/web/thinned_curve.hpp"

#include <algorithm>
#include <cmath>

namespace troupe::apps::web {

namespace {

thinned_curve::point both(const thinned_curve::point& a, const thinned_curve::point& b) {
  const auto values = a.values + b.values;
  const auto share = static_cast<double>(b.values) / static_cast<double>(values);
  return {a.at, a.mean + (b.mean - a.mean) * share, std::min(a.low, b.low), std::max(a.high, b.high), values};
}

} // namespace

void thinned_curve::add(double at, double value) {
  if (!std::isfinite(value))
    return;
  const point one{at, value, value, value, 1};
  if (!points_.empty() && points_.back().values < values_per_point_) {
    points_.back() = both(points_.back(), one);
    return;
  }
  if (points_.size() == most_) {
    for (std::size_t i = 0; i < most_ / 2; ++i)
      points_[i] = both(points_[2 * i], points_[2 * i + 1]);
    points_.resize(most_ / 2);
    values_per_point_ *= 2;
  }
  points_.push_back(one);
}

} // namespace troupe::apps::web
