// SPDX-License-Identifier: BSD-3-Clause
// Samples of losses.
#include "tests/kernels/operands.hpp"

namespace troupe::kernels::testing {

softmax_cross_entropy sample(operands& m, const softmax_cross_entropy*) {
  const auto rows = m.one_of<std::int64_t>({1, 7}), classes = m.one_of<std::int64_t>({2, 10, 1025});
  return {.logits = m.floats(rows * classes, -4, 4),
          .labels = m.integers(rows, classes, ignored_label),
          .scale = 0.125F,
          .loss = m.result(rows),
          .dlogits = m.coin() ? m.result(rows * classes) : nullptr,
          .correct = m.coin() ? m.integer_result(rows) : nullptr,
          .rows = rows,
          .classes = classes,
          .device_scale = m.device_scale(),
          .smoothing = m.one_of({0.0F, 0.1F})};
}

mean_squared_error sample(operands& m, const mean_squared_error*) {
  const auto rows = m.one_of<std::int64_t>({1, 7}), columns = length(m);
  return {.x = m.floats(rows * columns),
          .target = m.floats(rows * columns),
          .scale = 0.125F,
          .loss = m.result(rows),
          .dx = m.coin() ? m.result(rows * columns) : nullptr,
          .rows = rows,
          .columns = columns,
          .device_scale = m.device_scale()};
}

sigmoid_cross_entropy sample(operands& m, const sigmoid_cross_entropy*) {
  const auto rows = m.one_of<std::int64_t>({1, 7}), columns = m.one_of<std::int64_t>({1, 2, 1025});
  return {.x = m.floats(rows * columns, -4, 4),
          .target = m.floats(rows * columns, 0, 1),
          .scale = 0.125F,
          .loss = m.result(rows),
          .dx = m.coin() ? m.result(rows * columns) : nullptr,
          .correct = m.coin() ? m.integer_result(rows) : nullptr,
          .rows = rows,
          .columns = columns,
          .device_scale = m.device_scale()};
}

} // namespace troupe::kernels::testing
