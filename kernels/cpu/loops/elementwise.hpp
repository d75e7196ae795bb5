// SPDX-License-Identifier: BSD-3-Clause
// Elementwise loops.
#pragma once

// Included by loops.cpp alone, inside an unnamed namespace (see there).

void run(const fill& op) {
  map(op.y, op.count, worth_streaming(op.count, false), [value = op.value](std::int64_t) { return value; });
}

void run(const unary& op) {
  const float* x = op.x;
  const auto each = [&](auto f) { map(op.y, op.count, worth_streaming(op.count, op.x == op.y), f); };
  switch (op.op) {
  case unary_op::relu:
    return each([=](std::int64_t i) { return relu(x[i]); });
  case unary_op::tanh:
    return each([=](std::int64_t i) { return tanh(x[i]); });
  case unary_op::sigmoid:
    return each([=](std::int64_t i) { return sigmoid(x[i]); });
  case unary_op::gelu:
    return each([=](std::int64_t i) { return gelu(x[i]); });
  case unary_op::exp:
    return each([=](std::int64_t i) { return exp(x[i]); });
  case unary_op::log:
    return each([=](std::int64_t i) { return log(x[i]); });
  case unary_op::sqrt:
    return each([=](std::int64_t i) { return __builtin_sqrtf(x[i]); });
  case unary_op::square:
    return each([=](std::int64_t i) { return x[i] * x[i]; });
  case unary_op::negate:
    return each([=](std::int64_t i) { return -x[i]; });
  case unary_op::copy:
    return each([=](std::int64_t i) { return x[i]; });
  }
}

void run(const unary_backward& op) {
  const float *x = op.x, *y = op.y, *dy = op.dy;
  const bool in_place = op.dx == dy || op.dx == x || op.dx == y;
  const auto each = [&](auto f) { map(op.dx, op.count, worth_streaming(op.count, in_place), f); };
  switch (op.op) {
  case unary_op::relu:
    return each([=](std::int64_t i) { return y[i] > 0 ? dy[i] : 0.0F; });
  case unary_op::tanh:
    return each([=](std::int64_t i) { return dy[i] * mul_add(-y[i], y[i], 1.0F); });
  case unary_op::sigmoid:
    return each([=](std::int64_t i) { return dy[i] * y[i] * (1.0F - y[i]); });
  case unary_op::gelu:
    return each([=](std::int64_t i) { return dy[i] * gelu_derivative(x[i]); });
  case unary_op::exp:
    return each([=](std::int64_t i) { return dy[i] * exp(x[i]); });
  case unary_op::log:
    return each([=](std::int64_t i) { return dy[i] / x[i]; });
  case unary_op::sqrt:
    return each([=](std::int64_t i) { return 0.5F * dy[i] / __builtin_sqrtf(x[i]); });
  case unary_op::square:
    return each([=](std::int64_t i) { return 2.0F * x[i] * dy[i]; });
  case unary_op::negate:
    return each([=](std::int64_t i) { return -dy[i]; });
  case unary_op::copy:
    return each([=](std::int64_t i) { return dy[i]; });
  }
}

void run(const binary& op) {
  const float *a = op.a, *b = op.b;
  const auto each = [&](auto f) { map(op.y, op.count, worth_streaming(op.count, op.y == a || op.y == b), f); };
  switch (op.op) {
  case binary_op::add:
    return each([=](std::int64_t i) { return a[i] + b[i]; });
  case binary_op::subtract:
    return each([=](std::int64_t i) { return a[i] - b[i]; });
  case binary_op::multiply:
    return each([=](std::int64_t i) { return a[i] * b[i]; });
  case binary_op::divide:
    return each([=](std::int64_t i) { return a[i] / b[i]; });
  }
}

void run(const axpby& op) {
  const float *x = op.x, alpha = op.alpha, beta = op.beta;
  float* y = op.y;
  const std::int64_t n = op.count;
  if (beta == 0)
    map(y, n, worth_streaming(n, x == y), [=](std::int64_t i) { return alpha * x[i]; });
  else
    map(y, n, false, [=](std::int64_t i) { return mul_add(alpha, x[i], beta * y[i]); });
}

template <class F>
inline void bias_rows(const float* x, const float* bias, float* y, std::int64_t rows, std::int64_t columns, F f) {
  const bool stream = worth_streaming(rows * columns, x == y);
  for (std::int64_t r = 0; r < rows; ++r, x += columns, y += columns)
    map(y, columns, stream, [=](std::int64_t i) { return f(bias ? x[i] + bias[i] : x[i]); });
}

void run(const bias_activation& op) {
  const auto each = [&](auto f) { bias_rows(op.x, op.bias, op.y, op.rows, op.columns, f); };
  switch (op.act) {
  case activation::none:
    return each([](float v) { return v; });
  case activation::relu:
    return each([](float v) { return relu(v); });
  case activation::tanh:
    return each([](float v) { return tanh(v); });
  case activation::sigmoid:
    return each([](float v) { return sigmoid(v); });
  case activation::gelu:
    return each([](float v) { return gelu(v); });
  }
}
