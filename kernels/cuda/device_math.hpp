// SPDX-License-Identifier: BSD-3-Clause
// Scalar functions of the kernels. The compiler contracts nothing (-fmad=false): where two roundings may become one, mul_add says
// so.
#pragma once

#include <cmath>
#include <cstdint>

#include <cuda_runtime.h>

#include "kernels/backend.hpp"

namespace troupe::kernels::cuda {

__device__ inline float mul_add(float a, float b, float c) {
  return __fmaf_rn(a, b, c);
}

__device__ inline float sigmoid(float x) {
  return 1.0F / (1.0F + expf(-x));
}

constexpr float gelu_scale = 0.79788456080286535588F; // sqrt(2 / pi)
constexpr float gelu_cubic = 0.044715F;

/// x * sigmoid(2u) is 0.5 x (1 + tanh(u)) without its cancellation for negative x.
__device__ inline float gelu(float x) {
  const float u = gelu_scale * mul_add(gelu_cubic * x * x, x, x);
  return x * sigmoid(2.0F * u);
}

/// gelu'(x) = s + 2 x s (1 - s) u'(x), s = sigmoid(2u).
__device__ inline float gelu_derivative(float x) {
  const float u = gelu_scale * mul_add(gelu_cubic * x * x, x, x);
  const float slope = gelu_scale * mul_add(3.0F * gelu_cubic * x, x, 1.0F);
  const float s = sigmoid(2.0F * u);
  return mul_add(2.0F * x * s * (1.0F - s), slope, s);
}

/// silu'(x) = s (1 + x (1 - s)), s = sigmoid(x).
__device__ inline float silu_derivative(float x) {
  const float s = sigmoid(x);
  return s * mul_add(x, 1.0F - s, 1.0F);
}

/// Phi(x), without the cancellation of 1 + erf for negative x.
__device__ inline float normal_cdf(float x) {
  return 0.5F * erfcf(x * -0.70710678118654752440F);
}

constexpr float normal_peak = 0.39894228040143267794F; // 1 / sqrt(2 pi)

/// Phi(x) + x phi(x).
__device__ inline float gelu_erf_derivative(float x) {
  return mul_add(x * normal_peak, expf(-0.5F * x * x), normal_cdf(x));
}

template <unary_op Op>
__device__ inline float apply(float x) {
  using enum unary_op;
  if constexpr (Op == relu)
    return x < 0 ? 0.0F : x; // NaN stays NaN
  else if constexpr (Op == tanh)
    return tanhf(x);
  else if constexpr (Op == sigmoid)
    return cuda::sigmoid(x);
  else if constexpr (Op == gelu)
    return cuda::gelu(x);
  else if constexpr (Op == gelu_erf)
    return x * normal_cdf(x);
  else if constexpr (Op == silu)
    return x * cuda::sigmoid(x);
  else if constexpr (Op == exp)
    return expf(x);
  else if constexpr (Op == log)
    return logf(x);
  else if constexpr (Op == erf)
    return erff(x);
  else if constexpr (Op == sqrt)
    return sqrtf(x);
  else if constexpr (Op == rsqrt)
    return 1.0F / sqrtf(x);
  else if constexpr (Op == square)
    return x * x;
  else if constexpr (Op == abs)
    return fabsf(x);
  else if constexpr (Op == negate)
    return -x;
  else
    return x;
}

/// dy * f'(x); `x` is f(x) if saves_result(Op).
template <unary_op Op>
__device__ inline float apply_backward(float x, float dy) {
  using enum unary_op;
  if constexpr (Op == relu)
    return x > 0 ? dy : 0.0F;
  else if constexpr (Op == tanh)
    return dy * mul_add(-x, x, 1.0F);
  else if constexpr (Op == sigmoid)
    return dy * x * (1.0F - x);
  else if constexpr (Op == gelu)
    return dy * gelu_derivative(x);
  else if constexpr (Op == gelu_erf)
    return dy * gelu_erf_derivative(x);
  else if constexpr (Op == silu)
    return dy * silu_derivative(x);
  else if constexpr (Op == exp)
    return dy * expf(x);
  else if constexpr (Op == log)
    return dy / x;
  else if constexpr (Op == erf)
    return dy * (2.82842712474619009760F * normal_peak) * expf(-x * x);
  else if constexpr (Op == sqrt)
    return 0.5F * dy / sqrtf(x);
  else if constexpr (Op == rsqrt)
    return -0.5F * dy / (x * sqrtf(x));
  else if constexpr (Op == square)
    return 2.0F * x * dy;
  else if constexpr (Op == abs)
    return x > 0 ? dy : (x < 0 ? -dy : 0.0F);
  else if constexpr (Op == negate)
    return -dy;
  else
    return dy;
}

} // namespace troupe::kernels::cuda
