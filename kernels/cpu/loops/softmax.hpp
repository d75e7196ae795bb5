// SPDX-License-Identifier: BSD-3-Clause
// Softmax and its gradient.
#pragma once

// Included by loops.cpp alone, inside an unnamed namespace (see there).

inline float sum_of(const float* x, std::int64_t n) {
  return sum_lanes(x, n, 0.0F, [](f32x16 v) { return v; });
}

/// Returns sum_i exp(x[i] - peak) and, where y is not null, leaves the terms there.
inline float sum_exp(const float* x, std::int64_t n, float peak, float* y) {
  alignas(64) float block[block_size];
  float result = 0;
  for (std::int64_t begin = 0; begin < n; begin += block_size) {
    const std::int64_t count = min(block_size, n - begin);
    const float* from = x + begin;
    float* to = y ? y + begin : block;
    map(to, count, false, [=](std::int64_t i) { return exp(from[i] - peak); });
    result += sum_of(to, count);
  }
  return result;
}

void run(const softmax& op) {
  const float* x = op.x;
  float* y = op.y;
  const std::int64_t columns = op.columns;
  for (std::int64_t r = 0; r < op.rows; ++r, x += columns, y += columns) {
    const float inverse = 1.0F / sum_exp(x, columns, max_of(x, columns), y);
    map(y, columns, false, [=](std::int64_t i) { return y[i] * inverse; });
  }
}

void run(const softmax_backward& op) {
  const std::int64_t columns = op.columns;
  const float *y = op.y, *dy = op.dy;
  float* dx = op.dx;
  for (std::int64_t r = 0; r < op.rows; ++r, y += columns, dy += columns, dx += columns) {
    const float product = sum_lanes(y, dy, columns, [](f32x16 a, f32x16 b) { return a * b; });
    map(dx, columns, false, [=](std::int64_t i) { return y[i] * (dy[i] - product); });
  }
}
