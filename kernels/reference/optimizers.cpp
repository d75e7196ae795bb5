// SPDX-License-Identifier: BSD-3-Clause
// Steps of optimizers and their kin, as plain loops.
#include "kernels/reference/compute.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace troupe::kernels::reference {

double soft_threshold(double x, double threshold) {
  return std::copysign(std::max(std::abs(x) - threshold, 0.0), x);
}

void compute(const kernels::sgd& args) {
  const double lr = static_cast<double>(args.lr_scale) * args.step_scalars[scalar_lr], rate = args.rate ? *args.rate : 1.0;
  for (std::int64_t i = 0; i < args.count; ++i) {
    const double p = args.p[i], g = rate * (weighted(args.terms, i) + static_cast<double>(args.weight_decay) * p);
    double step = g;
    if (args.velocity) {
      const double v = static_cast<double>(args.momentum) * args.velocity[i] + g;
      args.velocity[i] = rounded(v);
      step = args.nesterov ? g + static_cast<double>(args.momentum) * v : v;
    }
    args.p_out[i] = rounded(p - lr * step);
  }
}

void compute(const kernels::lars_rate& op) {
  const double g = std::sqrt(std::accumulate(op.g_squares, op.g_squares + op.blocks, 0.0));
  const double p = std::sqrt(std::accumulate(op.p_squares, op.p_squares + op.blocks, 0.0));
  *op.rate = g > 0 && p > 0 ? rounded(op.trust * p / (g + op.weight_decay * p)) : 1.0F;
}

void compute(const kernels::adamw& args) {
  const double lr = static_cast<double>(args.lr_scale) * args.step_scalars[scalar_lr], b1 = args.beta1, b2 = args.beta2;
  for (std::int64_t i = 0; i < args.count; ++i) {
    const double p = args.p[i], g = weighted(args.terms, i);
    const double m = b1 * args.m[i] + (1 - b1) * g, v = b2 * args.v[i] + (1 - b2) * g * g;
    args.m[i] = rounded(m);
    args.v[i] = rounded(v);
    const double m_hat = m / args.step_scalars[scalar_correction1], v_hat = v / args.step_scalars[scalar_correction2];
    args.p_out[i] = rounded(p - lr * (m_hat / (std::sqrt(v_hat) + args.epsilon) + args.weight_decay * p));
  }
}

void compute(const kernels::delay_compensate& args) {
  for (std::int64_t i = 0; i < args.count; ++i) {
    const double g = args.g[i], decay = args.decay;
    double lambda = args.lambda;
    if (args.mean_square) {
      const double mean_square = decay * args.mean_square[i] + (1 - decay) * g * g;
      args.mean_square[i] = rounded(mean_square);
      lambda /= std::sqrt(mean_square + args.epsilon);
    }
    args.g_out[i] = rounded(g + lambda * g * g * (static_cast<double>(args.w[i]) - args.w_backup[i]));
  }
}

void compute(const kernels::soft_threshold& op) {
  for (std::int64_t i = 0; i < op.count; ++i)
    op.y[i] = rounded(soft_threshold(op.x[i], op.threshold));
}

} // namespace troupe::kernels::reference
