// SPDX-License-Identifier: BSD-3-Clause
// One instruction of a plan as one operation of a backend, and what it costs.
#pragma once

#include <cstdint>
#include <optional>

#include "kernels/operation.hpp"
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
  float scale = 1;                          ///< of the loss's gradient: 1 / predictions that count
  const kernels::random_key* key = nullptr; ///< of the first layer and row; in the device's memory

  float* address(const place& p) const;
};

/// What one instruction enqueues; none for inputs, parameters and views.
std::optional<kernels::operation> operation_of(const graph& g, const placement& places, const node& n, const bindings& bound);

/// Floating-point operations of one instruction with `rows` rows, see kernels::flops.
double flops(const graph& g, const placement& places, const node& n, std::int64_t rows);

} // namespace troupe
