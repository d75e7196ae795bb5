// SPDX-License-Identifier: BSD-3-Clause
// What every operation means, as plain loops that anyone can read. Tests compare every backend with it.
#pragma once

#include <cstdint>
#include <span>

#include "kernels/backend.hpp"

/// Each function is the operation of the same name in `backend` and takes the same arguments, on host memory. Sums are
/// accumulated in double, results rounded once. Nothing here is meant to be fast.
///
/// `Real` is float, to compare a backend with, or double, so that a gradient can be checked against central differences of its
/// forward function without drowning in rounding.
namespace troupe::kernels::reference {

double activate(activation act, double x);
double unary(unary_op op, double x);
/// f'(x).
double unary_derivative(unary_op op, double x);
double binary(binary_op op, double a, double b);

void gemm(const gemm_args& args);
void bias_activation(const float* x, const float* bias, activation act, float* y, std::int64_t rows, std::int64_t columns);
void dropout(const float* x, float* y, std::int64_t rows, std::int64_t columns, float rate, random_key key);

void sum_rows(const float* x, float* y, std::int64_t rows, std::int64_t columns);
float sum(const float* x, std::int64_t count);
void weighted_sum(std::span<const term> terms, float* y, std::int64_t count);

void sgd(const sgd_args& args);
void adamw(const adamw_args& args);
void delay_compensate(const delay_compensate_args& args);
double soft_threshold(double x, double threshold);

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
