// SPDX-License-Identifier: BSD-3-Clause
// Gradients of recurrent layers on the CPU: the steps are loops, the weight's gradient is one product over all of them.
#include <cstring>

#include "kernels/cpu/cpu_backend.hpp"

namespace troupe::kernels {

namespace {

/// before(rows, length, width) = y one step earlier, 0 at the first.
void shift_by_a_step(const float* y, std::int64_t rows, std::int64_t length, std::int64_t width, float* before) {
  const auto bytes = [](std::int64_t floats) { return static_cast<std::size_t>(floats) * sizeof(float); };
  for (std::int64_t row = 0; row < rows; ++row, y += length * width, before += length * width) {
    std::memset(before, 0, bytes(width));
    std::memcpy(before + width, y, bytes((length - 1) * width));
  }
}

/// du and dbias of a layer of `parts` gates, from the gradients of u h + bias of all steps.
template <class Op>
void weight_gradients(const Op& op, std::int64_t parts, const float* gradients, float* before, gemm_runner& products,
                      const loop_table& loops) {
  const std::int64_t steps = op.rows * op.length, gates = parts * op.width;
  shift_by_a_step(op.y, op.rows, op.length, op.width, before);
  products.run(gemm{.m = gates,
                    .n = op.width,
                    .k = steps,
                    .a = gradients,
                    .b = before,
                    .c = op.du,
                    .transpose_a = true,
                    .beta = op.accumulate ? 1.0F : 0.0F});
  if (op.dbias)
    loops(sum_rows{.x = gradients, .y = op.dbias, .rows = steps, .columns = gates, .accumulate = op.accumulate});
}

} // namespace

void cpu_backend::run(const lstm_backward& op) {
  float* memory = scratch(scratch_floats(op) + op.count());
  loops_(with_scratch<lstm_backward>{op, memory});
  weight_gradients(op, 4, op.dprojected, memory + scratch_floats(op), gemm_, loops_);
}

void cpu_backend::run(const gru_backward& op) {
  float* memory = scratch(scratch_floats(op) + op.count());
  loops_(with_scratch<gru_backward>{op, memory});
  weight_gradients(op, 3, memory, memory + scratch_floats(op), gemm_, loops_);
}

} // namespace troupe::kernels
