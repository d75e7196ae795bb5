// SPDX-License-Identifier: BSD-3-Clause
// Losses and their gradients, as plain loops.
#include "kernels/reference/compute.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

namespace troupe::kernels::reference {

namespace {

double factor(const auto& op) {
  return static_cast<double>(op.scale) * (op.device_scale ? *op.device_scale : 1.0F);
}

} // namespace

template <class Real>
void softmax_cross_entropy(const kernels::softmax_cross_entropy& op, const Real* logits, Real* loss, Real* dlogits) {
  const double scale = factor(op), smooth = static_cast<double>(op.smoothing) / static_cast<double>(op.classes);
  for (std::int64_t r = 0; r < op.rows; ++r) {
    const Real* x = logits + r * op.classes;
    const auto label = op.labels[r];
    const bool known = label >= 0 && label < op.classes, ignored = label == ignored_label;
    const auto best = std::max_element(x, x + op.classes); // the first of equals
    const auto target = [&](std::int64_t i) { return smooth + (i == label ? 1 - static_cast<double>(op.smoothing) : 0.0); };
    double total = 0, entropy = 0;
    for (std::int64_t i = 0; i < op.classes; ++i)
      total += std::exp(static_cast<double>(x[i]) - *best);
    for (std::int64_t i = 0; i < op.classes; ++i)
      entropy += target(i) * (std::log(total) + *best - x[i]);
    if (op.correct)
      op.correct[r] = known && best - x == label;
    for (std::int64_t i = 0; dlogits && i < op.classes; ++i)
      dlogits[r * op.classes + i] =
          ignored ? Real{0} : static_cast<Real>(scale * (std::exp(static_cast<double>(x[i]) - *best) / total - target(i)));
    loss[r] = ignored ? Real{0} : (known ? static_cast<Real>(entropy) : std::numeric_limits<Real>::quiet_NaN());
  }
}

template <class Real>
void mean_squared_error(const kernels::mean_squared_error& op, const Real* x, const Real* target, Real* loss, Real* dx) {
  const auto columns = static_cast<double>(op.columns);
  for (std::int64_t r = 0; r < op.rows; ++r) {
    double total = 0;
    for (std::int64_t i = r * op.columns; i < (r + 1) * op.columns; ++i) {
      const double difference = static_cast<double>(x[i]) - target[i];
      total += difference * difference;
      if (dx)
        dx[i] = static_cast<Real>(factor(op) * 2 * difference / columns);
    }
    loss[r] = static_cast<Real>(total / columns);
  }
}

template <class Real>
void sigmoid_cross_entropy(const kernels::sigmoid_cross_entropy& op, const Real* x, const Real* target, Real* loss, Real* dx) {
  const auto columns = static_cast<double>(op.columns);
  for (std::int64_t r = 0; r < op.rows; ++r) {
    double total = 0;
    bool hit = true;
    for (std::int64_t i = r * op.columns; i < (r + 1) * op.columns; ++i) {
      const double logit = x[i];
      total += std::max(logit, 0.0) - logit * target[i] + std::log1p(std::exp(-std::abs(logit)));
      hit = hit && (logit > 0) == (target[i] > 0.5);
      if (dx)
        dx[i] = static_cast<Real>(factor(op) * (sigmoid(logit) - target[i]) / columns);
    }
    loss[r] = static_cast<Real>(total / columns);
    if (op.correct)
      op.correct[r] = hit;
  }
}

#define TROUPE_INSTANTIATE(Real)                                                                                                 \
  template void softmax_cross_entropy(const kernels::softmax_cross_entropy&, const Real*, Real*, Real*);                         \
  template void mean_squared_error(const kernels::mean_squared_error&, const Real*, const Real*, Real*, Real*);                  \
  template void sigmoid_cross_entropy(const kernels::sigmoid_cross_entropy&, const Real*, const Real*, Real*, Real*);
TROUPE_INSTANTIATE(float)
TROUPE_INSTANTIATE(double)
#undef TROUPE_INSTANTIATE

void compute(const kernels::softmax_cross_entropy& op) {
  softmax_cross_entropy(op, op.logits, op.loss, op.dlogits);
}

void compute(const kernels::mean_squared_error& op) {
  mean_squared_error(op, op.x, op.target, op.loss, op.dx);
}

void compute(const kernels::sigmoid_cross_entropy& op) {
  sigmoid_cross_entropy(op, op.x, op.target, op.loss, op.dx);
}

} // namespace troupe::kernels::reference
