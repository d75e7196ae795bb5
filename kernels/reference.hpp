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
// not drown in rounding, and float in `run`. Arguments are the operation's fields.

template <class Real>
void conv2d(const window2d& window, std::int64_t out_channels, const Real* x, const Real* weight, const Real* bias,
            activation act, Real* y);
template <class Real>
void conv2d_backward(const window2d& window, std::int64_t out_channels, const Real* x, const Real* weight, const Real* dy,
                     Real* dx, Real* dweight, Real* dbias);

template <class Real>
void layernorm(const Real* x, const Real* gamma, const Real* beta, double epsilon, Real* y, Real* mean, Real* rstd,
               std::int64_t rows, std::int64_t columns);
template <class Real>
void layernorm_backward(const Real* x, const Real* gamma, const Real* mean, const Real* rstd, const Real* dy, Real* dx,
                        Real* dgamma, Real* dbeta, std::int64_t rows, std::int64_t columns);

template <class Real>
void max_pool(const window2d& window, const Real* x, Real* y, std::int32_t* argmax);
template <class Real>
void max_pool_backward(const window2d& window, const std::int32_t* argmax, const Real* dy, Real* dx);
template <class Real>
void avg_pool(const window2d& window, const Real* x, Real* y);
template <class Real>
void avg_pool_backward(const window2d& window, const Real* dy, Real* dx);

template <class Real>
void softmax(const Real* x, Real* y, std::int64_t rows, std::int64_t columns);
template <class Real>
void softmax_cross_entropy(const Real* logits, const std::int32_t* labels, double scale, Real* loss, Real* dlogits,
                           std::int32_t* correct, std::int64_t rows, std::int64_t classes);

} // namespace troupe::kernels::reference
