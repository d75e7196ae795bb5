// SPDX-License-Identifier: BSD-3-Clause
// A plot's axes: a range of values, round ticks in it, and where a value lies.
#pragma once

#include <vector>

namespace troupe::apps {

/// `low` < `high`, both finite; of a logarithmic axis above 0. Ticks rise and lie within.
struct axis {
  double low = 0, high = 1;
  bool logarithmic = false;
  std::vector<double> ticks;
  /// Where a value lies: 0 at `low`, 1 at `high`, outside [0, 1] beyond them. NaN where the value has no logarithm.
  double share(double value) const;
};

/// From `low` to `high`, ticks at multiples of 1, 2 or 5 times a power of ten, about `ticks` of them. An empty range is widened.
axis linear_axis(double low, double high, int ticks);
/// The same in decades; ticks at powers of ten, in a short range at 2 and 5 times them, too. `low` > 0.
axis log_axis(double low, double high);

} // namespace troupe::apps
