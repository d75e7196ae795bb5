// SPDX-License-Identifier: BSD-3-Clause
// Kernels over the rows of a matrix: a row to a warp, or to a block where rows are long.
#pragma once

#include "kernels/cuda/reduce.hpp"

namespace troupe::kernels::cuda {

inline constexpr std::int64_t longest_for_a_warp = 1024;

/// The row of this group of `Threads`: eight warps share a block.
template <int Threads>
__device__ inline std::int64_t own_row() {
  return static_cast<std::int64_t>(blockIdx.x) * blockDim.y + threadIdx.y;
}

template <int Threads>
__device__ inline peak row_peak(const float* x, std::int64_t columns) {
  peak best{0, -1};
  for (std::int64_t i = threadIdx.x; i < columns; i += Threads)
    best = first_peak_op{}(best, {x[i], x[i] == x[i] ? static_cast<std::int32_t>(i) : -1}); // NaN is no candidate
  return reduce<Threads>(best, first_peak_op{});
}

/// Of exp(x - peak); NaN where the row holds one.
template <int Threads>
__device__ inline float row_exp_sum(const float* x, std::int64_t columns, float top) {
  float total = 0;
  for (std::int64_t i = threadIdx.x; i < columns; i += Threads)
    total += expf(x[i] - top);
  return reduce<Threads>(total, add_op{});
}

/// The sum of f(i) over a row's columns, for all threads of its group.
template <int Threads, class F>
__device__ inline float row_sum(std::int64_t columns, F f) {
  float total = 0;
  for (std::int64_t i = threadIdx.x; i < columns; i += Threads)
    total += f(i);
  return reduce<Threads>(total, add_op{});
}

/// One launch for rows of this length; `of_warp` and `of_block` are the same kernel for both sizes of group.
template <class... Parameters, class... Arguments>
void launch_rows(void (*of_warp)(Parameters...), void (*of_block)(Parameters...), std::int64_t rows, std::int64_t columns,
                 cudaStream_t stream, const Arguments&... arguments) {
  if (rows == 0)
    return;
  const bool warp = columns <= longest_for_a_warp;
  dim3 block;
  block.x = warp ? 32 : 256;
  block.y = warp ? 8 : 1;
  launch(warp ? of_warp : of_block, one_dimension(ceil_div(rows, block.y)), block, stream, arguments...);
}

} // namespace troupe::kernels::cuda
