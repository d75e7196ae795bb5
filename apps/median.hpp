// SPDX-License-Identifier: BSD-3-Clause
// The median, for benchmarks and the console.
#pragma once

#include <algorithm>
#include <vector>

namespace troupe {

/// The middle value, or the mean of the middle two; 0 for no values.
inline double median(std::vector<double> values) {
  if (values.empty())
    return 0;
  std::ranges::sort(values);
  const auto half = values.size() / 2;
  return values.size() % 2 == 1 ? values[half] : (values[half - 1] + values[half]) / 2;
}

} // namespace troupe
