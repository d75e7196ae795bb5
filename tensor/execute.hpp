// SPDX-License-Identifier: BSD-3-Clause
// One instruction of a plan as one call of a backend, and what it costs.
#pragma once

#include <cstdint>

#include "kernels/backend.hpp"
#include "tensor/graph.hpp"
#include "tensor/placement.hpp"

namespace troupe {

/// What a program's addresses and symbolic rows stand for in one step.
struct bindings {
  float* workspace = nullptr;
  const float* parameters = nullptr;
  float* gradients = nullptr;
  float* report = nullptr;
  std::int64_t rows = 0;
  const kernels::random_key* key = nullptr; ///< of the first layer and row; in the device's memory

  float* address(const place& at) const;
};

/// Enqueues one instruction. Inputs, parameters and views need none.
void execute(const graph& g, const placement& places, const node& n, const bindings& bound, kernels::backend& queue);

/// Floating-point operations of one instruction with `rows` rows; a multiply-add counts two.
double flops(const graph& g, const placement& places, const node& n, std::int64_t rows);

} // namespace troupe
