// SPDX-License-Identifier: BSD-3-Clause
// exp, log, tanh and their kin as straight-line code that a compiler can vectorise. All are inlined always: one call in a loop,
// and the loop computes one number at a time.
#pragma once

// Included by loops.cpp alone, inside an unnamed namespace (see there).

/// a * b + c, fused where the instruction set of this copy can. The compiler itself contracts nothing (-ffp-contract=off), so
/// that the body and the tail of a loop, which it compiles separately, compute the same.
[[gnu::always_inline]] inline float mul_add(float a, float b, float c) {
#ifdef __FMA__
  return __builtin_fmaf(a, b, c);
#else
  return a * b + c;
#endif
}

[[gnu::always_inline]] inline std::uint32_t bits_of(float x) {
  return __builtin_bit_cast(std::uint32_t, x);
}
[[gnu::always_inline]] inline float float_of(std::uint32_t bits) {
  return __builtin_bit_cast(float, bits);
}

[[gnu::always_inline]] inline float relu(float x) {
  return x < 0 ? 0.0F : x;
} // NaN stays NaN

/// e^x to 2 ulp; 0 below -87 (the truth is 1.6e-38), infinity above 88.73. Cody and Waite's reduction, Cephes' polynomial
/// (expf.c).
[[gnu::always_inline]] inline float exp(float x) {
  x = x > 89.0F ? 89.0F : x;
  x = x < -87.3F ? -87.3F : x;
  constexpr float round_to_integer = 12582912.0F; // 1.5 * 2^23: adding it leaves the nearest integer in the low bits
  const float shifted = mul_add(x, 1.44269504088896341F, round_to_integer);
  const float n = shifted - round_to_integer; // in [-126, 128]
  const float r = mul_add(n, 2.12194440e-4F, mul_add(n, -0.693359375F, x));
  float p = 1.9875691500e-4F;
  p = mul_add(p, r, 1.3981999507e-3F);
  p = mul_add(p, r, 8.3334519073e-3F);
  p = mul_add(p, r, 4.1665795894e-2F);
  p = mul_add(p, r, 1.6666665459e-1F);
  p = mul_add(p, r, 5.0000001201e-1F);
  p = mul_add(p, r * r, r) + 1.0F;
  // 2^(n-1), then twice that: 2^128 has no exponent field of its own. At n = -126 the field is 0, and so is the result.
  const float scale = float_of((bits_of(shifted) << 23) + (126U << 23));
  return 2.0F * p * scale;
}

/// 2^x to 2 ulp for x <= 0; 0 below -126. What softmax needs, by fewer instructions than exp.
[[gnu::always_inline]] inline float exp2_below_one(float x) {
  constexpr float round_to_integer = 12582912.0F; // 1.5 * 2^23
  const float capped = x < -126.0F ? -126.0F : x;
  const float shifted = capped + round_to_integer, r = capped - (shifted - round_to_integer);
  float p = 1.535336196e-4F; // minimax over [-1/2, 1/2]
  p = mul_add(p, r, 1.339887502e-3F);
  p = mul_add(p, r, 9.618436918e-3F);
  p = mul_add(p, r, 5.550332367e-2F);
  p = mul_add(p, r, 2.402264774e-1F);
  p = mul_add(p, r, 6.931471825e-1F);
  p = mul_add(p, r, 1.0F);
  const float result = float_of(bits_of(p) + (bits_of(shifted) << 23));
  return x < -126.0F ? 0.0F : result;
}

/// ln(x) to 2 ulp; -infinity at 0 and for denormals (which count as 0 here), NaN below. Cephes (logf.c).
[[gnu::always_inline]] inline float log(float x) {
  const float normal = x < 1.17549435e-38F ? 1.17549435e-38F : x;
  // The mantissa in [sqrt(1/2), sqrt(2)), the exponent to match.
  const std::uint32_t offset = bits_of(normal) - 0x3f3504f3;
  const float e = static_cast<float>(static_cast<std::int32_t>(offset) >> 23);
  const float m = float_of((offset & 0x007fffff) + 0x3f3504f3) - 1.0F, z = m * m;
  float p = 7.0376836292e-2F;
  p = mul_add(p, m, -1.1514610310e-1F);
  p = mul_add(p, m, 1.1676998740e-1F);
  p = mul_add(p, m, -1.2420140846e-1F);
  p = mul_add(p, m, 1.4249322787e-1F);
  p = mul_add(p, m, -1.6668057665e-1F);
  p = mul_add(p, m, 2.0000714765e-1F);
  p = mul_add(p, m, -2.4999993993e-1F);
  p = mul_add(p, m, 3.3333331174e-1F);
  p = mul_add(-0.5F, z, mul_add(e, -2.12194440e-4F, p * m * z));
  float y = mul_add(e, 0.693359375F, m + p);
  y = x > 3.40282347e38F ? x : y;
  y = x < 1.17549435e-38F ? -__builtin_inff() : y;
  y = x < 0.0F ? __builtin_nanf("") : y;
  return x != x ? x : y;
}

