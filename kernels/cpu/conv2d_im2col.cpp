// SPDX-License-Identifier: BSD-3-Clause
// Convolutions on the CPU in a build without oneDNN: each image's windows as columns, then products by OpenBLAS.
#include <algorithm>

#include <cblas.h>

#include "kernels/assert.hpp"
#include "kernels/cpu/conv2d.hpp"

namespace troupe::kernels {

namespace {

/// The sizes of the products of one group of one image: (out_channels, taps) times (taps, pixels).
struct conv_sizes {
  std::int64_t image, taps, pixels, out_channels;
  conv_sizes(const window2d& w, std::int64_t channels)
      : image(w.c / w.groups * w.h * w.w), taps(w.c / w.groups * w.kernel_h * w.kernel_w), pixels(w.out_h() * w.out_w()),
        out_channels(channels / w.groups) {}
};

/// Calls f(row of the columns, pixel of the output, index in the image) for each tap that lies inside the image.
template <class F>
void each_tap(const window2d& w, F f) {
  std::int64_t tap = 0;
  for (std::int64_t c = 0; c < w.c / w.groups; ++c)
    for (std::int64_t kh = 0; kh < w.kernel_h; ++kh)
      for (std::int64_t kw = 0; kw < w.kernel_w; ++kw, ++tap)
        for (std::int64_t oh = 0; oh < w.out_h(); ++oh) {
          const auto row = oh * w.stride + kh * w.dilation - w.padding;
          if (row < 0 || row >= w.h)
            continue;
          for (std::int64_t ow = 0; ow < w.out_w(); ++ow) {
            const auto column = ow * w.stride + kw * w.dilation - w.padding;
            if (column >= 0 && column < w.w)
              f(tap, oh * w.out_w() + ow, (c * w.h + row) * w.w + column);
          }
        }
}

/// c(m,n) = op(a) op(b) + beta c, row-major.
void multiply(bool transpose_a, bool transpose_b, std::int64_t m, std::int64_t n, std::int64_t k, const float* a, const float* b,
              float beta, float* c) {
  const auto narrow = [](std::int64_t value) {
    TROUPE_ASSERT(value <= INT32_MAX);
    return static_cast<blasint>(value);
  };
  cblas_sgemm(CblasRowMajor, transpose_a ? CblasTrans : CblasNoTrans, transpose_b ? CblasTrans : CblasNoTrans, narrow(m),
              narrow(n), narrow(k), 1, a, narrow(transpose_a ? m : k), b, narrow(transpose_b ? k : n), beta, c, narrow(n));
}

} // namespace

/// The columns of one image, and of its gradient.
struct conv2d_runner::state {
  std::shared_ptr<memory_pool> pool;
  buffer columns, column_gradients;

  static float* room(memory_pool& pool, buffer& block, std::int64_t floats) {
    const auto bytes = static_cast<std::size_t>(floats) * sizeof(float);
    if (block.bytes() < bytes) {
      block = {}; // back to the pool before the larger one is made
      block = pool.allocate(bytes);
    }
    return block.as<float>();
  }

  float* unfold(const window2d& w, const conv_sizes& sizes, const float* image) {
    float* out = room(*pool, columns, sizes.taps * sizes.pixels);
    if (w.padding > 0)
      std::fill_n(out, sizes.taps * sizes.pixels, 0.0F);
    each_tap(w, [&](auto tap, auto pixel, auto index) { out[tap * sizes.pixels + pixel] = image[index]; });
    return out;
  }
};

conv2d_runner::conv2d_runner(std::shared_ptr<memory_pool> pool) : state_(std::make_unique<state>()) {
  state_->pool = std::move(pool);
}

conv2d_runner::~conv2d_runner() = default;

void conv2d_runner::forward(const conv2d& args) {
  const conv_sizes sizes(args.window, args.out_channels);
  float* y = args.y;
  for (std::int64_t part = 0; part < args.window.n * args.window.groups; ++part) {
    const auto first = part % args.window.groups * sizes.out_channels; // of this group's channels
    const float* columns = state_->unfold(args.window, sizes, args.x + part * sizes.image);
    multiply(false, false, sizes.out_channels, sizes.pixels, sizes.taps, args.weight + first * sizes.taps, columns, 0, y);
    for (std::int64_t k = 0; k < sizes.out_channels; ++k, y += sizes.pixels) {
      const float bias = args.bias ? args.bias[first + k] : 0;
      for (std::int64_t i = 0; i < sizes.pixels; ++i) {
        const float sum = y[i] + bias;
        y[i] = args.act == activation::relu && sum < 0 ? 0 : sum; // NaN stays
      }
    }
  }
}

void conv2d_runner::backward(const conv2d_backward& args) {
  const conv_sizes sizes(args.window, args.out_channels);
  const auto parts = args.window.n * args.window.groups, part_dy = sizes.out_channels * sizes.pixels;
  if (args.dx)
    std::fill_n(args.dx, parts * sizes.image, 0.0F);
  if (args.dbias)
    for (std::int64_t k = 0; k < args.out_channels; ++k) {
      double sum = args.accumulate ? static_cast<double>(args.dbias[k]) : 0.0;
      for (std::int64_t n = 0; n < args.window.n; ++n)
        for (std::int64_t i = 0; i < sizes.pixels; ++i)
          sum += static_cast<double>(args.dy[(n * args.out_channels + k) * sizes.pixels + i]);
      args.dbias[k] = static_cast<float>(sum);
    }
  for (std::int64_t part = 0; part < parts; ++part) {
    const auto first = part % args.window.groups * sizes.out_channels;
    const float* dy = args.dy + part * part_dy;
    const float* columns = state_->unfold(args.window, sizes, args.x + part * sizes.image);
    const bool add = args.accumulate || part >= args.window.groups;
    multiply(false, true, sizes.out_channels, sizes.taps, sizes.pixels, dy, columns, add ? 1 : 0,
             args.dweight + first * sizes.taps);
    if (!args.dx)
      continue;
    float* gradients = state::room(*state_->pool, state_->column_gradients, sizes.taps * sizes.pixels);
    multiply(true, false, sizes.taps, sizes.pixels, sizes.out_channels, args.weight + first * sizes.taps, dy, 0, gradients);
    float* dx = args.dx + part * sizes.image;
    each_tap(args.window, [&](auto tap, auto pixel, auto index) { dx[index] += gradients[tap * sizes.pixels + pixel]; });
  }
}

} // namespace troupe::kernels
