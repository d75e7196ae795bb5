// SPDX-License-Identifier: BSD-3-Clause
// One optimizer step in one pass: the weighted sum of the gradients, the state and the parameters; and what protocols do
// to a gradient before it, or to the parameters after it.
#pragma once

// Included by loops.cpp alone, inside an unnamed namespace (see there).

/// Runs step(begin, count, gradient, out) over blocks that stay in the first-level cache. `gradient` holds the weighted sum;
/// `out` is where the new parameters go: p_out itself, or a block that is streamed there when it will not be read soon.
template <class F>
inline void for_blocks(std::span<const term> terms, const float* p, float* p_out, std::int64_t n, F step) {
  alignas(64) float gradient[block_size];
  alignas(64) float result[block_size];
  const bool stream = worth_streaming(n, p == p_out) && (reinterpret_cast<std::uintptr_t>(p_out) & 15) == 0;
  for (std::int64_t begin = 0; begin < n; begin += block_size) {
    const std::int64_t count = min(block_size, n - begin);
    weighted_block(terms, begin, count, gradient);
    step(begin, count, gradient, stream ? result : p_out + begin);
    if (stream)
      stream_out(p_out + begin, result, count);
  }
  if (stream)
    _mm_sfence();
}

void run(const sgd& args) {
  const float lr = args.lr_scale * args.step_scalars[scalar_lr], momentum = args.momentum, decay = args.weight_decay;
  const float rate = args.rate ? *args.rate : 1.0F;
  const auto step_with = [&](auto with_momentum, auto nesterov) {
    for_blocks(args.terms, args.p, args.p_out, args.count,
               [=](std::int64_t begin, std::int64_t count, const float* gradient, float* out) {
                 const float* p = args.p + begin;
                 float* velocity = args.velocity + (with_momentum() ? begin : 0);
#pragma GCC ivdep
                 for (std::int64_t i = 0; i < count; ++i) {
                   const float g = rate * mul_add(decay, p[i], gradient[i]);
                   float step = g;
                   if constexpr (with_momentum()) {
                     const float v = mul_add(momentum, velocity[i], g);
                     velocity[i] = v;
                     step = nesterov() ? mul_add(momentum, v, g) : v;
                   }
                   out[i] = mul_add(-lr, step, p[i]);
                 }
               });
  };
  if (!args.velocity)
    step_with([] { return false; }, [] { return false; });
  else if (args.nesterov)
    step_with([] { return true; }, [] { return true; });
  else
    step_with([] { return true; }, [] { return false; });
}

void run(const lars_rate& op) {
  double g = 0, p = 0;
  for (std::int64_t b = 0; b < op.blocks; ++b) {
    g += op.g_squares[b];
    p += op.p_squares[b];
  }
  g = __builtin_sqrt(g);
  p = __builtin_sqrt(p);
  const double trust = op.trust, decay = op.weight_decay;
  *op.rate = g > 0 && p > 0 ? static_cast<float>(trust * p / (g + decay * p)) : 1.0F;
}

void run(const adamw& args) {
  const float lr = args.lr_scale * args.step_scalars[scalar_lr], decay = args.weight_decay, epsilon = args.epsilon;
  const float unbias1 = 1.0F / args.step_scalars[scalar_correction1], unbias2 = 1.0F / args.step_scalars[scalar_correction2];
  const float beta1 = args.beta1, beta2 = args.beta2, rest1 = 1.0F - beta1, rest2 = 1.0F - beta2;
  for_blocks(args.terms, args.p, args.p_out, args.count,
             [=](std::int64_t begin, std::int64_t count, const float* gradient, float* out) {
               const float* p = args.p + begin;
               float *m = args.m + begin, *v = args.v + begin;
#pragma GCC ivdep
               for (std::int64_t i = 0; i < count; ++i) {
                 const float g = gradient[i];
                 const float first = mul_add(beta1, m[i], rest1 * g), second = mul_add(beta2, v[i], rest2 * g * g);
                 m[i] = first;
                 v[i] = second;
                 const float direction = first * unbias1 / (__builtin_sqrtf(second * unbias2) + epsilon);
                 out[i] = mul_add(-lr, mul_add(decay, p[i], direction), p[i]);
               }
             });
}

void run(const delay_compensate& args) {
  const float *g = args.g, *w = args.w, *backup = args.w_backup;
  const float lambda = args.lambda, decay = args.decay, rest = 1.0F - decay, epsilon = args.epsilon;
  float* mean_square = args.mean_square;
  const bool stream = worth_streaming(args.count, args.g_out == g);
  if (!mean_square)
    return map(args.g_out, args.count, stream,
               [=](std::int64_t i) { return mul_add(lambda * g[i] * g[i], w[i] - backup[i], g[i]); });
  map(args.g_out, args.count, stream, [=](std::int64_t i) {
    const float square = g[i] * g[i];
    mean_square[i] = mul_add(decay, mean_square[i], rest * square);
    return mul_add(lambda * square / __builtin_sqrtf(mean_square[i] + epsilon), w[i] - backup[i], g[i]);
  });
}

void run(const soft_threshold& op) {
  const float *x = op.x, threshold = op.threshold;
  map(op.y, op.count, worth_streaming(op.count, x == op.y), [=](std::int64_t i) {
    const float capped = x[i] > threshold ? threshold : x[i]; // x less its part within the threshold: NaN stays NaN
    return x[i] - (capped < -threshold ? -threshold : capped);
  });
}
