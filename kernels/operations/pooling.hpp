// SPDX-License-Identifier: BSD-3-Clause
// Max and average pooling over images.
#pragma once

#include <cstdint>

#include "kernels/operations/shapes.hpp"

namespace troupe::kernels {

/// y = the maximum of each window of x(N, C, H, W), argmax = its index within the image plane (h*w). The first of equals wins;
/// padding never does, NaN (the last of several) always.
struct max_pool {
  static constexpr auto name = "max_pool";
  window2d window = {};
  const float* x = nullptr;
  float* y = nullptr;
  std::int32_t* argmax = nullptr;

  void inputs(auto each) const { each(x, window.pixels()); }
  void outputs(auto each) const { each(y, window.outputs(window.c)), each(argmax, window.outputs(window.c)); }
};

/// dx(N, C, H, W) is overwritten; argmax is the forward's.
struct max_pool_backward {
  static constexpr auto name = "max_pool_backward";
  window2d window = {};
  const std::int32_t* argmax = nullptr;
  const float* dy = nullptr;
  float* dx = nullptr;

  void inputs(auto each) const { each(argmax, window.outputs(window.c)), each(dy, window.outputs(window.c)); }
  void outputs(auto each) const { each(dx, window.pixels()); }
};

/// y = the mean over each window's elements inside the image (padding is not counted).
struct avg_pool {
  static constexpr auto name = "avg_pool";
  window2d window = {};
  const float* x = nullptr;
  float* y = nullptr;

  void inputs(auto each) const { each(x, window.pixels()); }
  void outputs(auto each) const { each(y, window.outputs(window.c)); }
};

/// dx(N, C, H, W) is overwritten.
struct avg_pool_backward {
  static constexpr auto name = "avg_pool_backward";
  window2d window = {};
  const float* dy = nullptr;
  float* dx = nullptr;

  void inputs(auto each) const { each(dy, window.outputs(window.c)); }
  void outputs(auto each) const { each(dx, window.pixels()); }
};

} // namespace troupe::kernels
