// SPDX-License-Identifier: BSD-3-Clause
// The gates of recurrent layers: a thread for each row and unit of one step.
#include "kernels/cuda/device_math.hpp"
#include "kernels/cuda/groups.hpp"
#include "kernels/cuda/kernels.hpp"

namespace troupe::kernels::cuda {

namespace {

/// One row, unit and step, and where its numbers lie.
struct unit_place {
  std::int64_t row, unit, width, y;
  __device__ unit_place(const auto& op, std::int64_t index, std::int64_t step)
      : row(index / op.width), unit(index % op.width), width(op.width), y((row * op.length + step) * op.width + unit) {}
  /// Of a gate, in an array of all steps, or of this one alone.
  __device__ std::int64_t gate(std::int64_t parts, std::int64_t part) const { return (y - unit) * parts + part * width + unit; }
  __device__ std::int64_t of_step(std::int64_t parts, std::int64_t part) const {
    return row * parts * width + part * width + unit;
  }
};

/// a = u h of this step; null before there is an h.
__device__ inline float recurrent(const unit_place& at, const float* a, const float* bias, std::int64_t parts,
                                  std::int64_t part) {
  const float product = a ? a[at.of_step(parts, part)] : 0.0F;
  return bias ? product + bias[part * at.width + at.unit] : product;
}

__global__ void __launch_bounds__(256)
    lstm_gates_kernel(const __grid_constant__ lstm args, std::int64_t step, const float* a, float* h) {
  for (std::int64_t index = grid_thread(); index < args.rows * args.width; index += grid_threads()) {
    const unit_place at(args, index, step);
    const auto sum = [&](std::int64_t part) { return args.projected[at.gate(4, part)] + recurrent(at, a, args.bias, 4, part); };
    const float i = sigmoid(sum(0)), f = sigmoid(sum(1)), candidate = tanhf(sum(2)), o = sigmoid(sum(3));
    const float c = step > 0 ? mul_add(f, args.cells[at.y - args.width], i * candidate) : i * candidate;
    args.gates[at.gate(4, 0)] = i;
    args.gates[at.gate(4, 1)] = f;
    args.gates[at.gate(4, 2)] = candidate;
    args.gates[at.gate(4, 3)] = o;
    args.cells[at.y] = c;
    args.y[at.y] = h[index] = o * tanhf(c);
  }
}

/// dh is what the product of the step after left (null: none), dc what reaches the cells; `left` the gradients of the gates.
__global__ void __launch_bounds__(256) lstm_gradients_kernel(const __grid_constant__ lstm_backward args, std::int64_t step,
                                                             const float* dh, float* dc, float* left) {
  for (std::int64_t index = grid_thread(); index < args.rows * args.width; index += grid_threads()) {
    const unit_place at(args, index, step);
    const auto gate = [&](std::int64_t part) { return args.gates[at.gate(4, part)]; };
    const float i = gate(0), f = gate(1), candidate = gate(2), o = gate(3), h = tanhf(args.cells[at.y]);
    const float before = step > 0 ? args.cells[at.y - args.width] : 0.0F;
    const float dh_t = dh ? args.dy[at.y] + dh[index] : args.dy[at.y];
    const float dc_t = mul_add(dh_t * o, mul_add(-h, h, 1.0F), dh ? dc[index] : 0.0F);
    const float gradients[4] = {dc_t * candidate * i * (1.0F - i), dc_t * before * f * (1.0F - f),
                                dc_t * i * mul_add(-candidate, candidate, 1.0F), dh_t * h * o * (1.0F - o)};
    for (std::int64_t part = 0; part < 4; ++part)
      args.dprojected[at.gate(4, part)] = left[at.of_step(4, part)] = gradients[part];
    dc[index] = dc_t * f;
  }
}

__global__ void __launch_bounds__(256)
    gru_gates_kernel(const __grid_constant__ gru args, std::int64_t step, const float* a, float* h) {
  for (std::int64_t index = grid_thread(); index < args.rows * args.width; index += grid_threads()) {
    const unit_place at(args, index, step);
    const auto p = [&](std::int64_t part) { return args.projected[at.gate(3, part)]; };
    const float r = sigmoid(p(0) + recurrent(at, a, args.bias, 3, 0)), z = sigmoid(p(1) + recurrent(at, a, args.bias, 3, 1));
    const float candidate = recurrent(at, a, args.bias, 3, 2), n = tanhf(mul_add(r, candidate, p(2)));
    const float before = step > 0 ? h[index] : 0.0F;
    args.gates[at.gate(3, 0)] = r;
    args.gates[at.gate(3, 1)] = z;
    args.gates[at.gate(3, 2)] = n;
    args.candidates[at.y] = candidate;
    args.y[at.y] = h[index] = mul_add(z, before - n, n);
  }
}

/// `through` is what reaches h past the product, `all` the gradients of the recurrent side of every step.
__global__ void __launch_bounds__(256) gru_gradients_kernel(const __grid_constant__ gru_backward args, std::int64_t step,
                                                            const float* dh, float* through, float* left, float* all) {
  for (std::int64_t index = grid_thread(); index < args.rows * args.width; index += grid_threads()) {
    const unit_place at(args, index, step);
    const float r = args.gates[at.gate(3, 0)], z = args.gates[at.gate(3, 1)], n = args.gates[at.gate(3, 2)];
    const float before = step > 0 ? args.y[at.y - args.width] : 0.0F;
    const float dh_t = dh ? args.dy[at.y] + dh[index] + through[index] : args.dy[at.y];
    const float dn = dh_t * (1.0F - z) * mul_add(-n, n, 1.0F), dz = dh_t * (before - n) * z * (1.0F - z);
    const float dr = dn * args.candidates[at.y] * r * (1.0F - r);
    const float inner[3] = {dr, dz, dn}, recurrent_side[3] = {dr, dz, dn * r};
    for (std::int64_t part = 0; part < 3; ++part) {
      args.dprojected[at.gate(3, part)] = inner[part];
      left[at.of_step(3, part)] = all[at.gate(3, part)] = recurrent_side[part];
    }
    through[index] = dh_t * z;
  }
}

/// before(rows, length, width) = y one step earlier, 0 at the first.
__global__ void __launch_bounds__(256)
    shift_kernel(const float* y, float* before, std::int64_t length, std::int64_t width, std::int64_t count) {
  for (std::int64_t i = grid_thread(); i < count; i += grid_threads())
    before[i] = i / width % length > 0 ? y[i - width] : 0.0F;
}

template <class... Parameters, class Op, class... Arguments>
void launch_step(void (*kernel)(Parameters...), cudaStream_t stream, const Op& op, const Arguments&... arguments) {
  launch(kernel, blocks_for(op.rows * op.width, 256), one_dimension(256), stream, op, arguments...);
}

} // namespace

void run_gates(cudaStream_t stream, const lstm& op, std::int64_t step, const float* a, float* h) {
  launch_step(lstm_gates_kernel, stream, op, step, a, h);
}

void run_gates(cudaStream_t stream, const gru& op, std::int64_t step, const float* a, float* h) {
  launch_step(gru_gates_kernel, stream, op, step, a, h);
}

void run_gate_gradients(cudaStream_t stream, const lstm_backward& op, std::int64_t step, const float* dh, float* carry,
                        float* left) {
  launch_step(lstm_gradients_kernel, stream, op, step, dh, carry, left);
}

void run_gate_gradients(cudaStream_t stream, const gru_backward& op, std::int64_t step, const float* dh, float* carry,
                        float* left, float* all) {
  launch_step(gru_gradients_kernel, stream, op, step, dh, carry, left, all);
}

void shift_by_a_step(cudaStream_t stream, const float* y, float* before, std::int64_t rows, std::int64_t length,
                     std::int64_t width) {
  const std::int64_t count = rows * length * width;
  launch(shift_kernel, blocks_for(count, 256), one_dimension(256), stream, y, before, length, width, count);
}

} // namespace troupe::kernels::cuda
