// SPDX-License-Identifier: BSD-3-Clause
// Models that other code computes: steps handed out as tasks, and a data set of row numbers.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>

#include "kernels/backend.hpp"
#include "tensor/data/data_set.hpp"
#include "tensor/layout.hpp"
#include "tensor/plan.hpp"

namespace troupe {

/// What the computer of a task says of it.
struct foreign_outcome {
  double loss_sum = 0;      ///< over the predictions that count
  std::int64_t counted = 0; ///< how many those are
  std::int64_t correct = 0;
};

/// A step or an evaluation that waits to be computed. Its memory lives as long as the task.
struct foreign_task {
  bool training = true;                ///< false: an evaluation, without gradients
  std::int32_t worker = -1;            ///< whose step it is; -1: nobody's
  std::span<const std::uint32_t> rows; ///< numbers of the samples, as foreign_rows has them
  const float* parameters = nullptr;   ///< flat, layout.floats(); shared, so never to be written
  float* gradients = nullptr;          ///< flat, to be written: d(mean loss)/d(parameter); null in an evaluation
  /// This slot's gradient is complete: sending begins. Those for which it is not called become zero with `done`.
  std::function<void(int slot)> ready;
  std::function<void(const foreign_outcome&)> done; ///< to be called once, last, on any thread
  std::array<kernels::buffer, 3> blocks;            ///< what the pointers point into
};

/// Computes tasks, elsewhere and later.
class foreign_computer {
public:
  virtual ~foreign_computer() = default;
  /// Called on the threads of actors, so it returns at once. A task that is never computed is a step that never ends.
  virtual void enqueue(foreign_task task) = 0;
  /// With what its model begins, flat, layout.floats(); none: with what the layout's initializers draw. Lives as long as this.
  virtual std::span<const float> initial() const { return {}; }
};

/// The plan of a foreign model: it hands each step and evaluation to the model's computer. A step is not cut into pieces. For
/// memory on the host. `worker`: see plan::options.
std::unique_ptr<plan> make_foreign_plan(const parameter_layout& layout, std::shared_ptr<foreign_computer> by,
                                        std::int32_t worker);

/// Of a foreign model: samples that are their own numbers, [first, first + count).
std::shared_ptr<const data_set> foreign_rows(std::int64_t first, std::int64_t count);

} // namespace troupe