/// tanh(x) to 3 ulp: the rational approximation of degree 13 over 6 that Eigen and XLA use, 1 beyond 8.
[[gnu::always_inline]] inline float tanh(float x) {
  const float z = x * x;
  float p = -2.76076847742355e-16F;
  p = mul_add(p, z, 2.00018790482477e-13F);
  p = mul_add(p, z, -8.60467152213735e-11F);
  p = mul_add(p, z, 5.12229709037114e-08F);
  p = mul_add(p, z, 1.48572235717979e-05F);
  p = mul_add(p, z, 6.37261928875436e-04F);
  p = mul_add(p, z, 4.89352455891786e-03F);
  float q = 1.19825839466702e-06F;
  q = mul_add(q, z, 1.18534705686654e-04F);
  q = mul_add(q, z, 2.26843463243900e-03F);
  q = mul_add(q, z, 4.89352518554385e-03F);
  float y = x * p / q;
  y = x > 7.9F ? 1.0F : y;
  return x < -7.9F ? -1.0F : y;
}

[[gnu::always_inline]] inline float sigmoid(float x) {
  return 1.0F / (1.0F + exp(-x));
}

constexpr float gelu_scale = 0.79788456080286535588F; // sqrt(2 / pi)
constexpr float gelu_cubic = 0.044715F;

/// x * sigmoid(2u) is 0.5 x (1 + tanh(u)) without its cancellation for negative x.
[[gnu::always_inline]] inline float gelu(float x) {
  const float u = gelu_scale * mul_add(gelu_cubic * x * x, x, x);
  return x * sigmoid(2.0F * u);
}

/// gelu'(x) = s + 2 x s (1 - s) u'(x), s = sigmoid(2u).
[[gnu::always_inline]] inline float gelu_derivative(float x) {
  const float u = gelu_scale * mul_add(gelu_cubic * x * x, x, x);
  const float slope = gelu_scale * mul_add(3.0F * gelu_cubic * x, x, 1.0F);
  const float s = sigmoid(2.0F * u);
  return mul_add(2.0F * x * s * (1.0F - s), slope, s);
}

[[gnu::always_inline]] inline float silu(float x) {
  return x * sigmoid(x);
}

/// silu'(x) = s (1 + x (1 - s)), s = sigmoid(x).
[[gnu::always_inline]] inline float silu_derivative(float x) {
  const float s = sigmoid(x);
  return s * mul_add(x, 1.0F - s, 1.0F);
}

/// ln(1 - erf(t)) for t >= 0.927734375: the minimax polynomial of N. Juffa's erff.
[[gnu::always_inline]] inline float log_erf_rest(float t) {
  float p = mul_add(-1.72853470e-5F, t, 3.83197126e-4F);
  p = mul_add(p, t * t, mul_add(-3.88396438e-3F, t, 2.42546219e-2F));
  p = mul_add(p, t, -1.06777877e-1F);
  p = mul_add(p, t, -6.34846687e-1F);
  p = mul_add(p, t, -1.28717512e-1F);
  return mul_add(p, t, -t);
}

/// erf(x) / x - 1 for |x| <= 0.927734375, z = x^2.
[[gnu::always_inline]] inline float erf_near_zero(float z) {
  float p = -5.96761703e-4F;
  p = mul_add(p, z, 4.99119423e-3F);
  p = mul_add(p, z, -2.67681349e-2F);
  p = mul_add(p, z, 1.12819925e-1F);
  p = mul_add(p, z, -3.76125336e-1F);
  return mul_add(p, z, 1.28379166e-1F);
}

