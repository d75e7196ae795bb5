// SPDX-License-Identifier: BSD-3-Clause
// What a training step costs through the actors: one worker and one shard in one process.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include <caf/actor_system.hpp>

#include "kernels/backend.hpp"
#include "tensor/error.hpp"

namespace troupe::actors {

/// The same model, data and optimizer as troupe::direct_step_bench, but as a job runs them: worker, compute, loader and
/// shard actors, messages between them, every push decided by the lead. Paused between measurements.
class step_bench {
public:
  /// `system` outlives it; init_message_types() has been called.
  static result<std::unique_ptr<step_bench>> open(caf::actor_system& system, const kernels::backend_options& device,
                                                  const std::string& model_name, std::int64_t batch);
  virtual ~step_bench() = default;
  /// Trains for about this many seconds and returns samples a second. Throws std::runtime_error if none counts, because the model
  /// has diverged: unlike the bare loop, the shard takes no gradient that is not finite.
  virtual double measure(double seconds) = 0;
};

} // namespace troupe::actors
