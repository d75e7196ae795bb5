// SPDX-License-Identifier: BSD-3-Clause
// What the .cu files offer to host code: each function enqueues its kernels on a stream and returns.
#pragma once

#include <cstdint>
#include <span>

#include <cuda_runtime.h>

#include "kernels/backend.hpp"

/// Operations are those of `backend` with the same names, which say what they compute. Pointers are device addresses.
namespace troupe::kernels::cuda {

// elementwise.cu
void fill(cudaStream_t stream, float* y, float value, std::int64_t count);
void unary(cudaStream_t stream, unary_op op, const float* x, float* y, std::int64_t count);
void unary_backward(cudaStream_t stream, unary_op op, const float* x, const float* y, const float* dy, float* dx,
                    std::int64_t count);
void binary(cudaStream_t stream, binary_op op, const float* a, const float* b, float* y, std::int64_t count);
void axpby(cudaStream_t stream, float alpha, const float* x, float beta, float* y, std::int64_t count);
void bias_activation(cudaStream_t stream, const float* x, const float* bias, activation act, float* y, std::int64_t rows,
                     std::int64_t columns);
void soft_threshold(cudaStream_t stream, const float* x, float threshold, float* y, std::int64_t count);

// dropout.cu
void dropout(cudaStream_t stream, const float* x, float* y, std::int64_t rows, std::int64_t columns, float rate,
             const random_key* key, std::uint32_t layer);
/// The nearest bfloat16 of each element (ties to even, NaN stays NaN), as its 16 bits or as the float that it stands for.
void round_to_bf16(cudaStream_t stream, const float* x, std::uint16_t* y, std::int64_t count);
void round_to_bf16(cudaStream_t stream, const float* x, float* y, std::int64_t count);

// reductions.cu: `scratch` holds what the function of the same name says, in floats
std::int64_t sum_scratch(std::int64_t count);
void sum(cudaStream_t stream, const float* x, std::int64_t count, float* result, float* scratch);
std::int64_t sum_rows_scratch(std::int64_t rows, std::int64_t columns);
void sum_rows(cudaStream_t stream, const float* x, float* y, std::int64_t rows, std::int64_t columns, float* scratch);
void all_finite(cudaStream_t stream, const float* x, std::int64_t count, std::int32_t* flag);

// normalisation.cu
void softmax(cudaStream_t stream, const float* x, float* y, std::int64_t rows, std::int64_t columns);
void softmax_cross_entropy(cudaStream_t stream, const float* logits, const std::int32_t* labels, float scale, float* loss,
                           float* dlogits, std::int32_t* correct, std::int64_t rows, std::int64_t classes);
void layernorm(cudaStream_t stream, const float* x, const float* gamma, const float* beta, float epsilon, float* y, float* mean,
               float* rstd, std::int64_t rows, std::int64_t columns);
std::int64_t layernorm_backward_scratch(std::int64_t rows, std::int64_t columns);
void layernorm_backward(cudaStream_t stream, const float* x, const float* gamma, const float* mean, const float* rstd,
                        const float* dy, float* dx, float* dgamma, float* dbeta, std::int64_t rows, std::int64_t columns,
                        float* scratch);

// pooling.cu
void max_pool(cudaStream_t stream, const window2d& window, const float* x, float* y, std::int32_t* argmax);
void max_pool_backward(cudaStream_t stream, const window2d& window, const std::int32_t* argmax, const float* dy, float* dx);
void avg_pool(cudaStream_t stream, const window2d& window, const float* x, float* y);
void avg_pool_backward(cudaStream_t stream, const window2d& window, const float* dy, float* dx);

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
/// dbias(K) = the sum of dy(N, K, P) over N and P.
void sum_planes(cudaStream_t stream, const float* dy, float* dbias, std::int64_t n, std::int64_t channels, std::int64_t plane);

// optimizers.cu
/// Terms that one launch takes; more go through the carry in pieces, with the same bits.
inline constexpr std::size_t terms_at_once = 16;
/// y = (`carry`, where not null) + the weighted sum of up to `terms_at_once` terms.
void weighted_sum(cudaStream_t stream, std::span<const term> terms, const float* carry, float* y, std::int64_t count);
/// As in `backend`, for up to `terms_at_once` terms on top of `carry` (may be null).
void sgd(cudaStream_t stream, const sgd_args& args, const float* carry);
void adamw(cudaStream_t stream, const adamw_args& args, const float* carry);
void delay_compensate(cudaStream_t stream, const delay_compensate_args& args);

} // namespace troupe::kernels::cuda
