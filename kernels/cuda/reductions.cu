// SPDX-License-Identifier: BSD-3-Clause
// Sums, and the search for what is not finite.
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

/// Whoever finds one writes the same 0: the order does not matter.
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

struct element_terms {
  const float* x;
  std::int64_t columns;
  __device__ void add(std::int64_t row, std::int64_t column, float (&sums)[1]) const { sums[0] += x[row * columns + column]; }
};

} // namespace

std::int64_t sum_scratch(std::int64_t count) {
  return 2 * sum_blocks(count);
}

void sum(cudaStream_t stream, const float* x, std::int64_t count, float* result, float* scratch) {
  auto* partial = reinterpret_cast<double*>(scratch);
  const std::int64_t blocks = sum_blocks(count);
  launch(sum_kernel, one_dimension(blocks), one_dimension(sum_threads), stream, x, count, partial, aligned16(x));
  launch(add_partials_kernel, one_dimension(1), one_dimension(sum_threads), stream, static_cast<const double*>(partial), blocks,
         result);
}

std::int64_t sum_rows_scratch(std::int64_t rows, std::int64_t columns) {
  return columns > 0 ? column_split(rows, columns).scratch(1) : 0;
}

void sum_rows(cudaStream_t stream, const float* x, float* y, std::int64_t rows, std::int64_t columns, float* scratch) {
  column_sums<1>(stream, element_terms{x, columns}, {y}, rows, columns, scratch);
}

void all_finite(cudaStream_t stream, const float* x, std::int64_t count, std::int32_t* flag) {
  launch(set_flag_kernel, one_dimension(1), one_dimension(1), stream, flag);
  if (count > 0)
    launch(all_finite_kernel, blocks_for(ceil_div(count, 4), 256), one_dimension(256), stream, x, count, flag, aligned16(x));
}

} // namespace troupe::kernels::cuda
