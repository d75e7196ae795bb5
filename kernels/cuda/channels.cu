// SPDX-License-Identifier: BSD-3-Clause
// Normalisations of channels over (rows, channels, inner): a block of threads for each set that shares a mean, or channel.
#include "kernels/cuda/device_math.hpp"
#include "kernels/cuda/elements.hpp"
#include "kernels/cuda/groups.hpp"
#include "kernels/cuda/kernels.hpp"
#include "kernels/cuda/reduce.hpp"

namespace troupe::kernels::cuda {

namespace {

constexpr int set_threads = 256;

/// The sum of f(i) over `count` elements, for all threads of the block.
template <class F>
__device__ inline float block_sum(std::int64_t count, F f) {
  float total = 0;
  for (std::int64_t i = threadIdx.x; i < count; i += set_threads)
    total += f(i);
  return reduce<set_threads>(total, add_op{});
}

/// Where element i of a channel lies.
struct channel_places {
  std::int64_t channel, channels, inner;
  __device__ std::int64_t operator()(std::int64_t i) const {
    return inner == 1 ? i * channels + channel : (i / inner * channels + channel) * inner + i % inner;
  }
};

struct moments {
  float mean, variance;
};

/// Mean and biased variance; the latter from the differences, since E[x^2] - mean^2 would cancel.
template <class Place>
__device__ inline moments moments_of(const float* x, std::int64_t count, Place place) {
  const float inverse = 1.0F / static_cast<float>(count);
  const float mean = block_sum(count, [&](std::int64_t i) { return x[place(i)]; }) * inverse;
  const float squares = block_sum(count, [&](std::int64_t i) { return (x[place(i)] - mean) * (x[place(i)] - mean); });
  return {mean, squares * inverse};
}

__global__ void __launch_bounds__(set_threads) groupnorm_kernel(const __grid_constant__ groupnorm args) {
  const std::int64_t set = blockIdx.x, channels = args.channels / args.groups, elements = channels * args.inner;
  const float* x = args.x + set * elements;
  const auto [mean, variance] = moments_of(x, elements, [](std::int64_t i) { return i; });
  const float rstd = 1.0F / sqrtf(variance + args.epsilon);
  if (threadIdx.x == 0) {
    args.mean[set] = mean;
    args.rstd[set] = rstd;
  }
  const std::int64_t first = set % args.groups * channels;
  for (std::int64_t i = threadIdx.x; i < elements; i += set_threads) {
    const std::int64_t c = first + i / args.inner;
    args.y[set * elements + i] = mul_add((x[i] - mean) * rstd, args.gamma[c], args.beta[c]);
  }
}

/// With xhat = (x - mean) rstd and g = dy gamma: dx = rstd (g - mean(g) - xhat mean(g xhat)).
__global__ void __launch_bounds__(set_threads) groupnorm_dx_kernel(const __grid_constant__ groupnorm_backward args) {
  const std::int64_t set = blockIdx.x, channels = args.channels / args.groups, elements = channels * args.inner;
  const float *x = args.x + set * elements, *dy = args.dy + set * elements, *gamma = args.gamma + set % args.groups * channels;
  const float mean = args.mean[set], rstd = args.rstd[set], inverse = 1.0F / static_cast<float>(elements);
  const std::int64_t inner = args.inner;
  const float mean_g = block_sum(elements, [=](std::int64_t i) { return dy[i] * gamma[i / inner]; }) * inverse;
  const float mean_g_xhat =
      block_sum(elements, [=](std::int64_t i) { return dy[i] * gamma[i / inner] * ((x[i] - mean) * rstd); }) * inverse;
  for (std::int64_t i = threadIdx.x; i < elements; i += set_threads) {
    const float xhat = (x[i] - mean) * rstd;
    args.dx[set * elements + i] = rstd * (mul_add(dy[i], gamma[i / inner], -mean_g) - xhat * mean_g_xhat);
  }
}

/// dgamma = sum of dy xhat, dbeta = sum of dy, of one channel.
__global__ void __launch_bounds__(set_threads) groupnorm_parameters_kernel(const __grid_constant__ groupnorm_backward args) {
  const std::int64_t channel = blockIdx.x, group = channel / (args.channels / args.groups), inner = args.inner;
  const channel_places place{channel, args.channels, inner};
  const std::int64_t count = args.rows * inner;
  const float of_dy = block_sum(count, [&](std::int64_t i) { return args.dy[place(i)]; });
  const float of_dy_xhat = block_sum(count, [&](std::int64_t i) {
    const std::int64_t set = i / inner * args.groups + group;
    return args.dy[place(i)] * ((args.x[place(i)] - args.mean[set]) * args.rstd[set]);
  });
  if (threadIdx.x == 0) {
    args.dbeta[channel] = args.accumulate ? args.dbeta[channel] + of_dy : of_dy;
    args.dgamma[channel] = args.accumulate ? args.dgamma[channel] + of_dy_xhat : of_dy_xhat;
  }
}

__global__ void __launch_bounds__(set_threads) batchnorm_kernel(const __grid_constant__ batchnorm args) {
  const std::int64_t c = blockIdx.x, count = args.rows * args.inner;
  const channel_places place{c, args.channels, args.inner};
  const auto [mean, variance] = moments_of(args.x, count, place);
  const float rstd = 1.0F / sqrtf(variance + args.epsilon);
  if (threadIdx.x == 0) {
    args.mean[c] = mean;
    args.rstd[c] = rstd;
    const auto n = static_cast<float>(count);
    const float unbiased = count > 1 ? variance * (n / (n - 1.0F)) : 0.0F, factor = args.weight * args.momentum;
    const float of_mean = factor * (args.running_mean[c] - mean), of_variance = factor * (args.running_variance[c] - unbiased);
    args.mean_step[c] = args.accumulate ? args.mean_step[c] + of_mean : of_mean;
    args.variance_step[c] = args.accumulate ? args.variance_step[c] + of_variance : of_variance;
  }
  const float gamma = args.gamma[c], beta = args.beta[c];
  for (std::int64_t i = threadIdx.x; i < count; i += set_threads)
    args.y[place(i)] = mul_add((args.x[place(i)] - mean) * rstd, gamma, beta);
}

__global__ void __launch_bounds__(256) batchnorm_inference_kernel(const __grid_constant__ batchnorm_inference args) {
  for (std::int64_t i = grid_thread(); i < args.count(); i += grid_threads()) {
    const std::int64_t c = i / args.inner % args.channels;
    const float rstd = 1.0F / sqrtf(args.running_variance[c] + args.epsilon);
    args.y[i] = mul_add((args.x[i] - args.running_mean[c]) * rstd, args.gamma[c], args.beta[c]);
  }
}

/// dx = gamma rstd / N * (N dy - sum(dy) - xhat sum(dy xhat)).
__global__ void __launch_bounds__(set_threads) batchnorm_backward_kernel(const __grid_constant__ batchnorm_backward args) {
  const std::int64_t c = blockIdx.x, count = args.rows * args.inner;
  const channel_places place{c, args.channels, args.inner};
  const float mean = args.mean[c], rstd = args.rstd[c], inverse = 1.0F / static_cast<float>(count);
  const float of_dy = block_sum(count, [&](std::int64_t i) { return args.dy[place(i)]; });
  const float of_dy_xhat =
      block_sum(count, [&](std::int64_t i) { return args.dy[place(i)] * ((args.x[place(i)] - mean) * rstd); });
  const float scale = rstd * args.gamma[c];
  for (std::int64_t i = threadIdx.x; i < count; i += set_threads) {
    const std::int64_t at = place(i); // dx may lie over dy: this thread alone reads it from here on
    const float xhat = (args.x[at] - mean) * rstd;
    args.dx[at] = scale * (args.dy[at] - inverse * mul_add(xhat, of_dy_xhat, of_dy));
  }
  if (threadIdx.x == 0) {
    args.dbeta[c] = args.accumulate ? args.dbeta[c] + of_dy : of_dy;
    args.dgamma[c] = args.accumulate ? args.dgamma[c] + of_dy_xhat : of_dy_xhat;
  }
}

template <class Op>
void launch_sets(void (*kernel)(Op), std::int64_t sets, cudaStream_t stream, const Op& op) {
  if (sets > 0)
    launch(kernel, one_dimension(sets), one_dimension(set_threads), stream, op);
}

} // namespace

void enqueue(cudaStream_t stream, const groupnorm& op) {
  launch_sets<groupnorm>(groupnorm_kernel, op.rows * op.groups, stream, op);
}

void enqueue(cudaStream_t stream, const groupnorm_backward& op) {
  launch_sets<groupnorm_backward>(groupnorm_parameters_kernel, op.channels, stream, op); // first: dx may lie over dy
  launch_sets<groupnorm_backward>(groupnorm_dx_kernel, op.rows * op.groups, stream, op);
}

void enqueue(cudaStream_t stream, const batchnorm& op) {
  launch_sets<batchnorm>(batchnorm_kernel, op.channels, stream, op);
}

void enqueue(cudaStream_t stream, const batchnorm_inference& op) {
  if (op.count() > 0)
    launch(batchnorm_inference_kernel, blocks_for(op.count(), 256), one_dimension(256), stream, op);
}

void enqueue(cudaStream_t stream, const batchnorm_backward& op) {
  launch_sets<batchnorm_backward>(batchnorm_backward_kernel, op.channels, stream, op);
}

} // namespace troupe::kernels::cuda
