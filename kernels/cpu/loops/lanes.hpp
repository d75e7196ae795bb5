// SPDX-License-Identifier: BSD-3-Clause
// The two shapes that every loop has: a map over elements and a reduction in sixteen lanes.
#pragma once

// Included by loops.cpp alone, inside an unnamed namespace (see there).

/// From this many bytes on a result is written past the caches: an ordinary store first reads the line that it is about to
/// overwrite, which costs a third of the traffic of y = f(x). A smaller result is likely to be read again soon.
constexpr std::int64_t streaming_bytes = std::int64_t{16} << 20;

/// Elements that a temporary on the stack holds: it stays in the first-level cache.
constexpr std::int64_t block_size = 1024;

inline std::int64_t min(std::int64_t a, std::int64_t b) {
  return a < b ? a : b;
}

/// Whether a result of `n` floats should be streamed. One that is written over an operand should not: its line has been read.
inline bool worth_streaming(std::int64_t n, bool in_place) {
  return !in_place && n * static_cast<std::int64_t>(sizeof(float)) >= streaming_bytes;
}

/// Copies a block to memory without reading its lines first. `y` is aligned to 16 bytes.
inline void stream_out(float* y, const float* block, std::int64_t n) {
  std::int64_t i = 0;
#ifdef __AVX512F__
  if ((reinterpret_cast<std::uintptr_t>(y) & 63) == 0)
    for (; i + 16 <= n; i += 16)
      _mm512_stream_ps(y + i, _mm512_load_ps(block + i));
#endif
  for (; i + 4 <= n; i += 4)
    _mm_stream_ps(y + i, _mm_loadu_ps(block + i));
  for (; i < n; ++i)
    y[i] = block[i];
}

/// y[i] = f(i) for every i; f may read y[i], and nothing else of y.
template <class F>
inline void map(float* y, std::int64_t n, bool stream, F f) {
  std::int64_t i = 0;
  if (stream) {
    for (; i < n && (reinterpret_cast<std::uintptr_t>(y + i) & 63) != 0; ++i)
      y[i] = f(i);
    alignas(64) float block[block_size];
    for (; i < n; i += block_size) {
      const std::int64_t count = min(block_size, n - i);
#pragma GCC ivdep
      for (std::int64_t j = 0; j < count; ++j)
        block[j] = f(i + j);
      stream_out(y + i, block, count);
    }
    _mm_sfence();
    return;
  }
#pragma GCC ivdep
  for (; i < n; ++i)
    y[i] = f(i);
}

/// Sixteen floats that add and compare element by element; the compiler cuts them to the width it has.
typedef float f32x16 __attribute__((vector_size(64)));
/// Eight doubles.
typedef double f64x8 __attribute__((vector_size(64)));

inline f32x16 load(const float* x) {
  f32x16 v;
  __builtin_memcpy(&v, x, sizeof v);
  return v;
}

/// The first `count` of 16, the rest is `rest`.
inline f32x16 load_part(const float* x, std::int64_t count, float rest) {
  alignas(64) float v[16];
  for (std::int64_t i = 0; i < 16; ++i)
    v[i] = i < count ? x[i] : rest;
  return load(v);
}

typedef float f32x8 __attribute__((vector_size(32)));
typedef float f32x4 __attribute__((vector_size(16)));

/// f over the lanes, as a tree of fixed shape: the upper half with the lower, until one is left.
template <class F>
inline float fold(f32x16 v, F f) {
  const f32x8 eight =
      f(__builtin_shufflevector(v, v, 0, 1, 2, 3, 4, 5, 6, 7), __builtin_shufflevector(v, v, 8, 9, 10, 11, 12, 13, 14, 15));
  const f32x4 four = f(__builtin_shufflevector(eight, eight, 0, 1, 2, 3), __builtin_shufflevector(eight, eight, 4, 5, 6, 7));
  const f32x4 two = f(four, __builtin_shufflevector(four, four, 2, 3, 2, 3));
  return f(two, __builtin_shufflevector(two, two, 1, 1, 1, 1))[0];
}

inline float total(f32x16 v) {
  return fold(v, [](auto a, auto b) { return a + b; });
}

/// The sum of f(x[i]) in sixteen running sums: element i always goes to lane i % 16, so the order depends on n alone.
/// f maps sixteen elements at once; `rest` fills the last vector up, f(rest) is 0.
template <class F>
inline float sum_lanes(const float* x, std::int64_t n, float rest, F f) {
  f32x16 sum = {};
  std::int64_t i = 0;
  for (; i + 16 <= n; i += 16)
    sum += f(load(x + i));
  if (i < n)
    sum += f(load_part(x + i, n - i, rest));
  return total(sum);
}

/// The sum of f(a[i], b[i]) in the same order; f(0, 0) is 0.
template <class F>
inline float sum_lanes(const float* a, const float* b, std::int64_t n, F f) {
  f32x16 sum = {};
  std::int64_t i = 0;
  for (; i + 16 <= n; i += 16)
    sum += f(load(a + i), load(b + i));
  if (i < n)
    sum += f(load_part(a + i, n - i, 0.0F), load_part(b + i, n - i, 0.0F));
  return total(sum);
}

/// The largest element; what NaN does is left open. n > 0.
inline float max_of(const float* x, std::int64_t n) {
  f32x16 best = load_part(x, min(n, 16), x[0]);
  std::int64_t i = 16;
  for (; i + 16 <= n; i += 16) {
    const f32x16 v = load(x + i);
    best = v > best ? v : best;
  }
  if (i < n) {
    const f32x16 v = load_part(x + i, n - i, x[0]);
    best = v > best ? v : best;
  }
  return fold(best, [](auto a, auto b) { return b > a ? b : a; });
}
