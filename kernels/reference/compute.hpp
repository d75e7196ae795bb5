// SPDX-License-Identifier: BSD-3-Clause
// What the files of the reference share: one function for each operation, and sums in double that are rounded once.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "kernels/operation.hpp"
#include "kernels/reference.hpp"

namespace troupe::kernels::reference {

// Computes an operation: the one function of each.

// products.cpp
void compute(const kernels::gemm& op);
void compute(const kernels::batched_gemm& op);
void compute(const kernels::conv2d& op);
void compute(const kernels::conv2d_backward& op);

// elementwise.cpp
void compute(const kernels::fill& op);
void compute(const kernels::unary& op);
void compute(const kernels::unary_backward& op);
void compute(const kernels::binary& op);
void compute(const kernels::broadcast_binary& op);
void compute(const kernels::axpby& op);
void compute(const kernels::copy_strided& op);
void compute(const kernels::bias_activation& op);
void compute(const kernels::dropout& op);

// reductions.cpp
void compute(const kernels::sum_rows& op);
void compute(const kernels::sum& op);
void compute(const kernels::sum_axes& op);
void compute(const kernels::sum_squares& op);
void compute(const kernels::weighted_sum& op);
void compute(const kernels::all_finite& op);

// normalisation.cpp
void compute(const kernels::layernorm& op);
void compute(const kernels::layernorm_backward& op);
void compute(const kernels::rmsnorm& op);
void compute(const kernels::rmsnorm_backward& op);
void compute(const kernels::groupnorm& op);
void compute(const kernels::groupnorm_backward& op);
void compute(const kernels::batchnorm& op);
void compute(const kernels::batchnorm_inference& op);
void compute(const kernels::batchnorm_backward& op);
void compute(const kernels::softmax& op);
void compute(const kernels::softmax_backward& op);

// pooling.cpp
void compute(const kernels::max_pool& op);
void compute(const kernels::max_pool_backward& op);
void compute(const kernels::avg_pool& op);
void compute(const kernels::avg_pool_backward& op);

// losses.cpp
void compute(const kernels::softmax_cross_entropy& op);
void compute(const kernels::mean_squared_error& op);
void compute(const kernels::sigmoid_cross_entropy& op);

// sequences.cpp
void compute(const kernels::embedding& op);
void compute(const kernels::embedding_backward& op);
void compute(const kernels::attention& op);
void compute(const kernels::attention_backward& op);
void compute(const kernels::rotary& op);

// recurrent.cpp
void compute(const kernels::lstm& op);
void compute(const kernels::lstm_backward& op);
void compute(const kernels::gru& op);
void compute(const kernels::gru_backward& op);

// optimizers.cpp
void compute(const kernels::sgd& op);
void compute(const kernels::lars_rate& op);
void compute(const kernels::adamw& op);
void compute(const kernels::delay_compensate& op);
void compute(const kernels::soft_threshold& op);

inline float rounded(double x) {
  return static_cast<float>(x);
}

inline std::size_t size(std::int64_t count) {
  return static_cast<std::size_t>(count);
}

inline double sigmoid(double x) {
  return 1 / (1 + std::exp(-x));
}

/// Rounds sums to where they belong, or adds them to what is there.
template <class Real>
void store(const std::vector<double>& from, Real* to, bool accumulate = false) {
  for (std::size_t i = 0; to && i < from.size(); ++i)
    to[i] = static_cast<Real>(from[i] + (accumulate ? static_cast<double>(to[i]) : 0.0));
}

/// sum_i weight_i * term_i[at], with the weights that backends see.
double weighted(std::span<const term> terms, std::int64_t at);

/// f'(x), where y = f(x). Functions that save their result do not use x.
double slope(unary_op op, double x, double y);

} // namespace troupe::kernels::reference
