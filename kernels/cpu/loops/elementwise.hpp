// SPDX-License-Identifier: BSD-3-Clause
// Elementwise loops.
#pragma once

// Included by loops.cpp alone, inside an unnamed namespace (see there).

void fill(float* y, float value, std::int64_t n) {
  map(y, n, worth_streaming(n, false), [=](std::int64_t) { return value; });
}

void unary(unary_op op, const float* x, float* y, std::int64_t n) {
  const bool stream = worth_streaming(n, x == y);
  switch (op) {
  case unary_op::relu:
    return map(y, n, stream, [=](std::int64_t i) { return relu(x[i]); });
  case unary_op::tanh:
    return map(y, n, stream, [=](std::int64_t i) { return tanh(x[i]); });
  case unary_op::sigmoid:
    return map(y, n, stream, [=](std::int64_t i) { return sigmoid(x[i]); });
  case unary_op::gelu:
    return map(y, n, stream, [=](std::int64_t i) { return gelu(x[i]); });
  case unary_op::exp:
    return map(y, n, stream, [=](std::int64_t i) { return exp(x[i]); });
  case unary_op::log:
    return map(y, n, stream, [=](std::int64_t i) { return log(x[i]); });
  case unary_op::sqrt:
    return map(y, n, stream, [=](std::int64_t i) { return __builtin_sqrtf(x[i]); });
  case unary_op::square:
    return map(y, n, stream, [=](std::int64_t i) { return x[i] * x[i]; });
  case unary_op::negate:
    return map(y, n, stream, [=](std::int64_t i) { return -x[i]; });
  case unary_op::copy:
    return map(y, n, stream, [=](std::int64_t i) { return x[i]; });
  }
}

void unary_backward(unary_op op, const float* x, const float* y, const float* dy, float* dx, std::int64_t n) {
  const bool stream = worth_streaming(n, dx == dy || dx == x || dx == y);
  const auto each = [=](auto f) { map(dx, n, stream, f); };
  switch (op) {
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

void binary(binary_op op, const float* a, const float* b, float* y, std::int64_t n) {
  const bool stream = worth_streaming(n, y == a || y == b);
  const auto each = [=](auto f) { map(y, n, stream, f); };
  switch (op) {
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

void axpby(float alpha, const float* x, float beta, float* y, std::int64_t n) {
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

void bias_activation(const float* x, const float* bias, activation act, float* y, std::int64_t rows, std::int64_t columns) {
  const auto each = [=](auto f) { bias_rows(x, bias, y, rows, columns, f); };
  switch (act) {
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
