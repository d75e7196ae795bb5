// SPDX-License-Identifier: BSD-3-Clause
// One instruction of a plan as operations of a backend, and what it costs.
#pragma once

#include <cstdint>
#include <functional>

#include "kernels/operation.hpp"
#include "tensor/graph.hpp"
#include "tensor/placement.hpp"

namespace troupe {

/// What changes from step to step; it lies in the device's memory, so that a recorded step can be replayed.
struct step_numbers {
  kernels::random_key key; ///< of the first layer and row
  float scale = 1;         ///< of the loss's gradient: 1 / predictions that count
};

/// What a program's addresses and symbolic rows stand for in one step.
struct bindings {
  float* workspace = nullptr;
  const float* parameters = nullptr;
  float* gradients = nullptr;
  float* report = nullptr;
  std::int64_t rows = 0;
  float share = 1;                       ///< of the rows of all parts of the step
  const step_numbers* numbers = nullptr; ///< in the device's memory

  float* address(const place& p) const;
  friend bool operator==(const bindings&, const bindings&) = default;
};

using operation_sink = std::function<void(const kernels::operation&)>;

/// Calls each for what one instruction enqueues: nothing for sources and views, as a rule one operation.
void each_operation(const graph& g, const placement& places, const node& n, const bindings& bound, const operation_sink& each);

/// What one instruction costs with `rows` rows, see kernels::flops and kernels::bytes_moved.
struct instruction_cost {
  double flops = 0, bytes = 0;
};
instruction_cost cost_of(const graph& g, const placement& places, const node& n, std::int64_t rows);

} // namespace troupe
