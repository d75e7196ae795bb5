// SPDX-License-Identifier: BSD-3-Clause
// What the .cu files offer to host code: each function enqueues its kernels on a stream and returns.
#pragma once

#include <cstdint>

#include <cuda_runtime.h>

#include "kernels/backend.hpp"

/// `enqueue` of an operation does what operation.hpp says of it. Pointers are device addresses.
namespace troupe::kernels::cuda {

// elementwise.cu
void enqueue(cudaStream_t stream, const fill& op);
void enqueue(cudaStream_t stream, const unary& op);
void enqueue(cudaStream_t stream, const unary_backward& op);
void enqueue(cudaStream_t stream, const binary& op);
void enqueue(cudaStream_t stream, const axpby& op);
void enqueue(cudaStream_t stream, const bias_activation& op);
void enqueue(cudaStream_t stream, const soft_threshold& op);

// strided.cu
void enqueue(cudaStream_t stream, const broadcast_binary& op);
void enqueue(cudaStream_t stream, const copy_strided& op);
void enqueue(cudaStream_t stream, const sum_axes& op);

// dropout.cu
void enqueue(cudaStream_t stream, const dropout& op);
/// The nearest bfloat16 of each element (ties to even, NaN stays NaN), as its 16 bits or as the float that it stands for.
void round_to_bf16(cudaStream_t stream, const float* x, std::uint16_t* y, std::int64_t count);
void round_to_bf16(cudaStream_t stream, const float* x, float* y, std::int64_t count);

// reductions.cu: `scratch` holds as many floats as `scratch_floats` says of the operation
std::int64_t scratch_floats(const sum& op);
void enqueue(cudaStream_t stream, const sum& op, float* scratch);
std::int64_t scratch_floats(const sum_rows& op);
void enqueue(cudaStream_t stream, const sum_rows& op, float* scratch);
void enqueue(cudaStream_t stream, const sum_squares& op);
void enqueue(cudaStream_t stream, const all_finite& op);

// losses.cu
void enqueue(cudaStream_t stream, const softmax_cross_entropy& op);
void enqueue(cudaStream_t stream, const mean_squared_error& op);
void enqueue(cudaStream_t stream, const sigmoid_cross_entropy& op);

// normalisation.cu
void enqueue(cudaStream_t stream, const softmax& op);
void enqueue(cudaStream_t stream, const softmax_backward& op);
void enqueue(cudaStream_t stream, const rmsnorm& op);
std::int64_t scratch_floats(const rmsnorm_backward& op);
void enqueue(cudaStream_t stream, const rmsnorm_backward& op, float* scratch);
void enqueue(cudaStream_t stream, const layernorm& op);
std::int64_t scratch_floats(const layernorm_backward& op);
void enqueue(cudaStream_t stream, const layernorm_backward& op, float* scratch);

// channels.cu
void enqueue(cudaStream_t stream, const groupnorm& op);
void enqueue(cudaStream_t stream, const groupnorm_backward& op);
void enqueue(cudaStream_t stream, const batchnorm& op);
void enqueue(cudaStream_t stream, const batchnorm_inference& op);
void enqueue(cudaStream_t stream, const batchnorm_backward& op);

// tokens.cu
void enqueue(cudaStream_t stream, const embedding& op);
std::int64_t scratch_floats(const embedding_backward& op);
void enqueue(cudaStream_t stream, const embedding_backward& op, float* scratch);
std::int64_t scratch_floats(const rotary& op);
void enqueue(cudaStream_t stream, const rotary& op, float* scratch);

// attention.cu
void enqueue(cudaStream_t stream, const attention& op);
std::int64_t scratch_floats(const attention_backward& op);
void enqueue(cudaStream_t stream, const attention_backward& op, float* scratch);

// gates.cu: one step of a recurrent layer each, of every row
/// Gates and results from a(rows, parts width) = u h of this step (null at the first); h(rows, width) is read and written.
void run_gates(cudaStream_t stream, const lstm& op, std::int64_t step, const float* a, float* h);
void run_gates(cudaStream_t stream, const gru& op, std::int64_t step, const float* a, float* h);
/// Gradients of the gates, into dprojected and left(rows, parts width). dh(rows, width) comes from the step after (null at the
/// last); carry(rows, width) is what passes beside its product, read and written. `all`, as dprojected, gets those of the
/// recurrent side of every step.
void run_gate_gradients(cudaStream_t stream, const lstm_backward& op, std::int64_t step, const float* dh, float* carry,
                        float* left);
void run_gate_gradients(cudaStream_t stream, const gru_backward& op, std::int64_t step, const float* dh, float* carry,
                        float* left, float* all);
/// before(rows, length, width) = y one step earlier, 0 at the first.
void shift_by_a_step(cudaStream_t stream, const float* y, float* before, std::int64_t rows, std::int64_t length,
                     std::int64_t width);

// pooling.cu
void enqueue(cudaStream_t stream, const max_pool& op);
void enqueue(cudaStream_t stream, const max_pool_backward& op);
void enqueue(cudaStream_t stream, const avg_pool& op);
void enqueue(cudaStream_t stream, const avg_pool_backward& op);

// convolution.cu: images (N, C, H, W) as matrices whose columns are (n, position)
/// columns(C * kh * kw, N * OH * OW) = the pixels under each place of the kernel, 0 in the padding.
void image_to_columns(cudaStream_t stream, const window2d& window, const float* x, float* columns);
/// dx(N, C, H, W) = the sum of what image_to_columns copied from each pixel.
void columns_to_image(cudaStream_t stream, const window2d& window, const float* columns, float* dx);
/// y(N, K, P) = act(x(K, N, P) + bias(K)); `bias` may be null, act is none or relu.
void planes_from_rows(cudaStream_t stream, const float* x, const float* bias, activation act, float* y, std::int64_t n,
                      std::int64_t channels, std::int64_t plane);
/// y(K, N, P) = x(N, K, P).
void rows_from_planes(cudaStream_t stream, const float* x, float* y, std::int64_t n, std::int64_t channels, std::int64_t plane);
/// y(N, K, P) = act(y + bias(K)), in place.
void bias_planes(cudaStream_t stream, const float* bias, activation act, float* y, std::int64_t n, std::int64_t channels,
                 std::int64_t plane);
/// dbias(K) = the sum of dy(N, K, P) over N and P, added to what is there where `accumulate`.
void sum_planes(cudaStream_t stream, const float* dy, float* dbias, std::int64_t n, std::int64_t channels, std::int64_t plane,
                bool accumulate);

// optimizers.cu
/// Terms that one launch takes; more go through the carry in pieces, with the same bits.
inline constexpr std::size_t terms_at_once = 16;
/// For up to `terms_at_once` terms, on top of `carry` (may be null), which has the sum of those before them.
void enqueue(cudaStream_t stream, const weighted_sum& op, const float* carry);
void enqueue(cudaStream_t stream, const sgd& op, const float* carry);
void enqueue(cudaStream_t stream, const lars_rate& op);
void enqueue(cudaStream_t stream, const adamw& op, const float* carry);
void enqueue(cudaStream_t stream, const delay_compensate& op);

} // namespace troupe::kernels::cuda
