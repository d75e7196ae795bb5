// SPDX-License-Identifier: BSD-3-Clause
// Convolutions and pooling.
#pragma once

#include <algorithm>
#include <limits>

#include "tests/tensor/interpreter/elementwise.hpp"

namespace troupe::testing::interpreting {

class images : public elementwise {
public:
  using elementwise::elementwise;
  using elementwise::operator();

  void operator()(const ops::conv2d& op) {
    const auto& w = shape_of(1).dims;
    const auto window = window_over(shape_of(0).dims, given_.rows, w[2], w[3], op.stride, op.padding, op.dilation, op.groups);
    for_each_tap(window, w[0], [&](auto tap) { at(y(), tap.y) += at(x(0), tap.x) * at(x(1), tap.w); });
    if (n_->inputs.size() > 2)
      for (std::size_t i = 0; i < y().size(); ++i)
        y()[i] += x(2)[i / plane(window) % x(2).size()];
  }
  void operator()(const ops::conv2d_backward& op) {
    const auto& w = shape_of(1).dims;
    const auto window = window_over(shape_of(0).dims, given_.rows, w[2], w[3], op.stride, op.padding, op.dilation, op.groups);
    for_each_tap(window, w[0], [&](auto tap) {
      at(y(0), tap.x) += at(x(2), tap.y) * at(x(1), tap.w);
      at(y(1), tap.w) += at(x(2), tap.y) * at(x(0), tap.x);
    });
    for (std::size_t i = 0; i < x(2).size(); ++i)
      y(2)[i / plane(window) % y(2).size()] += x(2)[i];
  }

  void operator()(const ops::max_pool& op) {
    std::ranges::fill(y(), -std::numeric_limits<double>::infinity());
    for_each_pixel(pool_window(op, shape_of(0).dims), [&](auto pixel) {
      if (at(x(0), pixel.x) > at(y(), pixel.y)) {
        at(y(), pixel.y) = at(x(0), pixel.x);
        at(y(1), pixel.y) = static_cast<double>(pixel.in_plane);
      }
    });
  }
  void operator()(const ops::max_pool_backward& op) {
    for_each_pixel(pool_window(op, op.image), [&](auto pixel) {
      if (at(x(0), pixel.y) == static_cast<double>(pixel.in_plane))
        at(y(), pixel.x) += at(x(1), pixel.y);
    });
  }
  void operator()(const ops::avg_pool& op) {
    const auto counts = pixels_per_output(op, shape_of(0).dims, y().size());
    for_each_pixel(pool_window(op, shape_of(0).dims),
                   [&](auto pixel) { at(y(), pixel.y) += at(x(0), pixel.x) / at(counts, pixel.y); });
  }
  void operator()(const ops::avg_pool_backward& op) {
    const auto counts = pixels_per_output(op, op.image, x(0).size());
    for_each_pixel(pool_window(op, op.image), [&](auto pixel) { at(y(), pixel.x) += at(x(0), pixel.y) / at(counts, pixel.y); });
  }

private:
  struct tap {
    std::int64_t x, w, y;
  };
  struct pixel {
    std::int64_t x, y, in_plane;
  };

  /// Calls f(input pixel, weight, output pixel) for every product of a convolution.
  template <class F>
  static void for_each_tap(const kernels::window2d& v, std::int64_t channels, F&& f) {
    const auto in_group = v.c / v.groups, out_group = channels / v.groups;
    for (std::int64_t n = 0; n < v.n; ++n)
      for (std::int64_t k = 0; k < channels; ++k)
        for (std::int64_t c = 0; c < in_group; ++c)
          for_each_position(v, [&](auto oh, auto ow, auto kh, auto kw, auto h, auto w) {
            f(tap{((n * v.c + k / out_group * in_group + c) * v.h + h) * v.w + w,
                  ((k * in_group + c) * v.kernel_h + kh) * v.kernel_w + kw,
                  ((n * channels + k) * v.out_h() + oh) * v.out_w() + ow});
          });
  }
  template <class F>
  static void for_each_pixel(const kernels::window2d& v, F&& f) {
    for (std::int64_t image = 0; image < v.n * v.c; ++image)
      for_each_position(v, [&](auto oh, auto ow, auto, auto, auto h, auto w) {
        f(pixel{image * v.h * v.w + h * v.w + w, (image * v.out_h() + oh) * v.out_w() + ow, h * v.w + w});
      });
  }
  template <class F>
  static void for_each_position(const kernels::window2d& v, F&& f) {
    for (std::int64_t oh = 0; oh < v.out_h(); ++oh)
      for (std::int64_t ow = 0; ow < v.out_w(); ++ow)
        for (std::int64_t kh = 0; kh < v.kernel_h; ++kh)
          for (std::int64_t kw = 0; kw < v.kernel_w; ++kw) {
            const auto h = oh * v.stride - v.padding + kh * v.dilation, w = ow * v.stride - v.padding + kw * v.dilation;
            if (h >= 0 && h < v.h && w >= 0 && w < v.w)
              f(oh, ow, kh, kw, h, w);
          }
  }

  template <class Op>
  kernels::window2d pool_window(const Op& op, const shape& image) const {
    return window_over(image, given_.rows, op.size, op.size, op.stride, op.padding);
  }
  template <class Op>
  array pixels_per_output(const Op& op, const shape& image, std::size_t outputs) const {
    array counts(outputs, 0);
    for_each_pixel(pool_window(op, image), [&](auto p) { at(counts, p.y) += 1; });
    return counts;
  }

  static std::size_t plane(const kernels::window2d& v) { return static_cast<std::size_t>(v.out_h() * v.out_w()); }
};

} // namespace troupe::testing::interpreting
