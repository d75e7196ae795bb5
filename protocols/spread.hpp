// SPDX-License-Identifier: BSD-3-Clause
// The median and how far values are from it.
#pragma once

#include <algorithm>
#include <cstddef>
#include <span>

#include "kernels/assert.hpp"
#include "protocols/ids.hpp"

namespace troupe::protocols {

/// Of an even number, the upper middle one. Reorders the values, of which there is at least one.
template <class Value>
Value median(std::span<Value> values) {
  TROUPE_ASSERT(!values.empty());
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::ranges::nth_element(values, middle);
  return *middle;
}

struct spread {
  nanoseconds middle = 0; ///< the median
  nanoseconds mad = 0;    ///< the median distance from it
};

/// Leaves the distances in `values`.
inline spread spread_of(std::span<nanoseconds> values) {
  const nanoseconds middle = median(values);
  for (nanoseconds& each : values)
    each = std::max(each - middle, middle - each);
  return {middle, median(values)};
}

} // namespace troupe::protocols
