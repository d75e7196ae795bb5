// SPDX-License-Identifier: BSD-3-Clause
// Sums over the rows of a matrix, column by column, without atomics: the order of additions depends on the shape alone.
#pragma once

#include <array>

#include "kernels/cuda/reduce.hpp"

namespace troupe::kernels::cuda {

/// A block sums 32 columns over one stretch of rows, eight rows at a time; where the matrix is too narrow to fill a device, the
/// rows are cut into several stretches and their sums are added by a second pass.
struct column_split {
  std::int64_t columns, splits, rows_each;

  column_split(std::int64_t rows, std::int64_t width) : columns(width) {
    constexpr std::int64_t wanted_blocks = 512, fewest_rows = 32, most_splits = 256;
    const std::int64_t wanted = std::min(ceil_div(wanted_blocks, ceil_div(width, 32)), most_splits);
    rows_each = std::max(ceil_div(std::max<std::int64_t>(rows, 1), wanted), fewest_rows);
    splits = ceil_div(std::max<std::int64_t>(rows, 1), rows_each);
  }
  /// Floats of scratch for `outputs` sums.
  std::int64_t scratch(int outputs) const { return splits > 1 ? splits * outputs * columns : 0; }
};

template <int Outputs>
struct column_targets {
  float* to[Outputs];
  std::int64_t stride; ///< from one split's sums to the next's
  bool accumulate;     ///< adds to what is there
};

/// terms.add(row, column, sums) adds what one element gives to `Outputs` sums.
template <int Outputs, class Terms>
__global__ void __launch_bounds__(256) column_sums_kernel(Terms terms, column_targets<Outputs> out, std::int64_t rows,
                                                          std::int64_t columns, std::int64_t rows_each) {
  __shared__ float partial[Outputs][8][32];
  const std::int64_t column = static_cast<std::int64_t>(blockIdx.x) * 32 + threadIdx.x;
  const std::int64_t begin = blockIdx.y * rows_each, end = begin + rows_each < rows ? begin + rows_each : rows;
  float sums[Outputs] = {};
  if (column < columns)
    for (std::int64_t r = begin + threadIdx.y; r < end; r += 8)
      terms.add(r, column, sums);
  for (int o = 0; o < Outputs; ++o)
    partial[o][threadIdx.y][threadIdx.x] = sums[o];
  __syncthreads();
  if (threadIdx.y != 0 || column >= columns)
    return;
  for (int o = 0; o < Outputs; ++o) {
    float total = partial[o][0][threadIdx.x];
    for (int y = 1; y < 8; ++y)
      total += partial[o][y][threadIdx.x];
    float& place = out.to[o][blockIdx.y * out.stride + column];
    place = out.accumulate ? place + total : total;
  }
}

template <int Outputs>
__global__ void __launch_bounds__(256)
    add_splits_kernel(column_targets<Outputs> partial, column_targets<Outputs> out, std::int64_t columns, std::int64_t splits) {
  const std::int64_t column = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (column >= columns)
    return;
  for (int o = 0; o < Outputs; ++o) {
    float total = partial.to[o][column];
    for (std::int64_t s = 1; s < splits; ++s)
      total += partial.to[o][s * partial.stride + column];
    out.to[o][column] = out.accumulate ? out.to[o][column] + total : total;
  }
}

template <int Outputs, class Terms>
void column_sums(cudaStream_t stream, const Terms& terms, const std::array<float*, Outputs>& outputs, std::int64_t rows,
                 std::int64_t columns, float* scratch, bool accumulate) {
  if (columns == 0)
    return;
  const column_split split(rows, columns);
  column_targets<Outputs> target = {}, partial = {};
  partial.stride = Outputs * columns;
  target.accumulate = accumulate;
  for (int o = 0; o < Outputs; ++o) {
    target.to[o] = outputs[static_cast<std::size_t>(o)];
    partial.to[o] = scratch + o * columns;
  }
  dim3 grid, block;
  grid.x = static_cast<unsigned>(ceil_div(columns, 32));
  grid.y = static_cast<unsigned>(split.splits);
  block.x = 32;
  block.y = 8;
  launch(column_sums_kernel<Outputs, Terms>, grid, block, stream, terms, split.splits > 1 ? partial : target, rows, columns,
         split.rows_each);
  if (split.splits > 1)
    launch(add_splits_kernel<Outputs>, one_dimension(ceil_div(columns, 256)), one_dimension(256), stream, partial, target,
           columns, split.splits);
}

} // namespace troupe::kernels::cuda
