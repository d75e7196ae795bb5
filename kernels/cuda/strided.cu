// SPDX-License-Identifier: BSD-3-Clause
// Operations on strided arrays, by merged axes.
#include "kernels/cuda/columns.hpp"
#include "kernels/cuda/device_math.hpp"
#include "kernels/cuda/groups.hpp"
#include "kernels/cuda/kernels.hpp"
#include "kernels/operations/merged.hpp"

namespace troupe::kernels::cuda {

namespace {

constexpr int axis_count = static_cast<int>(most_axes);

/// Extents and strides as a kernel takes them.
template <int Arrays>
struct walk {
  std::int64_t extents[axis_count];
  std::int64_t strides[Arrays][axis_count];
  int first; ///< the first axis that is longer than 1

  /// Adds the place of element `index`, counted in order, to each array's offset.
  __device__ void locate(std::int64_t index, std::int64_t (&offsets)[Arrays]) const {
    for (int axis = axis_count - 1; axis >= first; --axis) {
      const std::int64_t place = index % extents[axis];
      index /= extents[axis];
      for (int a = 0; a < Arrays; ++a)
        offsets[a] += place * strides[a][axis];
    }
  }
};

template <int Arrays>
walk<Arrays> walk_of(const axes& extents, const std::array<const axes*, Arrays>& strides) {
  walk<Arrays> out = {};
  for (std::size_t axis = 0; axis < most_axes; ++axis) {
    out.extents[axis] = extents[axis];
    for (std::size_t a = 0; a < Arrays; ++a)
      out.strides[a][axis] = (*strides[a])[axis];
  }
  while (out.first < axis_count - 1 && out.extents[out.first] == 1)
    ++out.first;
  return out;
}

template <binary_op Op>
__global__ void __launch_bounds__(256)
    broadcast_kernel(const __grid_constant__ walk<2> places, const float* a, const float* b, float* y, std::int64_t count) {
  for (std::int64_t i = grid_thread(); i < count; i += grid_threads()) {
    std::int64_t offsets[2] = {};
    places.locate(i, offsets);
    const float left = a[offsets[0]], right = b[offsets[1]];
    if constexpr (Op == binary_op::add)
      y[i] = left + right;
    else if constexpr (Op == binary_op::subtract)
      y[i] = left - right;
    else if constexpr (Op == binary_op::multiply)
      y[i] = left * right;
    else
      y[i] = left / right;
  }
}

__global__ void __launch_bounds__(256) copy_kernel(const __grid_constant__ walk<2> places, const float* x, float* y, float alpha,
                                                   bool accumulate, std::int64_t count) {
  for (std::int64_t i = grid_thread(); i < count; i += grid_threads()) {
    std::int64_t offsets[2] = {};
    places.locate(i, offsets);
    const float value = x[offsets[0]];
    float& to = y[offsets[1]];
    if (alpha == 1 && !accumulate)
      to = value; // the bits, whatever they stand for
    else
      to = accumulate ? mul_add(alpha, value, to) : alpha * value;
  }
}

/// Sums of fewer elements are a thread's each.
constexpr std::int64_t fewest_for_a_block = 32;

__global__ void __launch_bounds__(256)
    short_sums_kernel(const __grid_constant__ walk<2> kept, const __grid_constant__ walk<1> summed, const float* x, float* y,
                      float scale, bool accumulate, std::int64_t elements, std::int64_t sums) {
  for (std::int64_t i = grid_thread(); i < sums; i += grid_threads()) {
    std::int64_t begin[2] = {};
    kept.locate(i, begin);
    float total = 0;
    for (std::int64_t j = 0; j < elements; ++j) {
      std::int64_t place[1] = {begin[0]};
      summed.locate(j, place);
      total += x[place[0]];
    }
    y[begin[1]] = accumulate ? mul_add(scale, total, y[begin[1]]) : scale * total;
  }
}

/// A block of threads for each sum: `kept` finds it, `summed` its elements.
__global__ void __launch_bounds__(256) sum_kernel(const __grid_constant__ walk<2> kept, const __grid_constant__ walk<1> summed,
                                                  const float* x, float* y, float scale, bool accumulate, std::int64_t elements) {
  std::int64_t begin[2] = {}; // in x and in y
  kept.locate(blockIdx.x, begin);
  float total = 0;
  for (std::int64_t i = threadIdx.x; i < elements; i += 256) {
    std::int64_t place[1] = {begin[0]};
    summed.locate(i, place);
    total += x[place[0]];
  }
  total = reduce<256>(total, add_op{});
  if (threadIdx.x == 0)
    y[begin[1]] = accumulate ? mul_add(scale, total, y[begin[1]]) : scale * total;
}

} // namespace

void enqueue(cudaStream_t stream, const broadcast_binary& given) {
  const auto op = merged(given);
  const std::int64_t count = elements(op.extents);
  if (count == 0)
    return;
  const auto places = walk_of<2>(op.extents, {&op.a_strides, &op.b_strides});
  const auto run = [&](auto* kernel) {
    launch(kernel, blocks_for(count, 256), one_dimension(256), stream, places, op.a, op.b, op.y, count);
  };
  switch (op.op) {
  case binary_op::add:
    return run(broadcast_kernel<binary_op::add>);
  case binary_op::subtract:
    return run(broadcast_kernel<binary_op::subtract>);
  case binary_op::multiply:
    return run(broadcast_kernel<binary_op::multiply>);
  case binary_op::divide:
    return run(broadcast_kernel<binary_op::divide>);
  }
}

void enqueue(cudaStream_t stream, const copy_strided& given) {
  const auto op = merged(given);
  const std::int64_t count = elements(op.extents);
  if (count > 0)
    launch(copy_kernel, blocks_for(count, 256), one_dimension(256), stream,
           walk_of<2>(op.extents, {&op.x_strides, &op.y_strides}), op.x, op.y, op.alpha, op.accumulate, count);
}

void enqueue(cudaStream_t stream, const sum_axes& given) {
  const auto op = merged(given);
  const axes x_strides = row_major(op.extents);
  axes kept = op.extents, summed = op.extents;
  for (std::size_t axis = 0; axis < most_axes; ++axis)
    (op.y_strides[axis] == 0 ? kept : summed)[axis] = 1;
  const std::int64_t sums = elements(kept), of_each = elements(summed);
  if (sums == 0)
    return;
  const auto of_sum = walk_of<2>(kept, {&x_strides, &op.y_strides});
  const auto of_element = walk_of<1>(summed, {&x_strides});
  if (of_each < fewest_for_a_block)
    launch(short_sums_kernel, blocks_for(sums, 256), one_dimension(256), stream, of_sum, of_element, op.x, op.y, op.scale,
           op.accumulate, of_each, sums);
  else
    launch(sum_kernel, one_dimension(sums), one_dimension(256), stream, of_sum, of_element, op.x, op.y, op.scale, op.accumulate,
           of_each);
}

} // namespace troupe::kernels::cuda
