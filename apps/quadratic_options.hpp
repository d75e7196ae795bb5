// SPDX-License-Identifier: BSD-3-Clause
// The simulator's quadratic with a job's optimizer.
#pragma once

#include "actors/job.hpp"
#include "protocols/sim/quadratic.hpp"
#include "tensor/optimizer.hpp"

namespace troupe::apps {

/// `data_size`: samples of an epoch.
inline protocols::sim::quadratic_options quadratic_options_of(const actors::job& job, std::int64_t data_size) {
  const optimizer_spec& how = job.optimizer;
  return {.seed = job.seed,
          .data_size = data_size,
          .lr = how.lr,
          .momentum = how.momentum,
          .nesterov = how.nesterov,
          .adamw = how.name == "adamw",
          .weight_decay = how.weight_decay,
          .beta1 = how.beta1,
          .beta2 = how.beta2,
          .epsilon = how.epsilon,
          .clip_norm = how.clip_norm,
          .learning_rate = [how](double epochs, std::uint32_t workers) {
            return learning_rate(how, epochs, static_cast<int>(workers));
          }};
}

} // namespace troupe::apps