constexpr float erf_border = 0.927734375F;

/// erf(x) to 2 ulp.
[[gnu::always_inline]] inline float erf(float x) {
  const float t = x < 0 ? -x : x, near = mul_add(erf_near_zero(x * x), x, x), rest = 1.0F - exp(log_erf_rest(t));
  return t > erf_border ? __builtin_copysignf(rest, x) : near;
}

/// Phi(x) = 0.5 erfc(-x / sqrt(2)), without the cancellation of 1 + erf for negative x.
[[gnu::always_inline]] inline float normal_cdf(float x) {
  const float u = x * 0.70710678118654752440F, t = u < 0 ? -u : u,
              near = mul_add(0.5F, mul_add(erf_near_zero(u * u), u, u), 0.5F);
  const float tail = 0.5F * exp(log_erf_rest(t));
  const float far = x < 0 ? tail : 1.0F - tail;
  return t > erf_border ? far : near;
}

constexpr float normal_peak = 0.39894228040143267794F; // 1 / sqrt(2 pi)

[[gnu::always_inline]] inline float gelu_erf(float x) {
  return x * normal_cdf(x);
}

/// Phi(x) + x phi(x).
[[gnu::always_inline]] inline float gelu_erf_derivative(float x) {
  return mul_add(x * normal_peak, exp(-0.5F * x * x), normal_cdf(x));
}

template <unary_op Op>
[[gnu::always_inline]] inline float apply(float x) {
  if constexpr (Op == unary_op::relu)
    return relu(x);
  else if constexpr (Op == unary_op::tanh)
    return tanh(x);
  else if constexpr (Op == unary_op::sigmoid)
    return sigmoid(x);
  else if constexpr (Op == unary_op::gelu)
    return gelu(x);
  else if constexpr (Op == unary_op::gelu_erf)
    return gelu_erf(x);
  else if constexpr (Op == unary_op::silu)
    return silu(x);
  else if constexpr (Op == unary_op::exp)
    return exp(x);
  else if constexpr (Op == unary_op::log)
    return log(x);
  else if constexpr (Op == unary_op::erf)
    return erf(x);
  else if constexpr (Op == unary_op::sqrt)
    return __builtin_sqrtf(x);
  else if constexpr (Op == unary_op::rsqrt)
    return 1.0F / __builtin_sqrtf(x);
  else if constexpr (Op == unary_op::square)
    return x * x;
  else if constexpr (Op == unary_op::abs)
    return __builtin_fabsf(x);
  else if constexpr (Op == unary_op::negate)
    return -x;
  else
    return x;
}

/// dy * f'(x), where `saved` is f(x) if saves_result(Op), else x.
template <unary_op Op>
[[gnu::always_inline]] inline float apply_backward(float saved, float dy) {
  if constexpr (Op == unary_op::relu)
    return saved > 0 ? dy : 0.0F;
  else if constexpr (Op == unary_op::tanh)
    return dy * mul_add(-saved, saved, 1.0F);
  else if constexpr (Op == unary_op::sigmoid)
    return dy * saved * (1.0F - saved);
  else if constexpr (Op == unary_op::gelu)
    return dy * gelu_derivative(saved);
  else if constexpr (Op == unary_op::gelu_erf)
    return dy * gelu_erf_derivative(saved);
  else if constexpr (Op == unary_op::silu)
    return dy * silu_derivative(saved);
  else if constexpr (Op == unary_op::exp)
    return dy * exp(saved);
  else if constexpr (Op == unary_op::log)
    return dy / saved;
  else if constexpr (Op == unary_op::erf)
    return dy * (2.82842712474619009760F * normal_peak) * exp(-saved * saved);
  else if constexpr (Op == unary_op::sqrt)
    return 0.5F * dy / __builtin_sqrtf(saved);
  else if constexpr (Op == unary_op::rsqrt)
    return -0.5F * dy / (saved * __builtin_sqrtf(saved));
  else if constexpr (Op == unary_op::square)
    return 2.0F * saved * dy;
  else if constexpr (Op == unary_op::abs)
    return saved > 0 ? dy : (saved < 0 ? -dy : 0.0F);
  else if constexpr (Op == unary_op::negate)
    return -dy;
  else
    return dy;
}
