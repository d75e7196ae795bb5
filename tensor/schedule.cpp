// SPDX-License-Identifier: BSD-3-Clause
// Learning-rate schedules.
#include <algorithm>
#include <cmath>
#include <numbers>

#include "tensor/optimizer.hpp"

namespace troupe {

double learning_rate(const optimizer_spec& spec, double epochs, int workers) {
  const double peak = spec.scale_with_workers ? spec.lr * workers : spec.lr;
  if (epochs < spec.warmup_epochs) {
    const double start = spec.scale_with_workers ? spec.lr : 0;
    return start + (peak - start) * epochs / spec.warmup_epochs;
  }
  if (spec.schedule == "step")
    return peak * std::pow(spec.gamma, std::floor(epochs / spec.step_epochs));
  if (spec.schedule == "cosine") {
    const double length = spec.total_epochs - spec.warmup_epochs;
    const double progress = length > 0 ? std::min((epochs - spec.warmup_epochs) / length, 1.0) : 1.0;
    return spec.min_lr + (peak - spec.min_lr) * (1 + std::cos(std::numbers::pi * progress)) / 2;
  }
  return peak;
}

} // namespace troupe
