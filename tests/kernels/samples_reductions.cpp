// SPDX-License-Identifier: BSD-3-Clause
// Samples of reductions and of steps of optimizers.
#include "tests/kernels/operands.hpp"

namespace troupe::kernels::testing {

sum_rows sample(operands& m, const sum_rows*) {
  const auto rows = m.one_of<std::int64_t>({1, 30}), columns = length(m);
  const bool accumulate = m.coin();
  return {.x = m.floats(rows * columns),
          .y = m.sums(accumulate, columns),
          .rows = rows,
          .columns = columns,
          .accumulate = accumulate};
}

sum sample(operands& m, const sum*) {
  const auto n = length(m);
  return {.x = m.floats(n, 0, 1), .count = n, .result = m.result(1)};
}

sum_axes sample(operands& m, const sum_axes*) {
  sum_axes op{.extents = extents_of({})};
  axes kept = op.extents;
  for (auto axis = most_axes - m.one_of<std::size_t>({2, 3, 4}); axis < most_axes; ++axis) {
    op.extents[axis] = m.one_of<std::int64_t>({1, 2, 5, 33});
    kept[axis] = m.coin() ? op.extents[axis] : 1;
  }
  op.y_strides = row_major(kept);
  for (std::size_t axis = 0; axis < most_axes; ++axis)
    op.y_strides[axis] = kept[axis] == 1 ? 0 : op.y_strides[axis];
  op.x = m.floats(elements(op.extents));
  op.scale = m.one_of({1.0F, 0.1F});
  op.accumulate = m.coin();
  op.y = m.sums(op.accumulate, elements(kept));
  return op;
}

sum_squares sample(operands& m, const sum_squares*) {
  const auto n = m.one_of<std::int64_t>({1, 17, square_block, 2 * square_block + 3});
  sum_squares op{.x = m.floats(n), .count = n};
  op.blocks = m.double_result(op.block_count());
  return op;
}

weighted_sum sample(operands& m, const weighted_sum*) {
  const auto n = length(m);
  return {.terms = m.terms(n), .y = m.result(n), .count = n};
}

all_finite sample(operands& m, const all_finite*) {
  const auto n = length(m);
  return {.x = m.coin() ? m.floats(n) : m.result(n), .count = n, .flag = m.integer_result(1)};
}

sgd sample(operands& m, const sgd*) {
  const auto n = length(m);
  sgd op{.count = n, .terms = m.terms(n), .p = m.floats(n), .p_out = m.result(n), .step_scalars = m.step_scalars()};
  op.velocity = m.coin() ? m.floats(n) : nullptr;
  op.momentum = op.velocity ? 0.9F : 0;
  op.weight_decay = 0.1F;
  op.lr_scale = m.one_of({1.0F, 0.5F});
  op.nesterov = op.velocity && m.coin();
  op.rate = m.device_scale();
  return op;
}

lars_rate sample(operands& m, const lars_rate*) {
  const auto n = m.one_of<std::int64_t>({1, 3, 40});
  return {.blocks = n,
          .g_squares = m.doubles(n, m.one_of({0.0, 1.0, 30.0})),
          .p_squares = m.doubles(n, m.one_of({0.0, 1.0})),
          .rate = m.result(1),
          .trust = m.one_of({0.001F, 0.5F}),
          .weight_decay = m.one_of({0.0F, 0.1F})};
}

adamw sample(operands& m, const adamw*) {
  const auto n = length(m);
  return {.count = n,
          .terms = m.terms(n),
          .p = m.floats(n),
          .p_out = m.result(n),
          .m = m.floats(n),
          .v = m.floats(n, 0.1F, 1),
          .step_scalars = m.step_scalars(),
          .weight_decay = 0.1F,
          .lr_scale = m.one_of({1.0F, 0.5F})};
}

delay_compensate sample(operands& m, const delay_compensate*) {
  const auto n = length(m);
  return {.count = n,
          .g = m.floats(n),
          .w = m.floats(n),
          .w_backup = m.floats(n),
          .g_out = m.result(n),
          .mean_square = m.coin() ? m.floats(n, 0.1F, 1) : nullptr,
          .lambda = 0.4F};
}

soft_threshold sample(operands& m, const soft_threshold*) {
  const auto n = length(m);
  return {.x = m.floats(n), .threshold = 0.3F, .y = m.result(n), .count = n};
}

} // namespace troupe::kernels::testing
