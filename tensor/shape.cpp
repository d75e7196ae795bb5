// SPDX-License-Identifier: BSD-3-Clause
// Shapes as numbers and as text.
#include "tensor/shape.hpp"

#include <algorithm>
#include <functional>
#include <numeric>

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace troupe {

std::int64_t shape::elements() const {
  return std::accumulate(extents_.begin(), extents_.end(), std::int64_t{1}, std::multiplies<>());
}

std::string shape::to_string() const {
  return fmt::format("({})", fmt::join(extents_, ", "));
}

bool ends_with(const shape& whole, const shape& suffix) {
  return suffix.rank() <= whole.rank()
         && std::equal(suffix.extents().rbegin(), suffix.extents().rend(), whole.extents().rbegin());
}

} // namespace troupe
