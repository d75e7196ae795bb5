// SPDX-License-Identifier: BSD-3-Clause
// Images as matrices, so that a product of matrices is a convolution; and the epilogues of convolutions.
#include "kernels/cuda/device_math.hpp"
#include "kernels/cuda/groups.hpp"
#include "kernels/cuda/kernels.hpp"
#include "kernels/cuda/reduce.hpp"

namespace troupe::kernels::cuda {

namespace {

__global__ void __launch_bounds__(256) image_to_columns_kernel(const window2d g, std::int64_t out_h, std::int64_t out_w,
                                                               const float* x, float* columns, std::int64_t count) {
  for (std::int64_t i = grid_thread(); i < count; i += grid_threads()) {
    // i = ((c, kh, kw), n, oh, ow): neighbours in a warp read and write neighbours.
    std::int64_t rest = i;
    const std::int64_t ow = rest % out_w, oh = (rest /= out_w) % out_h, n = (rest /= out_h) % g.n;
    const std::int64_t kw = (rest /= g.n) % g.kernel_w, kh = (rest /= g.kernel_w) % g.kernel_h, c = rest / g.kernel_h;
    const std::int64_t h = oh * g.stride - g.padding + kh * g.dilation, w = ow * g.stride - g.padding + kw * g.dilation;
    const bool inside = h >= 0 && h < g.h && w >= 0 && w < g.w;
    columns[i] = inside ? x[((n * g.c + c) * g.h + h) * g.w + w] : 0.0F;
  }
}

__global__ void __launch_bounds__(256) columns_to_image_kernel(const window2d g, std::int64_t out_h, std::int64_t out_w,
                                                               const float* columns, float* dx, std::int64_t count) {
  for (std::int64_t i = grid_thread(); i < count; i += grid_threads()) {
    std::int64_t rest = i;
    const std::int64_t w = rest % g.w, h = (rest /= g.w) % g.h, c = (rest /= g.h) % g.c, n = rest / g.c;
    float total = 0;
    for (std::int64_t kh = 0; kh < g.kernel_h; ++kh) {
      const std::int64_t top = h + g.padding - kh * g.dilation, oh = top / g.stride;
      if (top < 0 || top % g.stride != 0 || oh >= out_h)
        continue;
      for (std::int64_t kw = 0; kw < g.kernel_w; ++kw) {
        const std::int64_t left = w + g.padding - kw * g.dilation, ow = left / g.stride;
        if (left >= 0 && left % g.stride == 0 && ow < out_w)
          total += columns[((((c * g.kernel_h + kh) * g.kernel_w + kw) * g.n + n) * out_h + oh) * out_w + ow];
      }
    }
    dx[i] = total;
  }
}

template <activation Act>
__global__ void __launch_bounds__(256) planes_from_rows_kernel(const float* x, const float* bias, float* y, std::int64_t n,
                                                               std::int64_t channels, std::int64_t plane, std::int64_t count) {
  for (std::int64_t i = grid_thread(); i < count; i += grid_threads()) {
    const std::int64_t p = i % plane, k = i / plane % channels, image = i / plane / channels;
    const float value = x[(k * n + image) * plane + p];
    y[i] = apply<as_unary(Act)>(bias ? value + bias[k] : value);
  }
}

__global__ void __launch_bounds__(256) rows_from_planes_kernel(const float* x, float* y, std::int64_t n, std::int64_t channels,
                                                               std::int64_t plane, std::int64_t count) {
  for (std::int64_t i = grid_thread(); i < count; i += grid_threads()) {
    const std::int64_t p = i % plane, image = i / plane % n, k = i / plane / n;
    y[i] = x[(image * channels + k) * plane + p];
  }
}

template <activation Act>
__global__ void __launch_bounds__(256)
    bias_planes_kernel(const float* bias, float* y, std::int64_t channels, std::int64_t plane, std::int64_t count) {
  for (std::int64_t i = grid_thread(); i < count; i += grid_threads())
    y[i] = apply<as_unary(Act)>(bias ? y[i] + bias[i / plane % channels] : y[i]);
}

/// A block per channel.
__global__ void __launch_bounds__(256)
    sum_planes_kernel(const float* dy, float* dbias, std::int64_t n, std::int64_t channels, std::int64_t plane, bool accumulate) {
  float total = 0;
  for (std::int64_t i = threadIdx.x; i < n * plane; i += 256)
    total += dy[(i / plane * channels + blockIdx.x) * plane + i % plane];
  total = reduce<256>(total, add_op{});
  if (threadIdx.x == 0)
    dbias[blockIdx.x] = accumulate ? dbias[blockIdx.x] + total : total;
}

template <class... Parameters, class... Arguments>
void launch_each(void (*kernel)(Parameters...), std::int64_t count, cudaStream_t stream, const Arguments&... arguments) {
  if (count > 0)
    launch(kernel, blocks_for(count, 256), one_dimension(256), stream, arguments..., count);
}

} // namespace

void image_to_columns(cudaStream_t stream, const window2d& g, const float* x, float* columns) {
  launch_each(image_to_columns_kernel, g.c * g.kernel_h * g.kernel_w * g.n * g.out_h() * g.out_w(), stream, g, g.out_h(),
              g.out_w(), x, columns);
}

void columns_to_image(cudaStream_t stream, const window2d& g, const float* columns, float* dx) {
  launch_each(columns_to_image_kernel, g.n * g.c * g.h * g.w, stream, g, g.out_h(), g.out_w(), columns, dx);
}

void planes_from_rows(cudaStream_t stream, const float* x, const float* bias, activation act, float* y, std::int64_t n,
                      std::int64_t channels, std::int64_t plane) {
  launch_each(act == activation::relu ? planes_from_rows_kernel<activation::relu> : planes_from_rows_kernel<activation::none>,
              n * channels * plane, stream, x, bias, y, n, channels, plane);
}

void rows_from_planes(cudaStream_t stream, const float* x, float* y, std::int64_t n, std::int64_t channels, std::int64_t plane) {
  launch_each(rows_from_planes_kernel, n * channels * plane, stream, x, y, n, channels, plane);
}

void bias_planes(cudaStream_t stream, const float* bias, activation act, float* y, std::int64_t n, std::int64_t channels,
                 std::int64_t plane) {
  launch_each(act == activation::relu ? bias_planes_kernel<activation::relu> : bias_planes_kernel<activation::none>,
              n * channels * plane, stream, bias, y, channels, plane);
}

void sum_planes(cudaStream_t stream, const float* dy, float* dbias, std::int64_t n, std::int64_t channels, std::int64_t plane,
                bool accumulate) {
  launch(sum_planes_kernel, one_dimension(channels), one_dimension(256), stream, dy, dbias, n, channels, plane, accumulate);
}

} // namespace troupe::kernels::cuda
