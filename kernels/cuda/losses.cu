// SPDX-License-Identifier: BSD-3-Clause
// Losses with their gradients.
#include "kernels/cuda/device_math.hpp"
#include "kernels/cuda/kernels.hpp"
#include "kernels/cuda/rows.hpp"

namespace troupe::kernels::cuda {

namespace {

__device__ inline float gradient_factor(float scale, const float* device_scale) {
  return device_scale ? scale * *device_scale : scale;
}

template <int Threads>
__global__ void __launch_bounds__(256) softmax_cross_entropy_kernel(const __grid_constant__ softmax_cross_entropy args) {
  const std::int64_t row = own_row<Threads>(), classes = args.classes;
  if (row >= args.rows)
    return;
  const float* x = args.logits + row * classes;
  const std::int64_t label = args.labels[row];
  if (label == ignored_label) {
    if (threadIdx.x == 0)
      args.loss[row] = 0;
    if (threadIdx.x == 0 && args.correct)
      args.correct[row] = 0;
    for (std::int64_t i = threadIdx.x; args.dlogits && i < classes; i += Threads)
      args.dlogits[row * classes + i] = 0;
    return;
  }
  const bool known = label >= 0 && label < classes;
  const peak top = row_peak<Threads>(x, classes);
  const float total = row_exp_sum<Threads>(x, classes, top.value);
  const float smooth = args.smoothing / static_cast<float>(classes), certain = 1.0F - args.smoothing;
  float distances = 0; // of all classes: only smoothing asks for them
  if (smooth != 0)
    distances = row_sum<Threads>(classes, [=](std::int64_t i) { return x[i] - top.value; });
  if (threadIdx.x == 0 && args.correct)
    args.correct[row] = known && top.index == label && total == total ? 1 : 0;
  if (threadIdx.x == 0 && !known)
    args.loss[row] = nanf("");
  const float scale = gradient_factor(args.scale, args.device_scale), factor = scale / total;
  // The gradient may lie over the logits: each thread reads its own before it writes them, the label's owner for the loss too.
  for (std::int64_t i = threadIdx.x; i < classes; i += Threads) {
    const float distance = x[i] - top.value;
    if (i == label)
      args.loss[row] = logf(total) - certain * distance - smooth * distances;
    if (!args.dlogits)
      continue;
    const float gradient = mul_add(expf(distance), factor, -scale * smooth);
    args.dlogits[row * classes + i] = i == label ? gradient - scale * certain : gradient;
  }
}

template <int Threads>
__global__ void __launch_bounds__(256) mean_squared_error_kernel(const __grid_constant__ mean_squared_error args) {
  const std::int64_t row = own_row<Threads>(), columns = args.columns;
  if (row >= args.rows)
    return;
  const float *x = args.x + row * columns, *target = args.target + row * columns;
  const float inverse = 1.0F / static_cast<float>(columns);
  const float squares = row_sum<Threads>(columns, [=](std::int64_t i) { return (x[i] - target[i]) * (x[i] - target[i]); });
  if (threadIdx.x == 0)
    args.loss[row] = squares * inverse;
  const float factor = 2.0F * gradient_factor(args.scale, args.device_scale) * inverse;
  for (std::int64_t i = threadIdx.x; args.dx && i < columns; i += Threads)
    args.dx[row * columns + i] = (x[i] - target[i]) * factor;
}

template <int Threads>
__global__ void __launch_bounds__(256) sigmoid_cross_entropy_kernel(const __grid_constant__ sigmoid_cross_entropy args) {
  const std::int64_t row = own_row<Threads>(), columns = args.columns;
  if (row >= args.rows)
    return;
  const float *x = args.x + row * columns, *target = args.target + row * columns;
  const float inverse = 1.0F / static_cast<float>(columns);
  const float total = row_sum<Threads>(
      columns, [=](std::int64_t i) { return mul_add(-x[i], target[i], fmaxf(x[i], 0.0F)) + log1pf(expf(-fabsf(x[i]))); });
  const float misses = row_sum<Threads>(columns, [=](std::int64_t i) { return (x[i] > 0) != (target[i] > 0.5F) ? 1.0F : 0.0F; });
  if (threadIdx.x == 0) {
    args.loss[row] = total * inverse;
    if (args.correct)
      args.correct[row] = misses == 0 ? 1 : 0;
  }
  const float factor = gradient_factor(args.scale, args.device_scale) * inverse;
  for (std::int64_t i = threadIdx.x; args.dx && i < columns; i += Threads)
    args.dx[row * columns + i] = (sigmoid(x[i]) - target[i]) * factor;
}

} // namespace

void enqueue(cudaStream_t stream, const softmax_cross_entropy& op) {
  launch_rows(softmax_cross_entropy_kernel<32>, softmax_cross_entropy_kernel<256>, op.rows, op.classes, stream, op);
}

void enqueue(cudaStream_t stream, const mean_squared_error& op) {
  launch_rows(mean_squared_error_kernel<32>, mean_squared_error_kernel<256>, op.rows, op.columns, stream, op);
}

void enqueue(cudaStream_t stream, const sigmoid_cross_entropy& op) {
  launch_rows(sigmoid_cross_entropy_kernel<32>, sigmoid_cross_entropy_kernel<256>, op.rows, op.columns, stream, op);
}

} // namespace troupe::kernels::cuda
