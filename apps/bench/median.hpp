// SPDX-License-Identifier: BSD-3-Clause
// What every benchmark reports of its samples.
#pragma once

#include <algorithm>
#include <vector>

namespace troupe {

/// The middle one; of an even number the larger of the two. 0 of none.
inline double median(std::vector<double> values) {
  if (values.empty())
    return 0;
  const auto middle = values.begin() + std::ssize(values) / 2;
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

} // namespace troupe
