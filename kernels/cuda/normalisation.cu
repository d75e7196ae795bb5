// SPDX-License-Identifier: BSD-3-Clause
// Softmax, the loss made of it, and layer normalisation: one row to a warp, or to a block where rows are long.
#include "kernels/cuda/columns.hpp"
#include "kernels/cuda/kernels.hpp"

namespace troupe::kernels::cuda {

namespace {

constexpr std::int64_t longest_for_a_warp = 1024;

/// The row of this group of `Threads`: eight warps share a block.
template <int Threads>
__device__ std::int64_t own_row() {
  return static_cast<std::int64_t>(blockIdx.x) * blockDim.y + threadIdx.y;
}

template <int Threads>
__device__ peak row_peak(const float* x, std::int64_t columns) {
  peak best{0, -1};
  for (std::int64_t i = threadIdx.x; i < columns; i += Threads)
    best = first_peak_op{}(best, {x[i], x[i] == x[i] ? static_cast<std::int32_t>(i) : -1}); // NaN is no candidate
  return reduce<Threads>(best, first_peak_op{});
}

/// Of exp(x - peak); NaN where the row holds one.
template <int Threads>
__device__ float row_exp_sum(const float* x, std::int64_t columns, float top) {
  float total = 0;
  for (std::int64_t i = threadIdx.x; i < columns; i += Threads)
    total += expf(x[i] - top);
  return reduce<Threads>(total, add_op{});
}

template <int Threads>
__global__ void __launch_bounds__(256) softmax_kernel(const __grid_constant__ softmax args) {
  const std::int64_t row = own_row<Threads>(), columns = args.columns;
  if (row >= args.rows)
    return;
  const float* x = args.x + row * columns;
  float* y = args.y + row * columns;
  const float top = row_peak<Threads>(x, columns).value, inverse = 1.0F / row_exp_sum<Threads>(x, columns, top);
  for (std::int64_t i = threadIdx.x; i < columns; i += Threads)
    y[i] = expf(x[i] - top) * inverse;
}

template <int Threads>
__global__ void __launch_bounds__(256) loss_kernel(const __grid_constant__ softmax_cross_entropy args) {
  const std::int64_t row = own_row<Threads>(), classes = args.classes;
  if (row >= args.rows)
    return;
  const float* x = args.logits + row * classes;
  const std::int64_t label = args.labels[row];
  const bool known = label >= 0 && label < classes;
  const peak top = row_peak<Threads>(x, classes);
  const float total = row_exp_sum<Threads>(x, classes, top.value);
  if (threadIdx.x == 0 && args.correct)
    args.correct[row] = known && top.index == label && total == total ? 1 : 0;
  if (threadIdx.x == 0 && !known)
    args.loss[row] = nanf("");
  const float factor = args.scale / total;
  // The gradient may lie over the logits: each thread reads its own before it writes them, the label's owner for the loss too.
  for (std::int64_t i = threadIdx.x; i < classes; i += Threads) {
    const float distance = x[i] - top.value;
    if (i == label)
      args.loss[row] = logf(total) - distance;
    if (args.dlogits)
      args.dlogits[row * classes + i] = i == label ? expf(distance) * factor - args.scale : expf(distance) * factor;
  }
}

template <int Threads>
__global__ void __launch_bounds__(256) layernorm_kernel(const __grid_constant__ layernorm args) {
  const std::int64_t row = own_row<Threads>(), columns = args.columns;
  if (row >= args.rows)
    return;
  const float* x = args.x + row * columns;
  const float inverse = 1.0F / static_cast<float>(columns);
  float total = 0;
  for (std::int64_t i = threadIdx.x; i < columns; i += Threads)
    total += x[i];
  const float mean = reduce<Threads>(total, add_op{}) * inverse;
  // The variance from the differences, in a second pass over a row that is in the cache: E[x^2] - mean^2 would cancel.
  float squares = 0;
  for (std::int64_t i = threadIdx.x; i < columns; i += Threads)
    squares = __fmaf_rn(x[i] - mean, x[i] - mean, squares);
  const float rstd = 1.0F / sqrtf(reduce<Threads>(squares, add_op{}) * inverse + args.epsilon);
  if (threadIdx.x == 0) {
    args.mean[row] = mean;
    args.rstd[row] = rstd;
  }
  for (std::int64_t i = threadIdx.x; i < columns; i += Threads)
    args.y[row * columns + i] = __fmaf_rn((x[i] - mean) * rstd, args.gamma[i], args.beta[i]);
}

/// With xhat = (x - mean) rstd and g = dy gamma: dx = rstd (g - mean(g) - xhat mean(g xhat)).
template <int Threads>
__global__ void __launch_bounds__(256) layernorm_dx_kernel(const __grid_constant__ layernorm_backward args) {
  const std::int64_t row = own_row<Threads>(), columns = args.columns;
  if (row >= args.rows)
    return;
  const float *x = args.x + row * columns, *dy = args.dy + row * columns;
  const float mean = args.mean[row], rstd = args.rstd[row], inverse = 1.0F / static_cast<float>(columns);
  float sum_g = 0, sum_g_xhat = 0;
  for (std::int64_t i = threadIdx.x; i < columns; i += Threads) {
    const float g = dy[i] * args.gamma[i];
    sum_g += g;
    sum_g_xhat = __fmaf_rn(g, (x[i] - mean) * rstd, sum_g_xhat);
  }
  const float mean_g = reduce<Threads>(sum_g, add_op{}) * inverse;
  const float mean_g_xhat = reduce<Threads>(sum_g_xhat, add_op{}) * inverse;
  for (std::int64_t i = threadIdx.x; i < columns; i += Threads) {
    const float xhat = (x[i] - mean) * rstd;
    args.dx[row * columns + i] = rstd * (__fmaf_rn(dy[i], args.gamma[i], -mean_g) - xhat * mean_g_xhat);
  }
}

/// dgamma = sum of dy xhat, dbeta = sum of dy.
struct layernorm_terms {
  const float *x, *mean, *rstd, *dy;
  std::int64_t columns;
  __device__ void add(std::int64_t row, std::int64_t column, float (&sums)[2]) const {
    const std::int64_t i = row * columns + column;
    sums[0] = __fmaf_rn(dy[i], (x[i] - mean[row]) * rstd[row], sums[0]);
    sums[1] += dy[i];
  }
};

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

} // namespace

void enqueue(cudaStream_t stream, const softmax& op) {
  launch_rows(softmax_kernel<32>, softmax_kernel<256>, op.rows, op.columns, stream, op);
}

void enqueue(cudaStream_t stream, const softmax_cross_entropy& op) {
  launch_rows(loss_kernel<32>, loss_kernel<256>, op.rows, op.classes, stream, op);
}

void enqueue(cudaStream_t stream, const layernorm& op) {
  launch_rows(layernorm_kernel<32>, layernorm_kernel<256>, op.rows, op.columns, stream, op);
}

std::int64_t scratch_floats(const layernorm_backward& op) {
  return column_split(op.rows, op.columns).scratch(2);
}

void enqueue(cudaStream_t stream, const layernorm_backward& op, float* scratch) {
  // The columns first: dx may lie over dy.
  column_sums<2>(stream, layernorm_terms{op.x, op.mean, op.rstd, op.dy, op.columns}, {op.dgamma, op.dbeta}, op.rows, op.columns,
                 scratch);
  launch_rows(layernorm_dx_kernel<32>, layernorm_dx_kernel<256>, op.rows, op.columns, stream, op);
}

} // namespace troupe::kernels::cuda
