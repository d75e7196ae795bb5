// SPDX-License-Identifier: BSD-3-Clause
// Reductions, each in an order that depends on the shape alone.
#pragma once

// Included by loops.cpp alone, inside an unnamed namespace (see there).

/// sums[i] = the sum over `rows` of x[row * stride + i], for a block of columns that stays in the first-level cache while the
/// rows pass by, several at a time.
inline void sum_block(const float* x, std::int64_t rows, std::int64_t stride, std::int64_t count, float* sums) {
  constexpr std::int64_t together = 8;
  for (std::int64_t i = 0; i < count; ++i)
    sums[i] = 0;
  std::int64_t r = 0;
  for (; r + together <= rows; r += together, x += together * stride) {
#pragma GCC ivdep
    for (std::int64_t i = 0; i < count; ++i) {
      float s = sums[i];
      for (std::int64_t k = 0; k < together; ++k)
        s += x[k * stride + i];
      sums[i] = s;
    }
  }
  for (; r < rows; ++r, x += stride) {
#pragma GCC ivdep
    for (std::int64_t i = 0; i < count; ++i)
      sums[i] += x[i];
  }
}

void run(const sum_rows& op) {
  alignas(64) float sums[block_size];
  for (std::int64_t begin = 0; begin < op.columns; begin += block_size) {
    const std::int64_t count = min(block_size, op.columns - begin);
    sum_block(op.x + begin, op.rows, op.columns, count, sums);
    map(op.y + begin, count, false, [&, y = op.y + begin](std::int64_t i) { return op.accumulate ? y[i] + sums[i] : sums[i]; });
  }
}

void run(const sum& op) {
  const float* x = op.x;
  const std::int64_t n = op.count;
  f64x8 low = {}, high = {};
  std::int64_t i = 0;
  for (; i + 16 <= n; i += 16) {
    f32x8 a, b;
    __builtin_memcpy(&a, x + i, sizeof a);
    __builtin_memcpy(&b, x + i + 8, sizeof b);
    low += __builtin_convertvector(a, f64x8);
    high += __builtin_convertvector(b, f64x8);
  }
  low += high;
  double result = 0;
  for (int lane = 0; lane < 8; ++lane)
    result += low[lane];
  for (; i < n; ++i)
    result += static_cast<double>(x[i]);
  *op.result = static_cast<float>(result);
}

void run(const sum_squares& op) {
  for (std::int64_t b = 0; b < op.block_count(); ++b) {
    const float* x = op.x + b * square_block;
    const std::int64_t n = min(square_block, op.count - b * square_block);
    f64x8 low = {}, high = {};
    std::int64_t i = 0;
    for (; i + 16 <= n; i += 16) {
      f32x8 first, second;
      __builtin_memcpy(&first, x + i, sizeof first);
      __builtin_memcpy(&second, x + i + 8, sizeof second);
      const f64x8 c = __builtin_convertvector(first, f64x8), d = __builtin_convertvector(second, f64x8);
      low += c * c;
      high += d * d;
    }
    low += high;
    double result = 0;
    for (int lane = 0; lane < 8; ++lane)
      result += low[lane];
    for (; i < n; ++i)
      result += static_cast<double>(x[i]) * static_cast<double>(x[i]);
    op.blocks[b] = result;
  }
}

/// y[i] = the weighted sum of the terms' elements begin + i, for a block that stays in the first-level cache.
inline void weighted_block(std::span<const term> terms, std::int64_t begin, std::int64_t n, float* y) {
  const float* x = terms[0].data + begin;
  const float weight = static_cast<float>(terms[0].weight);
#pragma GCC ivdep
  for (std::int64_t i = 0; i < n; ++i)
    y[i] = weight * x[i];
  for (std::size_t t = 1; t < terms.size(); ++t) {
    const float* next = terms[t].data + begin;
    const float next_weight = static_cast<float>(terms[t].weight);
#pragma GCC ivdep
    for (std::int64_t i = 0; i < n; ++i)
      y[i] = mul_add(next_weight, next[i], y[i]);
  }
}

void run(const weighted_sum& op) {
  float* y = op.y;
  const std::int64_t n = op.count;
  // A block of its own first: y may be one of the terms.
  alignas(64) float block[block_size];
  bool in_place = false;
  for (std::size_t t = 0; t < op.terms.size(); ++t)
    in_place = in_place || op.terms[t].data == y;
  const bool stream = worth_streaming(n, in_place) && (reinterpret_cast<std::uintptr_t>(y) & 15) == 0;
  for (std::int64_t begin = 0; begin < n; begin += block_size) {
    const std::int64_t count = min(block_size, n - begin);
    weighted_block(op.terms, begin, count, block);
    if (stream)
      stream_out(y + begin, block, count);
    else
      __builtin_memcpy(y + begin, block, static_cast<std::size_t>(count) * sizeof(float));
  }
  if (stream)
    _mm_sfence();
}

inline bool finite(const float* x, std::int64_t n) {
  for (std::int64_t begin = 0; begin < n; begin += block_size) {
    const std::int64_t count = min(block_size, n - begin);
    std::int32_t bad = 0;
    for (std::int64_t i = begin; i < begin + count; ++i)
      bad |= (bits_of(x[i]) & 0x7f800000) == 0x7f800000 ? 1 : 0;
    if (bad)
      return false;
  }
  return true;
}

void run(const all_finite& op) {
  *op.flag = finite(op.x, op.count) ? 1 : 0;
}
