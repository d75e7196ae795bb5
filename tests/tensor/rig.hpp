// SPDX-License-Identifier: BSD-3-Clause
// One model on one queue with drawn parameters and a drawn batch, and its comparison with the interpreter.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "kernels/backend.hpp"
#include "tensor/model.hpp"
#include "tensor/plan.hpp"
#include "tests/tensor/interpreter.hpp"

namespace troupe::testing {

class rig {
public:
  /// A model with three classes, on the CPU.
  rig(const std::vector<std::string>& layers, const data_format& data, std::int64_t max_rows, bool training = true);
  rig(const std::vector<std::string>& layers, const data_format& data, const plan::options& opts,
      std::unique_ptr<kernels::backend> on);
  rig(model of, const plan::options& opts, std::unique_ptr<kernels::backend> on = kernels::open_backend({}));

  step_args args(std::int64_t rows);
  /// The first element of x.
  void change_input();
  /// Fills the gradients with garbage first: a step must write every float.
  const step_outcome& step(std::int64_t rows);
  const step_outcome& evaluate(std::int64_t rows);

  interpreter_inputs plain_inputs(std::int64_t rows, bool training) const;
  std::vector<float> flat_gradients() const;

  std::unique_ptr<kernels::backend> queue;
  model source;
  std::unique_ptr<plan> compiled;
  kernels::buffer parameters, gradients, x, labels;
  kernels::random_key key{.seed = 5, .stream = 1, .step = 3};
  std::vector<int> ready;
  int steps_done = 0;

private:
  std::optional<std::int64_t> counted(std::int64_t rows) const;
};

double sum_of(const std::vector<double>& values);

/// How far a gradient may be off: as a part of its slot's largest, which counts as at least `least`. Float sums of a few hundred
/// terms keep about 5 digits; a sum of terms that cancel each other keeps fewer.
struct closeness {
  double part = 2e-5, least = 1e-3;
};

/// Loss, hits and every gradient against the interpreter.
void expect_step_equals_interpreter(rig& r, std::int64_t rows, closeness how = {});

} // namespace troupe::testing
