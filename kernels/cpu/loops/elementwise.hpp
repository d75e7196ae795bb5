// SPDX-License-Identifier: BSD-3-Clause
// Elementwise loops.
#pragma once

// Included by loops.cpp alone, inside an unnamed namespace (see there).

void run(const fill& op) {
  map(op.y, op.count, worth_streaming(op.count, false), [value = op.value](std::int64_t) { return value; });
}

void run(const unary& op) {
  const float* x = op.x;
  with_constant(op.op, [&]<unary_op Op>(constant<Op>) {
    map(op.y, op.count, worth_streaming(op.count, op.x == op.y), [=](std::int64_t i) { return apply<Op>(x[i]); });
  });
}

void run(const unary_backward& op) {
  const float* dy = op.dy;
  const bool in_place = op.dx == dy || op.dx == op.x || op.dx == op.y;
  with_constant(op.op, [&]<unary_op Op>(constant<Op>) {
    const float* saved = saves_result(Op) ? op.y : op.x;
    map(op.dx, op.count, worth_streaming(op.count, in_place), [=](std::int64_t i) {
      if constexpr (Op == unary_op::negate || Op == unary_op::copy)
        return apply_backward<Op>(0, dy[i]); // what they do not need may be null
      else
        return apply_backward<Op>(saved[i], dy[i]);
    });
  });
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
  with_constant(op.act, [&]<unary_op Op>(constant<Op>) {
    bias_rows(op.x, op.bias, op.y, op.rows, op.columns, [](float v) { return apply<Op>(v); });
  });
}
