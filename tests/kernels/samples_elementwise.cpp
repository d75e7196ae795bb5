// SPDX-License-Identifier: BSD-3-Clause
// Samples of elementwise operations.
#include "tests/kernels/operands.hpp"

#include "tests/kernels/harness.hpp"

namespace troupe::kernels::testing {

namespace {

/// Extents of two to four axes.
axes drawn_extents(operands& m) {
  axes out = extents_of({});
  for (auto axis = most_axes - m.one_of<std::size_t>({2, 3, 4}); axis < most_axes; ++axis)
    out[axis] = m.one_of<std::int64_t>({1, 2, 5, 33});
  return out;
}

/// Strides of an operand that is broadcast along some of the axes.
axes broadcast(operands& m, const axes& extents) {
  axes own = extents;
  for (auto& extent : own)
    extent = m.coin() ? extent : 1;
  axes strides = row_major(own);
  for (std::size_t axis = 0; axis < most_axes; ++axis)
    strides[axis] = own[axis] == 1 ? 0 : strides[axis];
  return strides;
}

/// Strides of an array whose axes are in another order, with gaps or without.
axes permuted(operands& m, const axes& extents) {
  axes strides = {};
  std::int64_t step = m.one_of<std::int64_t>({1, 1, 2});
  const std::size_t first = m.one_of<std::size_t>({0, 3, 4, 5});
  for (std::size_t i = most_axes; i-- > 0; step *= extents[(first + i) % most_axes])
    strides[(first + i) % most_axes] = step;
  return strides;
}

} // namespace

fill sample(operands& m, const fill*) {
  const auto n = length(m);
  return {.y = m.result(n), .value = 0.75F, .count = n};
}

unary sample(operands& m, const unary*) {
  const auto n = length(m);
  return {.op = m.one_of(all_unary), .x = m.floats(n, 0.01F, 4), .y = m.result(n), .count = n};
}

unary_backward sample(operands& m, const unary_backward*) {
  const auto n = length(m);
  unary_backward op{.op = m.one_of(all_unary), .dy = m.floats(n), .dx = m.result(n), .count = n};
  (saves_result(op.op) ? op.y : op.x) = m.floats(n, 0.01F, 0.9F);
  return op;
}

binary sample(operands& m, const binary*) {
  using enum binary_op;
  const auto n = length(m);
  return {.op = m.one_of({add, subtract, multiply, divide}),
          .a = m.floats(n),
          .b = m.floats(n, 0.5F, 2),
          .y = m.result(n),
          .count = n};
}

broadcast_binary sample(operands& m, const broadcast_binary*) {
  using enum binary_op;
  broadcast_binary op{.op = m.one_of({add, subtract, multiply, divide}), .extents = drawn_extents(m)};
  op.a_strides = m.coin() ? row_major(op.extents) : broadcast(m, op.extents);
  op.b_strides = m.coin() ? row_major(op.extents) : broadcast(m, op.extents);
  op.a = m.floats(reach(op.extents, op.a_strides));
  op.b = m.floats(reach(op.extents, op.b_strides), 0.5F, 2);
  op.y = m.result(elements(op.extents));
  return op;
}

axpby sample(operands& m, const axpby*) {
  const auto n = length(m);
  const auto beta = m.one_of({0.0F, 0.7F});
  return {.alpha = 0.3F, .x = m.floats(n), .beta = beta, .y = beta == 0 ? m.result(n) : m.floats(n), .count = n};
}

copy_strided sample(operands& m, const copy_strided*) {
  copy_strided op{.extents = drawn_extents(m)};
  op.x_strides = m.coin() ? permuted(m, op.extents) : broadcast(m, op.extents);
  op.y_strides = m.coin() ? permuted(m, op.extents) : row_major(op.extents);
  op.x = m.floats(reach(op.extents, op.x_strides));
  op.alpha = m.one_of({1.0F, 0.7F});
  op.accumulate = m.coin();
  op.y = m.floats(reach(op.extents, op.y_strides)); // what lies between is left alone
  return op;
}

bias_activation sample(operands& m, const bias_activation*) {
  const auto rows = m.one_of<std::int64_t>({1, 7}), columns = length(m);
  return {.x = m.floats(rows * columns),
          .bias = m.coin() ? m.floats(columns) : nullptr,
          .act = m.one_of(all_activations),
          .y = m.result(rows * columns),
          .rows = rows,
          .columns = columns};
}

dropout sample(operands& m, const dropout*) {
  const auto rows = m.one_of<std::int64_t>({1, 7}), columns = length(m);
  return {.x = m.floats(rows * columns),
          .y = m.result(rows * columns),
          .rows = rows,
          .columns = columns,
          .rate = 0.4F,
          .key = m.key(),
          .layer = 2};
}

} // namespace troupe::kernels::testing
