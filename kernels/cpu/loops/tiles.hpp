// SPDX-License-Identifier: BSD-3-Clause
// Products of small matrices that lie packed in the nearest caches: what attention and recurrent layers are made of.
#pragma once

// Included by loops.cpp alone, inside an unnamed namespace (see there).

#if defined(__AVX512F__)
typedef __m512 native;
constexpr int block_rows = 8;
inline native fused(native a, native b, native c) {
  return _mm512_fmadd_ps(a, b, c);
}
inline native everywhere(float x) {
  return _mm512_set1_ps(x);
}
#elif defined(__FMA__)
typedef __m256 native;
constexpr int block_rows = 4;
inline native fused(native a, native b, native c) {
  return _mm256_fmadd_ps(a, b, c);
}
inline native everywhere(float x) {
  return _mm256_set1_ps(x);
}
#else
typedef __m128 native;
constexpr int block_rows = 4;
inline native fused(native a, native b, native c) {
  return a * b + c;
}
inline native everywhere(float x) {
  return _mm_set1_ps(x);
}
#endif
constexpr std::int64_t native_floats = sizeof(native) / sizeof(float);

inline native load_native(const float* x) {
  native v;
  __builtin_memcpy(&v, x, sizeof v);
  return v;
}

/// The left operand of a product: element (row, l) is data[row * row_step + l * depth_step].
struct left_matrix {
  const float* data;
  std::int64_t row_step, depth_step;
};

/// c(Rows, Vectors vectors) = a(Rows, depth) b(depth, Vectors vectors), added to what is there where `Add`.
template <int Rows, int Vectors, bool Add>
inline void multiply_block(left_matrix a, const float* b, std::int64_t b_step, float* c, std::int64_t c_step,
                           std::int64_t depth) {
  native sums[Rows][Vectors];
#pragma GCC unroll 16
  for (int r = 0; r < Rows; ++r)
#pragma GCC unroll 16
    for (int v = 0; v < Vectors; ++v)
      sums[r][v] = Add ? load_native(c + r * c_step + v * native_floats) : native{};
  for (std::int64_t l = 0; l < depth; ++l) {
    native right[Vectors];
#pragma GCC unroll 16
    for (int v = 0; v < Vectors; ++v)
      right[v] = load_native(b + l * b_step + v * native_floats);
#pragma GCC unroll 16
    for (int r = 0; r < Rows; ++r) {
      const native left = everywhere(a.data[r * a.row_step + l * a.depth_step]);
#pragma GCC unroll 16
      for (int v = 0; v < Vectors; ++v)
        sums[r][v] = fused(left, right[v], sums[r][v]);
    }
  }
#pragma GCC unroll 16
  for (int r = 0; r < Rows; ++r)
#pragma GCC unroll 16
    for (int v = 0; v < Vectors; ++v)
      __builtin_memcpy(c + r * c_step + v * native_floats, &sums[r][v], sizeof(native));
}

/// What of a product concerns one block of its rows: columns [0, columns) and the depth [begin, end).
struct block_part {
  std::int64_t columns, begin, end;
};

/// c(rows, columns) = a b (+ c). `rows` is a multiple of block_rows, `columns` of padding_floats (packed rows are). part(row)
/// tells what is wanted of the block of rows that begins there; a block whose depth is empty is left alone.
template <bool Add, class Part>
inline void multiply_tile(std::int64_t rows, std::int64_t columns, left_matrix a, const float* b, std::int64_t b_step, float* c,
                          std::int64_t c_step, Part part) {
  std::int64_t column = 0;
  const auto panel = [&]<int Vectors>(std::integral_constant<int, Vectors>) {
    for (std::int64_t row = 0; row < rows; row += block_rows) {
      const block_part wanted = part(row);
      if (column < wanted.columns && wanted.begin < wanted.end)
        multiply_block<block_rows, Vectors, Add>(
            {a.data + row * a.row_step + wanted.begin * a.depth_step, a.row_step, a.depth_step},
            b + wanted.begin * b_step + column, b_step, c + row * c_step + column, c_step, wanted.end - wanted.begin);
    }
    column += Vectors * native_floats;
  };
  while (column + 2 * native_floats <= columns)
    panel(std::integral_constant<int, 2>{});
  while (column < columns)
    panel(std::integral_constant<int, 1>{});
}

/// The whole product.
template <bool Add>
inline void multiply_tile(std::int64_t rows, std::int64_t columns, std::int64_t depth, left_matrix a, const float* b,
                          std::int64_t b_step, float* c, std::int64_t c_step) {
  multiply_tile<Add>(rows, columns, a, b, b_step, c, c_step, [=](std::int64_t) { return block_part{columns, 0, depth}; });
}

/// Rows far apart are no stream to the processor: it is told of them this many rows before.
constexpr std::int64_t rows_ahead = 8;

inline void fetch(const float* row, std::int64_t floats) {
  for (std::int64_t i = 0; i < floats; i += 16)
    __builtin_prefetch(row + i);
}

/// to(rows, step) = scale * from(rows, columns), with zeros to the right and, up to `padded_rows`, below.
inline void pack_rows(const float* from, std::int64_t from_step, std::int64_t rows, std::int64_t columns, float scale, float* to,
                      std::int64_t step, std::int64_t padded_rows) {
  for (std::int64_t r = 0; r < padded_rows; ++r, to += step) {
    const float* row = from + r * from_step;
    std::int64_t i = 0;
    if (r + rows_ahead < rows)
      fetch(row + rows_ahead * from_step, columns);
    if (r < rows)
      for (; i < columns; ++i)
        to[i] = scale * row[i];
    for (; i < step; ++i)
      to[i] = 0;
  }
}

/// to(columns, step) = from(rows, columns) transposed, with zeros to the right up to `padded_rows` <= step.
inline void pack_transposed(const float* from, std::int64_t from_step, std::int64_t rows, std::int64_t columns, float* to,
                            std::int64_t step, std::int64_t padded_rows) {
  std::int64_t r = 0;
  for (; r + 4 <= rows; r += 4) {
    const float* row = from + r * from_step;
    for (std::int64_t next = r + rows_ahead; next < min(r + rows_ahead + 4, rows); ++next)
      fetch(from + next * from_step, columns);
    std::int64_t i = 0;
    for (; i + 4 <= columns; i += 4) {
      __m128 a = _mm_loadu_ps(row + i), b = _mm_loadu_ps(row + from_step + i), c = _mm_loadu_ps(row + 2 * from_step + i),
             d = _mm_loadu_ps(row + 3 * from_step + i);
      _MM_TRANSPOSE4_PS(a, b, c, d);
      _mm_storeu_ps(to + i * step + r, a);
      _mm_storeu_ps(to + (i + 1) * step + r, b);
      _mm_storeu_ps(to + (i + 2) * step + r, c);
      _mm_storeu_ps(to + (i + 3) * step + r, d);
    }
    for (; i < columns; ++i)
      for (std::int64_t k = 0; k < 4; ++k)
        to[i * step + r + k] = row[k * from_step + i];
  }
  for (; r < padded_rows; ++r)
    for (std::int64_t i = 0; i < columns; ++i)
      to[i * step + r] = r < rows ? from[r * from_step + i] : 0.0F;
}

/// Parts of the scratch memory, one after the other; each is a multiple of 64 bytes.
struct scratch_parts {
  float* next;
  float* take(std::int64_t floats) {
    float* part = next;
    next += padded(floats, padding_floats);
    return part;
  }
};
