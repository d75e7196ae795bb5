// SPDX-License-Identifier: BSD-3-Clause
// A plot's axes.
#include "apps/plot/plot_axis.hpp"

#include <algorithm>
#include <cmath>

namespace troupe::apps {

namespace {

/// Widens a range that holds one value, or as good as one.
void widen(double& low, double& high) {
  constexpr double nothing = 1e-300; // below, powers of ten vanish
  const double largest = std::max(std::abs(low), std::abs(high));
  if (high - low > std::max(1e-9 * largest, nothing))
    return;
  const double half = largest < nothing ? 0.5 : largest / 2;
  low -= half;
  high += half;
}

/// The smallest of 1, 2, 5 times a power of ten that is not below `least`.
double round_step(double least) {
  const double power = std::pow(10, std::floor(std::log10(least)));
  for (const double times : {1.0, 2.0, 5.0})
    if (times * power >= least * (1 - 1e-9))
      return times * power;
  return 10 * power;
}

} // namespace

double axis::share(double value) const {
  if (!logarithmic)
    return (value - low) / (high - low);
  return value > 0 ? (std::log(value) - std::log(low)) / (std::log(high) - std::log(low)) : std::nan("");
}

axis linear_axis(double low, double high, int ticks) {
  widen(low, high);
  axis a{low, high, false, {}};
  const double step = round_step((high - low) / ticks);
  const double slack = 1e-9 * (high - low); // a tick at the very end belongs to the axis
  for (double i = std::ceil((low - slack) / step); i * step <= high + slack; ++i)
    a.ticks.push_back(i * step + 0.0); // no -0
  return a;
}

axis log_axis(double low, double high) {
  widen(low, high);
  axis a{low, high, true, {}};
  const double first = std::floor(std::log10(low)), last = std::ceil(std::log10(high));
  constexpr double short_range = 3, most_ticks = 9;
  const bool between = last - first <= short_range;
  const double stride = std::max(1.0, std::ceil((last - first) / most_ticks));
  for (double power = first; power <= last; power += stride)
    for (const double times : {1.0, 2.0, 5.0}) {
      const double tick = times * std::pow(10, power);
      if ((times == 1 || between) && tick >= low * (1 - 1e-9) && tick <= high * (1 + 1e-9))
        a.ticks.push_back(tick);
    }
  return a;
}

} // namespace troupe::apps
