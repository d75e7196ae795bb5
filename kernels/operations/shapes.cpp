// SPDX-License-Identifier: BSD-3-Clause
// Arithmetic of strided arrays.
#include "kernels/operations/shapes.hpp"

#include <algorithm>
#include <functional>
#include <numeric>

#include "kernels/assert.hpp"

namespace troupe::kernels {

axes extents_of(std::span<const std::int64_t> extents) {
  TROUPE_ASSERT(extents.size() <= most_axes);
  axes out;
  out.fill(1);
  std::copy_backward(extents.begin(), extents.end(), out.end());
  return out;
}

axes row_major(const axes& extents) {
  axes out;
  std::int64_t step = 1;
  for (std::size_t i = most_axes; i-- > 0; step *= extents[i])
    out[i] = step;
  return out;
}

std::int64_t elements(const axes& extents) {
  return std::accumulate(extents.begin(), extents.end(), std::int64_t{1}, std::multiplies<>());
}

std::int64_t reach(const axes& extents, const axes& strides) {
  if (elements(extents) == 0)
    return 0;
  std::int64_t last = 0;
  for (std::size_t i = 0; i < most_axes; ++i)
    last += (extents[i] - 1) * strides[i];
  return last + 1;
}

} // namespace troupe::kernels
