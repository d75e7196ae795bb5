// SPDX-License-Identifier: BSD-3-Clause
// What every operation means, as plain loops that anyone can read. Tests compare every backend with it.
#pragma once

#include <cstdint>

#include "kernels/operation.hpp"

/// On host memory. Sums are accumulated in double, results rounded once. Nothing here is meant to be fast.
namespace troupe::kernels::reference {

/// Computes it now.
void run(const operation& op);

double activate(activation act, double x);
double unary(unary_op op, double x);
/// f'(x).
double unary_derivative(unary_op op, double x);
double binary(binary_op op, double a, double b);
double soft_threshold(double x, double threshold);

// Operations whose gradient is checked against central differences of the forward function: `Real` is double for that, which does
// not drown in rounding, and float in `run`. Of `op` the extents and options count; the arrays are the arguments, named as its
// fields are.

template <class Real>
void conv2d(const window2d& window, std::int64_t out_channels, const Real* x, const Real* weight, const Real* bias,
            activation act, Real* y);
template <class Real>
void conv2d_backward(const window2d& window, std::int64_t out_channels, const Real* x, const Real* weight, const Real* dy,
                     Real* dx, Real* dweight, Real* dbias, bool accumulate = false);

template <class Real>
void layernorm(const kernels::layernorm& op, const Real* x, const Real* gamma, const Real* beta, Real* y, Real* mean, Real* rstd);
template <class Real>
void layernorm_backward(const kernels::layernorm_backward& op, const Real* x, const Real* gamma, const Real* mean,
                        const Real* rstd, const Real* dy, Real* dx, Real* dgamma, Real* dbeta);
template <class Real>
void rmsnorm(const kernels::rmsnorm& op, const Real* x, const Real* gamma, Real* y, Real* rstd);
template <class Real>
void rmsnorm_backward(const kernels::rmsnorm_backward& op, const Real* x, const Real* gamma, const Real* rstd, const Real* dy,
                      Real* dx, Real* dgamma);
template <class Real>
void groupnorm(const kernels::groupnorm& op, const Real* x, const Real* gamma, const Real* beta, Real* y, Real* mean, Real* rstd);
template <class Real>
void groupnorm_backward(const kernels::groupnorm_backward& op, const Real* x, const Real* gamma, const Real* mean,
                        const Real* rstd, const Real* dy, Real* dx, Real* dgamma, Real* dbeta);
/// Without the steps of the running statistics.
template <class Real>
void batchnorm(const kernels::batchnorm& op, const Real* x, const Real* gamma, const Real* beta, Real* y, Real* mean, Real* rstd);
template <class Real>
void batchnorm_backward(const kernels::batchnorm_backward& op, const Real* x, const Real* gamma, const Real* mean,
                        const Real* rstd, const Real* dy, Real* dx, Real* dgamma, Real* dbeta);
template <class Real>
void softmax(const Real* x, Real* y, std::int64_t rows, std::int64_t columns);
template <class Real>
void softmax_backward(const Real* y, const Real* dy, Real* dx, std::int64_t rows, std::int64_t columns);

template <class Real>
void max_pool(const window2d& window, const Real* x, Real* y, std::int32_t* argmax);
template <class Real>
void max_pool_backward(const window2d& window, const std::int32_t* argmax, const Real* dy, Real* dx);
template <class Real>
void avg_pool(const window2d& window, const Real* x, Real* y);
template <class Real>
void avg_pool_backward(const window2d& window, const Real* dy, Real* dx);

/// Labels, `correct` and the scale are those of `op`.
template <class Real>
void softmax_cross_entropy(const kernels::softmax_cross_entropy& op, const Real* logits, Real* loss, Real* dlogits);
template <class Real>
void mean_squared_error(const kernels::mean_squared_error& op, const Real* x, const Real* target, Real* loss, Real* dx);
template <class Real>
void sigmoid_cross_entropy(const kernels::sigmoid_cross_entropy& op, const Real* x, const Real* target, Real* loss, Real* dx);

/// The key of the dropout is that of `op`.
template <class Real>
void attention(const kernels::attention& op, const Real* q, const Real* k, const Real* v, Real* y, Real* lse);
template <class Real>
void attention_backward(const kernels::attention_backward& op, const Real* q, const Real* k, const Real* v, const Real* y,
                        const Real* lse, const Real* dy, Real* dq, Real* dk, Real* dv);
template <class Real>
void rotary(const kernels::rotary& op, const Real* x, Real* y);
template <class Real>
void lstm(const kernels::lstm& op, const Real* projected, const Real* u, const Real* bias, Real* y, Real* gates, Real* cells);
template <class Real>
void lstm_backward(const kernels::lstm_backward& op, const Real* u, const Real* y, const Real* gates, const Real* cells,
                   const Real* dy, Real* dprojected, Real* du, Real* dbias);
template <class Real>
void gru(const kernels::gru& op, const Real* projected, const Real* u, const Real* bias, Real* y, Real* gates, Real* candidates);
template <class Real>
void gru_backward(const kernels::gru_backward& op, const Real* u, const Real* y, const Real* gates, const Real* candidates,
                  const Real* dy, Real* dprojected, Real* du, Real* dbias);

} // namespace troupe::kernels::reference
