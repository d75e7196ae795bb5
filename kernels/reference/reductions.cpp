// SPDX-License-Identifier: BSD-3-Clause
// Sums and other reductions, as plain loops.
#include "kernels/reference/compute.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <span>

namespace troupe::kernels::reference {

double weighted(std::span<const term> terms, std::int64_t i) {
  double result = 0;
  for (const term& t : terms)
    result += static_cast<double>(static_cast<float>(t.weight)) * t.data[i];
  return result;
}

void compute(const kernels::sum_rows& op) {
  std::vector<double> sums(size(op.columns));
  for (std::int64_t i = 0; i < op.rows * op.columns; ++i)
    sums[size(i % op.columns)] += op.x[i];
  store(sums, op.y, op.accumulate);
}

void compute(const kernels::sum& op) {
  *op.result = rounded(std::accumulate(op.x, op.x + op.count, 0.0));
}

void compute(const kernels::sum_axes& op) {
  std::map<std::int64_t, double> sums; // by place in y
  for (std::int64_t i = 0; i < elements(op.extents); ++i) {
    std::int64_t rest = i, place = 0;
    for (std::size_t axis = most_axes; axis-- > 0; rest /= op.extents[axis])
      place += rest % op.extents[axis] * op.y_strides[axis];
    sums[place] += op.x[i];
  }
  for (const auto& [place, sum] : sums)
    op.y[place] = rounded(op.scale * sum + (op.accumulate ? static_cast<double>(op.y[place]) : 0.0));
}

void compute(const kernels::sum_squares& op) {
  std::fill_n(op.blocks, op.block_count(), 0.0);
  for (std::int64_t i = 0; i < op.count; ++i)
    op.blocks[i / square_block] += static_cast<double>(op.x[i]) * op.x[i];
}

void compute(const kernels::weighted_sum& op) {
  for (std::int64_t i = 0; i < op.count; ++i)
    op.y[i] = rounded(weighted(op.terms, i));
}

void compute(const kernels::all_finite& op) {
  *op.flag = std::all_of(op.x, op.x + op.count, [](float v) { return std::isfinite(v); }) ? 1 : 0;
}

} // namespace troupe::kernels::reference
