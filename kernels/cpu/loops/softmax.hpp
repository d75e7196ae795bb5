// SPDX-License-Identifier: BSD-3-Clause
// Softmax and the loss made of it.
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

void softmax(const float* x, float* y, std::int64_t rows, std::int64_t columns) {
  for (std::int64_t r = 0; r < rows; ++r, x += columns, y += columns) {
    const float inverse = 1.0F / sum_exp(x, columns, max_of(x, columns), y);
    map(y, columns, false, [=](std::int64_t i) { return y[i] * inverse; });
  }
}

void softmax_cross_entropy(const float* logits, const std::int32_t* labels, float scale, float* loss, float* dlogits,
                           std::int32_t* correct, std::int64_t rows, std::int64_t classes) {
  for (std::int64_t r = 0; r < rows; ++r) {
    const float* x = logits + r * classes;
    float* dx = dlogits ? dlogits + r * classes : nullptr;
    const std::int64_t label = labels[r];
    const bool known = label >= 0 && label < classes;
    const float peak = max_of(x, classes), at_label = known ? x[label] : 0.0F; // read before dx, which may be x
    if (correct) {
      std::int64_t first = 0;
      while (first < classes && x[first] != peak) // ends at `classes` when the row holds NaN
        ++first;
      correct[r] = known && first == label;
    }
    const float total_exp = sum_exp(x, classes, peak, dx);
    loss[r] = known ? log(total_exp) - (at_label - peak) : __builtin_nanf("");
    if (!dx)
      continue;
    const float factor = scale / total_exp;
    map(dx, classes, false, [=](std::int64_t i) { return dx[i] * factor; });
    if (known)
      dx[label] -= scale;
  }
}
