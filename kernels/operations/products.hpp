// SPDX-License-Identifier: BSD-3-Clause
// Products of matrices and convolutions.
#pragma once

#include <cstdint>

#include "kernels/activation.hpp"
#include "kernels/operations/shapes.hpp"

namespace troupe::kernels {

/// c(m,n) = act(alpha * op(a)(m,k) * op(b)(k,n) + beta * c + bias(n)). `bias` may be null. `pre`, when not null, receives what
/// enters the activation (the backward of gelu, say, needs it); it must not overlap c. c is not read when beta is 0.
///
/// For speed on the CPU, store the weight of a linear layer as (outputs, inputs): forward with transpose_b, the weight's
/// gradient dy^T x and the input's gradient dy W are then each the fastest of their kind.
struct gemm {
  static constexpr auto name = "gemm";
  std::int64_t m = 0, n = 0, k = 0;
  const float* a = nullptr;
  const float* b = nullptr;
  float* c = nullptr;
  bool transpose_a = false, transpose_b = false;
  float alpha = 1, beta = 0;
  const float* bias = nullptr;
  activation act = activation::none;
  float* pre = nullptr;

  void inputs(auto each) const { each(a, m * k), each(b, k * n), each(bias, n), each(beta != 0 ? c : nullptr, m * n); }
  void outputs(auto each) const { each(c, m * n), each(pre, m * n); }
  double flops() const { return 2.0 * static_cast<double>(m) * static_cast<double>(n) * static_cast<double>(k); }
};

/// c[i](m,n) = alpha * op(a[i])(m,k) * op(b[i])(k,n) + beta * c[i] for i = 0 .. batch-1; matrix i begins `stride` floats times i
/// after the first. A stride of 0 gives one a, or one b, to all. c is not read when beta is 0. Its matrices do not overlap.
struct batched_gemm {
  static constexpr auto name = "batched_gemm";
  std::int64_t batch = 0, m = 0, n = 0, k = 0;
  const float* a = nullptr;
  const float* b = nullptr;
  float* c = nullptr;
  std::int64_t stride_a = 0, stride_b = 0, stride_c = 0;
  bool transpose_a = false, transpose_b = false;
  float alpha = 1, beta = 0;

  /// Number `i` alone.
  gemm product(std::int64_t i) const {
    return {.m = m,
            .n = n,
            .k = k,
            .a = a + i * stride_a,
            .b = b + i * stride_b,
            .c = c + i * stride_c,
            .transpose_a = transpose_a,
            .transpose_b = transpose_b,
            .alpha = alpha,
            .beta = beta};
  }
  /// Elements from the first matrix to the end of the last.
  std::int64_t reach(std::int64_t stride, std::int64_t elements) const { return batch ? (batch - 1) * stride + elements : 0; }
  void inputs(auto each) const {
    each(a, reach(stride_a, m * k)), each(b, reach(stride_b, k * n)), each(beta != 0 ? c : nullptr, reach(stride_c, m * n));
  }
  void outputs(auto each) const { each(c, reach(stride_c, m * n)); }
  double flops() const { return 2.0 * static_cast<double>(batch * m) * static_cast<double>(n) * static_cast<double>(k); }
};

/// y(N, K, OH, OW) = act(conv(x(N, C, H, W), weight(K, C / groups, kh, kw)) + bias(K)). Cross-correlation, as in the field.
/// `bias` may be null. `groups` divides C and K.
struct conv2d {
  static constexpr auto name = "conv2d";
  window2d window = {};
  std::int64_t out_channels = 0;
  const float* x = nullptr;
  const float* weight = nullptr;
  const float* bias = nullptr;
  float* y = nullptr;
  activation act = activation::none; ///< none or relu

  std::int64_t weights() const { return window.weights(out_channels); }
  void inputs(auto each) const { each(x, window.pixels()), each(weight, weights()), each(bias, out_channels); }
  void outputs(auto each) const { each(y, window.outputs(out_channels)); }
  double flops() const { return 2.0 * static_cast<double>(weights()) * static_cast<double>(window.outputs(1)); }
};

/// Backward of conv2d: dx (may be null: a first layer needs none) is overwritten; so are dweight and dbias (may be null), or they
/// are accumulated. `dy` is the gradient of the result *before* the activation. At least one image.
struct conv2d_backward {
  static constexpr auto name = "conv2d_backward";
  window2d window = {};
  std::int64_t out_channels = 0;
  const float* x = nullptr;
  const float* weight = nullptr;
  const float* dy = nullptr;
  float* dx = nullptr;
  float* dweight = nullptr;
  float* dbias = nullptr;
  bool accumulate = false;

  std::int64_t weights() const { return window.weights(out_channels); }
  void inputs(auto each) const {
    each(x, window.pixels()), each(weight, weights()), each(dy, window.outputs(out_channels));
    each(accumulate ? dweight : nullptr, weights()), each(accumulate ? dbias : nullptr, out_channels);
  }
  void outputs(auto each) const { each(dx, window.pixels()), each(dweight, weights()), each(dbias, out_channels); }
  /// The gradient of the weights costs what the forward costs, and so does that of the images where it is wanted.
  double flops() const { return (dx ? 4.0 : 2.0) * static_cast<double>(weights()) * static_cast<double>(window.outputs(1)); }
};

} // namespace troupe::kernels
