// SPDX-License-Identifier: BSD-3-Clause
// Recurrent layers: the steps, and the products between them.
#include "kernels/cuda/recurrent.hpp"

#include "kernels/cuda/kernels.hpp"

namespace troupe::kernels::cuda {

/// h(rows, width) and a(rows, parts width) between steps: a = h u'.
template <class Op>
void recurrent_layers::forward(const Op& op, std::int64_t parts) {
  if (op.rows == 0)
    return;
  float* h = memory_.get(scratch::steps, (1 + parts) * op.rows * op.width);
  float* a = h + op.rows * op.width;
  for (std::int64_t step = 0; step < op.length; ++step) {
    if (step > 0)
      matrices_.multiply(
          gemm{.m = op.rows, .n = parts * op.width, .k = op.width, .a = h, .b = op.u, .c = a, .transpose_b = true});
    run_gates(stream_, op, step, step > 0 ? a : nullptr, h);
  }
}

/// dh(rows, width), what passes a step beside its product (rows, width), and the gates' gradients (rows, parts width) in `state`.
template <class Op, class F>
void recurrent_layers::steps_back(const Op& op, std::int64_t parts, float* state, F gate_gradients) {
  float *dh = state, *carry = dh + op.rows * op.width, *left = carry + op.rows * op.width;
  for (std::int64_t step = op.length - 1; step >= 0; --step) {
    gate_gradients(step, step + 1 < op.length ? dh : nullptr, carry, left);
    if (step > 0)
      matrices_.multiply(gemm{.m = op.rows, .n = op.width, .k = parts * op.width, .a = left, .b = op.u, .c = dh});
  }
}

/// du and dbias from the gradients of u h + bias of all steps.
template <class Op>
void recurrent_layers::weight_gradients(const Op& op, std::int64_t parts, const float* gradients) {
  const std::int64_t gates = parts * op.width, steps = op.rows * op.length;
  float* before = memory_.get(scratch::rows, op.count());
  shift_by_a_step(stream_, op.y, before, op.rows, op.length, op.width);
  matrices_.multiply(gemm{.m = gates,
                          .n = op.width,
                          .k = steps,
                          .a = gradients,
                          .b = before,
                          .c = op.du,
                          .transpose_a = true,
                          .beta = op.accumulate ? 1.0F : 0.0F});
  if (!op.dbias)
    return;
  const sum_rows biases{.x = gradients, .y = op.dbias, .rows = steps, .columns = gates, .accumulate = op.accumulate};
  enqueue(stream_, biases, memory_.get(scratch::reduction, scratch_floats(biases)));
}

void recurrent_layers::run(const lstm_backward& op) {
  float* state = memory_.get(scratch::steps, 6 * op.rows * op.width);
  steps_back(op, 4, state, [&](std::int64_t step, const float* dh, float* carry, float* left) {
    run_gate_gradients(stream_, op, step, dh, carry, left);
  });
  matrices_.written(op.dprojected, 4 * op.count()); // by these kernels, before the product below reads it
  weight_gradients(op, 4, op.dprojected);
}

void recurrent_layers::run(const gru_backward& op) {
  float* all = memory_.get(scratch::steps, 3 * op.count() + 5 * op.rows * op.width);
  steps_back(op, 3, all + 3 * op.count(), [&](std::int64_t step, const float* dh, float* carry, float* left) {
    run_gate_gradients(stream_, op, step, dh, carry, left, all);
  });
  weight_gradients(op, 3, all);
}

template void recurrent_layers::forward(const lstm&, std::int64_t);
template void recurrent_layers::forward(const gru&, std::int64_t);

} // namespace troupe::kernels::cuda
