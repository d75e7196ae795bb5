// SPDX-License-Identifier: BSD-3-Clause
// Steps of optimizers, and what protocols do to a gradient before one or to the parameters after it.
#pragma once

#include <cstdint>
#include <span>

#include "kernels/operations/shapes.hpp"

namespace troupe::kernels {

/// One optimizer step reads what changes between steps from device memory, so that a captured program can be replayed:
/// `step_scalars` is an array in the device's memory laid out as `optimizer_scalar`.
enum optimizer_scalar : int {
  scalar_lr = 0,      ///< learning rate of this step
  scalar_correction1, ///< adamw: 1 - beta1^t
  scalar_correction2, ///< adamw: 1 - beta2^t
  optimizer_scalar_count
};

/// SGD with momentum over `count` elements, fused with the weighted sum of its gradients:
///   g = rate * (sum_i terms[i].weight * terms[i].data + weight_decay * p);  v' = momentum * v + g;
///   p' = p - lr_scale * lr * (nesterov ? g + momentum * v' : v').
/// `p_out` may equal `p` (in place); nothing else may overlap. `velocity` (updated in place) may be null when momentum is 0.
/// Terms are added in the order given: the same bits as weighted_sum and then a step with its result.
struct sgd {
  static constexpr auto name = "sgd";
  std::int64_t count = 0;
  std::span<const term> terms = {};
  const float* p = nullptr;
  float* p_out = nullptr;
  float* velocity = nullptr;
  const float* step_scalars = nullptr;
  float momentum = 0, weight_decay = 0;
  bool nesterov = false;
  float lr_scale = 1;          ///< of these elements, beside the step's rate
  const float* rate = nullptr; ///< one float (lars_rate); null: 1

  void inputs(auto each) const {
    for (const term& t : terms)
      each(t.data, count);
    each(p, count), each(static_cast<const float*>(velocity), count), each(step_scalars, optimizer_scalar_count);
    each(rate, 1);
  }
  void outputs(auto each) const { each(p_out, count), each(velocity, count); }
};

/// The local rate of one parameter p with gradient g (LARS: You, Gitman & Ginsburg 2017, "Large batch training of convolutional
/// networks", eq. 6):
///   *rate = trust * |p| / (|g| + weight_decay * |p|), or 1 where |p| or |g| is 0,
/// by the squares of both norms as sum_squares gives them, added in the order of blocks.
struct lars_rate {
  static constexpr auto name = "lars_rate";
  std::int64_t blocks = 0;
  const double* g_squares = nullptr;
  const double* p_squares = nullptr;
  float* rate = nullptr;
  float trust = 0.001F, weight_decay = 0;

  void inputs(auto each) const { each(g_squares, blocks), each(p_squares, blocks); }
  void outputs(auto each) const { each(rate, 1); }
};

/// AdamW (Loshchilov & Hutter 2019, algorithm 2), decoupled weight decay:
///   m = b1 m + (1-b1) g; v = b2 v + (1-b2) g^2; p' = p - lr_scale * lr * (m/c1 / (sqrt(v/c2) + eps) + weight_decay * p).
/// g and aliasing are as in sgd, without the decay in g.
struct adamw {
  static constexpr auto name = "adamw";
  std::int64_t count = 0;
  std::span<const term> terms = {};
  const float* p = nullptr;
  float* p_out = nullptr;
  float* m = nullptr;
  float* v = nullptr;
  const float* step_scalars = nullptr;
  float beta1 = 0.9F, beta2 = 0.999F, epsilon = 1e-8F, weight_decay = 0;
  float lr_scale = 1;

  void inputs(auto each) const {
    for (const term& t : terms)
      each(t.data, count);
    each(p, count), each(m, count), each(v, count), each(step_scalars, optimizer_scalar_count);
  }
  void outputs(auto each) const { each(p_out, count), each(m, count), each(v, count); }
};

/// What a gradient lacks for being late, by its diagonal second-order term (DC-ASGD: Zheng et al. 2017, "Asynchronous
/// stochastic gradient descent with delay compensation", eq. 10):
///   g_out = g + lambda * g * g * (w - w_backup)
/// where g was computed at `w_backup` and the step will be taken from `w`, all elementwise. With `mean_square` (updated in place)
/// the adaptive form:
///   mean_square = decay * mean_square + (1 - decay) * g * g, and lambda / sqrt(mean_square + epsilon) instead of lambda.
/// `g_out` may equal `g`; nothing else may overlap. Where w equals w_backup, g_out is g.
struct delay_compensate {
  static constexpr auto name = "delay_compensate";
  std::int64_t count = 0;
  const float* g = nullptr;
  const float* w = nullptr;
  const float* w_backup = nullptr;
  float* g_out = nullptr;
  float* mean_square = nullptr; ///< null: the constant form
  float lambda = 0;
  float decay = 0.95F, epsilon = 1e-7F; ///< of the adaptive form

  void inputs(auto each) const { each(g, count), each(w, count), each(w_backup, count), each(mean_square, count); }
  void outputs(auto each) const { each(g_out, count), each(mean_square, count); }
};

/// y = sign(x) * max(|x| - threshold, 0), the proximal map of threshold * ||x||_1; NaN stays NaN. threshold >= 0.
struct soft_threshold {
  static constexpr auto name = "soft_threshold";
  const float* x = nullptr;
  float threshold = 0;
  float* y = nullptr;
  std::int64_t count = 0;

  void inputs(auto each) const { each(x, count); }
  void outputs(auto each) const { each(y, count); }
};

} // namespace troupe::kernels
