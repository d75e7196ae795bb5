// SPDX-License-Identifier: BSD-3-Clause
// Sums, and the search for values that are not finite.
#include "kernels/cuda/columns.hpp"
#include "kernels/cuda/groups.hpp"
#include "kernels/cuda/kernels.hpp"

namespace troupe::kernels::cuda {

namespace {

constexpr int sum_threads = 256;

std::int64_t sum_blocks(std::int64_t count) {
  return std::clamp<std::int64_t>(count / (sum_threads * 16), 1, 1024); // by the shape alone, never by the device
}

/// Each thread adds its groups of four in double; the groups go round the threads of all blocks.
__global__ void __launch_bounds__(sum_threads) sum_kernel(const float* x, std::int64_t count, double* partial, bool wide) {
  const std::int64_t groups = (count + 3) / 4;
  double total = 0;
  for (std::int64_t g = grid_thread(); g < groups; g += grid_threads()) {
    const auto values = load_group(x, g * 4, count, wide, 0.0F);
    for (int e = 0; e < 4; ++e)
      total += static_cast<double>(values.v[e]);
  }
  total = reduce<sum_threads>(total, add_op{});
  if (threadIdx.x == 0)
    partial[blockIdx.x] = total;
}

__global__ void __launch_bounds__(sum_threads) add_partials_kernel(const double* partial, std::int64_t count, float* result) {
  double total = 0;
  for (std::int64_t i = threadIdx.x; i < count; i += sum_threads)
    total += partial[i];
  total = reduce<sum_threads>(total, add_op{});
  if (threadIdx.x == 0)
    *result = static_cast<float>(total);
}

__global__ void set_flag_kernel(std::int32_t* flag) {
  *flag = 1;
}

/// Each thread that finds one writes the same 0, so the order does not matter.
__global__ void __launch_bounds__(256) all_finite_kernel(const float* x, std::int64_t count, std::int32_t* flag, bool wide) {
  const std::int64_t groups = (count + 3) / 4;
  bool bad = false;
  for (std::int64_t g = grid_thread(); g < groups; g += grid_threads()) {
    const auto values = load_group(x, g * 4, count, wide, 0.0F);
    for (int e = 0; e < 4; ++e)
      bad = bad || values.v[e] - values.v[e] != 0.0F; // infinity - infinity and NaN - NaN are NaN
  }
  if (bad)
    *flag = 0;
}

/// A block of threads per block of elements.
__global__ void __launch_bounds__(sum_threads) sum_squares_kernel(const __grid_constant__ sum_squares args) {
  const std::int64_t begin = static_cast<std::int64_t>(blockIdx.x) * square_block;
  const std::int64_t end = begin + square_block < args.count ? begin + square_block : args.count;
  double total = 0;
  for (std::int64_t i = begin + threadIdx.x; i < end; i += sum_threads)
    total += static_cast<double>(args.x[i]) * static_cast<double>(args.x[i]);
  total = reduce<sum_threads>(total, add_op{});
  if (threadIdx.x == 0)
    args.blocks[blockIdx.x] = total;
}

struct element_terms {
  const float* x;
  std::int64_t columns;
  __device__ void add(std::int64_t row, std::int64_t column, float (&sums)[1]) const { sums[0] += x[row * columns + column]; }
};

} // namespace

std::int64_t scratch_floats(const sum& op) {
  return 2 * sum_blocks(op.count);
}

void enqueue(cudaStream_t stream, const sum& op, float* scratch) {
  auto* partial = reinterpret_cast<double*>(scratch);
  const std::int64_t blocks = sum_blocks(op.count);
  launch(sum_kernel, one_dimension(blocks), one_dimension(sum_threads), stream, op.x, op.count, partial, aligned16(op.x));
  launch(add_partials_kernel, one_dimension(1), one_dimension(sum_threads), stream, static_cast<const double*>(partial), blocks,
         op.result);
}

std::int64_t scratch_floats(const sum_rows& op) {
  return op.columns > 0 ? column_split(op.rows, op.columns).scratch(1) : 0;
}

void enqueue(cudaStream_t stream, const sum_rows& op, float* scratch) {
  column_sums<1>(stream, element_terms{op.x, op.columns}, {op.y}, op.rows, op.columns, scratch, op.accumulate);
}

void enqueue(cudaStream_t stream, const sum_squares& op) {
  if (op.count > 0)
    launch(sum_squares_kernel, one_dimension(op.block_count()), one_dimension(sum_threads), stream, op);
}

void enqueue(cudaStream_t stream, const all_finite& op) {
  launch(set_flag_kernel, one_dimension(1), one_dimension(1), stream, op.flag);
  if (op.count > 0)
    launch(all_finite_kernel, blocks_for(ceil_div(op.count, 4), 256), one_dimension(256), stream, op.x, op.count, op.flag,
           aligned16(op.x));
}

} // namespace troupe::kernels::cuda
