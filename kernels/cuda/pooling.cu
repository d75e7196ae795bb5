// SPDX-License-Identifier: BSD-3-Clause
// Pooling: forward a thread per window, backward a thread per pixel that asks the windows over it, in their order: no atomics.
#include "kernels/cuda/groups.hpp"
#include "kernels/cuda/kernels.hpp"

namespace troupe::kernels::cuda {

namespace {

/// A window's geometry with 32-bit sizes: an image plane has at most 2^31 pixels.
struct geometry {
  std::int64_t planes;
  std::int32_t h, w, out_h, out_w, kernel_h, kernel_w, stride, padding;

  explicit geometry(const window2d& from)
      : planes(from.n * from.c), h(static_cast<std::int32_t>(from.h)), w(static_cast<std::int32_t>(from.w)),
        out_h(static_cast<std::int32_t>(from.out_h())), out_w(static_cast<std::int32_t>(from.out_w())),
        kernel_h(static_cast<std::int32_t>(from.kernel_h)), kernel_w(static_cast<std::int32_t>(from.kernel_w)),
        stride(static_cast<std::int32_t>(from.stride)), padding(static_cast<std::int32_t>(from.padding)) {}

  std::int64_t outputs() const { return planes * out_h * out_w; }
  std::int64_t pixels() const { return planes * h * w; }
};

/// Begin and end of a stretch along one axis.
struct range {
  std::int32_t begin, end;
  __device__ std::int32_t size() const { return end - begin; }
};

/// The pixels inside the image that output `o` looks at.
__device__ range pixels_under(std::int32_t o, std::int32_t kernel, std::int32_t stride, std::int32_t padding, std::int32_t size) {
  const std::int32_t begin = o * stride - padding, end = begin + kernel;
  return {begin < 0 ? 0 : begin, end > size ? size : end};
}

/// The outputs that look at pixel `i`.
__device__ range windows_over(std::int32_t i, std::int32_t kernel, std::int32_t stride, std::int32_t padding,
                              std::int32_t outputs) {
  const std::int32_t last = (i + padding) / stride, reach = i + padding - kernel;
  const std::int32_t first = reach < 0 ? 0 : reach / stride + 1;
  return {first, last + 1 > outputs ? outputs : last + 1};
}

__global__ void __launch_bounds__(256)
    max_pool_kernel(const geometry g, const float* x, float* y, std::int32_t* argmax, std::int64_t outputs) {
  for (std::int64_t i = grid_thread(); i < outputs; i += grid_threads()) {
    const auto ow = static_cast<std::int32_t>(i % g.out_w);
    const auto oh = static_cast<std::int32_t>(i / g.out_w % g.out_h);
    const float* plane = x + i / g.out_w / g.out_h * g.h * g.w;
    const range rows = pixels_under(oh, g.kernel_h, g.stride, g.padding, g.h);
    const range columns = pixels_under(ow, g.kernel_w, g.stride, g.padding, g.w);
    std::int32_t where = rows.begin * g.w + columns.begin;
    float best = plane[where];
    for (std::int32_t h = rows.begin; h < rows.end; ++h)
      for (std::int32_t w = columns.begin; w < columns.end; ++w) {
        const float value = plane[h * g.w + w];
        if (value > best || value != value) { // NaN always, so that a diverged model does not look healthy
          best = value;
          where = h * g.w + w;
        }
      }
    y[i] = best;
    argmax[i] = where;
  }
}

__global__ void __launch_bounds__(256)
    max_pool_backward_kernel(const geometry g, const std::int32_t* argmax, const float* dy, float* dx, std::int64_t pixels) {
  for (std::int64_t i = grid_thread(); i < pixels; i += grid_threads()) {
    const auto w = static_cast<std::int32_t>(i % g.w), h = static_cast<std::int32_t>(i / g.w % g.h);
    const std::int64_t plane = i / g.w / g.h * g.out_h * g.out_w;
    const range rows = windows_over(h, g.kernel_h, g.stride, g.padding, g.out_h);
    const range columns = windows_over(w, g.kernel_w, g.stride, g.padding, g.out_w);
    float total = 0;
    for (std::int32_t oh = rows.begin; oh < rows.end; ++oh)
      for (std::int32_t ow = columns.begin; ow < columns.end; ++ow) {
        const std::int64_t o = plane + static_cast<std::int64_t>(oh) * g.out_w + ow;
        if (argmax[o] == h * g.w + w)
          total += dy[o];
      }
    dx[i] = total;
  }
}

__global__ void __launch_bounds__(256) avg_pool_kernel(const geometry g, const float* x, float* y, std::int64_t outputs) {
  for (std::int64_t i = grid_thread(); i < outputs; i += grid_threads()) {
    const auto ow = static_cast<std::int32_t>(i % g.out_w);
    const auto oh = static_cast<std::int32_t>(i / g.out_w % g.out_h);
    const float* plane = x + i / g.out_w / g.out_h * g.h * g.w;
    const range rows = pixels_under(oh, g.kernel_h, g.stride, g.padding, g.h);
    const range columns = pixels_under(ow, g.kernel_w, g.stride, g.padding, g.w);
    float total = 0;
    for (std::int32_t h = rows.begin; h < rows.end; ++h)
      for (std::int32_t w = columns.begin; w < columns.end; ++w)
        total += plane[h * g.w + w];
    y[i] = total / static_cast<float>(rows.size() * columns.size());
  }
}

__global__ void __launch_bounds__(256)
    avg_pool_backward_kernel(const geometry g, const float* dy, float* dx, std::int64_t pixels) {
  for (std::int64_t i = grid_thread(); i < pixels; i += grid_threads()) {
    const auto w = static_cast<std::int32_t>(i % g.w), h = static_cast<std::int32_t>(i / g.w % g.h);
    const std::int64_t plane = i / g.w / g.h * g.out_h * g.out_w;
    const range rows = windows_over(h, g.kernel_h, g.stride, g.padding, g.out_h);
    const range columns = windows_over(w, g.kernel_w, g.stride, g.padding, g.out_w);
    float total = 0;
    for (std::int32_t oh = rows.begin; oh < rows.end; ++oh) {
      const std::int32_t height = pixels_under(oh, g.kernel_h, g.stride, g.padding, g.h).size();
      for (std::int32_t ow = columns.begin; ow < columns.end; ++ow) {
        const std::int32_t width = pixels_under(ow, g.kernel_w, g.stride, g.padding, g.w).size();
        total += dy[plane + static_cast<std::int64_t>(oh) * g.out_w + ow] / static_cast<float>(height * width);
      }
    }
    dx[i] = total;
  }
}

template <class... Parameters, class... Arguments>
void launch_each(void (*kernel)(Parameters...), std::int64_t count, cudaStream_t stream, const Arguments&... arguments) {
  if (count > 0)
    launch(kernel, blocks_for(count, 256), one_dimension(256), stream, arguments..., count);
}

} // namespace

void enqueue(cudaStream_t stream, const max_pool& op) {
  const geometry g(op.window);
  launch_each(max_pool_kernel, g.outputs(), stream, g, op.x, op.y, op.argmax);
}

void enqueue(cudaStream_t stream, const max_pool_backward& op) {
  const geometry g(op.window);
  launch_each(max_pool_backward_kernel, g.pixels(), stream, g, op.argmax, op.dy, op.dx);
}

void enqueue(cudaStream_t stream, const avg_pool& op) {
  const geometry g(op.window);
  launch_each(avg_pool_kernel, g.outputs(), stream, g, op.x, op.y);
}

void enqueue(cudaStream_t stream, const avg_pool_backward& op) {
  const geometry g(op.window);
  launch_each(avg_pool_backward_kernel, g.pixels(), stream, g, op.dy, op.dx);
}

} // namespace troupe::kernels::cuda
