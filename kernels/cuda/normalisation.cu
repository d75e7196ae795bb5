// SPDX-License-Identifier: BSD-3-Clause
// Softmax, layer and RMS normalisation.
#include "kernels/cuda/columns.hpp"
#include "kernels/cuda/kernels.hpp"
#include "kernels/cuda/rows.hpp"

namespace troupe::kernels::cuda {

namespace {

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
__global__ void __launch_bounds__(256) softmax_backward_kernel(const __grid_constant__ softmax_backward args) {
  const std::int64_t row = own_row<Threads>(), columns = args.columns;
  if (row >= args.rows)
    return;
  const float *y = args.y + row * columns, *dy = args.dy + row * columns;
  const float product = row_sum<Threads>(columns, [=](std::int64_t i) { return y[i] * dy[i]; });
  for (std::int64_t i = threadIdx.x; i < columns; i += Threads)
    args.dx[row * columns + i] = y[i] * (dy[i] - product);
}

template <int Threads>
__global__ void __launch_bounds__(256) rmsnorm_kernel(const __grid_constant__ rmsnorm args) {
  const std::int64_t row = own_row<Threads>(), columns = args.columns;
  if (row >= args.rows)
    return;
  const float* x = args.x + row * columns;
  const float squares = row_sum<Threads>(columns, [=](std::int64_t i) { return x[i] * x[i]; });
  const float rstd = 1.0F / sqrtf(squares / static_cast<float>(columns) + args.epsilon);
  if (threadIdx.x == 0)
    args.rstd[row] = rstd;
  for (std::int64_t i = threadIdx.x; i < columns; i += Threads)
    args.y[row * columns + i] = x[i] * rstd * args.gamma[i];
}

/// With xhat = x rstd and g = dy gamma: dx = rstd (g - xhat mean(g xhat)).
template <int Threads>
__global__ void __launch_bounds__(256) rmsnorm_dx_kernel(const __grid_constant__ rmsnorm_backward args) {
  const std::int64_t row = own_row<Threads>(), columns = args.columns;
  if (row >= args.rows)
    return;
  const float *x = args.x + row * columns, *dy = args.dy + row * columns, *gamma = args.gamma, rstd = args.rstd[row];
  const float products = row_sum<Threads>(columns, [=](std::int64_t i) { return dy[i] * gamma[i] * x[i]; });
  const float mean_g_xhat = products * rstd / static_cast<float>(columns);
  for (std::int64_t i = threadIdx.x; i < columns; i += Threads)
    args.dx[row * columns + i] = rstd * __fmaf_rn(dy[i], gamma[i], -x[i] * rstd * mean_g_xhat);
}

/// dgamma = sum of dy xhat.
struct rmsnorm_terms {
  const float *x, *rstd, *dy;
  std::int64_t columns;
  __device__ void add(std::int64_t row, std::int64_t column, float (&sums)[1]) const {
    const std::int64_t i = row * columns + column;
    sums[0] = __fmaf_rn(dy[i], x[i] * rstd[row], sums[0]);
  }
};

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

} // namespace

void enqueue(cudaStream_t stream, const softmax& op) {
  launch_rows(softmax_kernel<32>, softmax_kernel<256>, op.rows, op.columns, stream, op);
}

void enqueue(cudaStream_t stream, const softmax_backward& op) {
  launch_rows(softmax_backward_kernel<32>, softmax_backward_kernel<256>, op.rows, op.columns, stream, op);
}

void enqueue(cudaStream_t stream, const rmsnorm& op) {
  launch_rows(rmsnorm_kernel<32>, rmsnorm_kernel<256>, op.rows, op.columns, stream, op);
}

std::int64_t scratch_floats(const rmsnorm_backward& op) {
  return column_split(op.rows, op.columns).scratch(1);
}

void enqueue(cudaStream_t stream, const rmsnorm_backward& op, float* scratch) {
  column_sums<1>(stream, rmsnorm_terms{op.x, op.rstd, op.dy, op.columns}, {op.dgamma}, op.rows, op.columns, scratch,
                 op.accumulate);
  launch_rows(rmsnorm_dx_kernel<32>, rmsnorm_dx_kernel<256>, op.rows, op.columns, stream, op);
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
                 scratch, op.accumulate);
  launch_rows(layernorm_dx_kernel<32>, layernorm_dx_kernel<256>, op.rows, op.columns, stream, op);
}

} // namespace troupe::kernels::cuda
