// SPDX-License-Identifier: BSD-3-Clause
// Merges neighbouring axes.
#include "kernels/operations/merged.hpp"

#include <algorithm>
#include <numeric>
#include <span>

namespace troupe::kernels {

namespace {

void merge_axes(axes& extents, std::span<axes* const> strides) {
  std::size_t kept = 0; // axes [0, kept) are done
  for (std::size_t i = 0; i < most_axes; ++i) {
    if (extents[i] == 1)
      continue;
    const bool steps_on =
        kept > 0 && std::ranges::all_of(strides, [&](const axes* s) { return (*s)[kept - 1] == (*s)[i] * extents[i]; });
    const std::size_t to = steps_on ? kept - 1 : kept++;
    extents[to] = steps_on ? extents[to] * extents[i] : extents[i];
    for (axes* s : strides)
      (*s)[to] = (*s)[i];
  }
  const auto push_back = [kept](axes& numbers, std::int64_t in_front) {
    std::copy_backward(numbers.begin(), numbers.begin() + static_cast<std::ptrdiff_t>(kept), numbers.end());
    std::fill_n(numbers.begin(), most_axes - kept, in_front);
  };
  push_back(extents, 1);
  for (axes* s : strides)
    push_back(*s, 0);
}

/// The axes in another order, the largest stride of y first.
void sort_by_y(copy_strided& op) {
  std::array<std::size_t, most_axes> order;
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::stable_sort(order, [&](std::size_t a, std::size_t b) { return op.y_strides[a] > op.y_strides[b]; });
  const copy_strided before = op;
  for (std::size_t i = 0; i < most_axes; ++i) {
    op.extents[i] = before.extents[order[i]];
    op.x_strides[i] = before.x_strides[order[i]];
    op.y_strides[i] = before.y_strides[order[i]];
  }
}

} // namespace

copy_strided merged(copy_strided op) {
  for (std::size_t i = 0; i < most_axes; ++i)
    op.y_strides[i] = op.extents[i] == 1 ? 0 : op.y_strides[i];
  sort_by_y(op);
  const std::array<axes*, 2> strides{&op.x_strides, &op.y_strides};
  merge_axes(op.extents, strides);
  return op;
}

broadcast_binary merged(broadcast_binary op) {
  const std::array<axes*, 2> strides{&op.a_strides, &op.b_strides};
  merge_axes(op.extents, strides);
  return op;
}

sum_axes merged(sum_axes op) {
  const std::array<axes*, 1> strides{&op.y_strides};
  merge_axes(op.extents, strides);
  return op;
}

} // namespace troupe::kernels
