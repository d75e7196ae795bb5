// SPDX-License-Identifier: BSD-3-Clause
// The simulator's mathematics by the real model, on the CPU: simulated workers compute real gradients.
#pragma once

#include <memory>

#include "actors/job.hpp"
#include "protocols/sim/numerics.hpp"
#include "tensor/data/data_set.hpp"
#include "tensor/model.hpp"

namespace troupe::apps {

/// The job's model, data, optimizer and shards' steps as a real run has them: the same kernels, the same samples, the same random
/// numbers. One thread computes for all workers, one after the other. `net` must outlive it.
///
/// Throws std::runtime_error where the job's initial weights, or the checkpoint that it goes on from, cannot be read.
std::unique_ptr<protocols::sim::numerics> make_model_numerics(const actors::job& job, const model& net, const data_pair& data);

/// The values of a tensor of these numerics, in its order.
const float* values_of(const protocols::sim::tensor& data);

} // namespace troupe::apps
