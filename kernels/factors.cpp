// SPDX-License-Identifier: BSD-3-Clause
// Products of two factors, tile by tile.
#include "kernels/factors.hpp"

#include <algorithm>
#include <bit>
#include <cstring>
#include <vector>

#include "kernels/assert.hpp"

namespace troupe::kernels {

namespace {

static_assert(std::endian::native == std::endian::little); // floats travel as they lie in memory

/// In front of the factors.
struct head {
  std::uint32_t k = 0, n = 0, skipped = 0, count = 0;

  std::uint64_t rows() const { return (std::uint64_t{skipped} + count + n - 1) / n; }
  std::uint64_t floats() const { return k * (rows() + n); }
};

std::size_t bytes_of(const head& at) {
  return (sizeof(head) + at.floats() * sizeof(float) + 7) / 8 * 8;
}

head numbers_of(std::int64_t k, std::int64_t n, const matrix_part& part) {
  return {static_cast<std::uint32_t>(k), static_cast<std::uint32_t>(n), static_cast<std::uint32_t>(part.first % n),
          static_cast<std::uint32_t>(part.count)};
}

head read_head(std::span<const std::byte> bytes) {
  head out;
  std::memcpy(&out, bytes.data(), sizeof out);
  return out;
}

constexpr std::size_t tile_rows = 4, tile_columns = 8; // their sums stay in registers
using tile = float[tile_rows][tile_columns];

/// Columns [first, first + width) of a matrix (k, n), row by row; zeros beyond the last one.
template <std::size_t width>
void columns_of(std::size_t k, const float* from, std::size_t n, std::size_t first, float* to) {
  const std::size_t there = std::min(width, n - first);
  for (std::size_t i = 0; i < k; ++i, to += width)
    std::fill(std::copy_n(from + i * n + first, there, to), to + width, 0.0F);
}

void add_up(std::size_t k, const float* left, const float* right, tile& sums) {
  for (std::size_t i = 0; i < k; ++i, left += tile_rows, right += tile_columns)
    for (std::size_t r = 0; r < tile_rows; ++r)
      for (std::size_t c = 0; c < tile_columns; ++c)
        sums[r][c] += left[r] * right[c];
}

/// Calls `each(place in the part, number of elements, their values)`, for all of them.
template <class Each>
void for_products(std::span<const std::byte> bytes, Each each) {
  const head at = read_head(bytes);
  const std::size_t k = at.k, n = at.n, rows = at.rows();
  const auto* left = reinterpret_cast<const float*>(bytes.data() + sizeof(head)); // payloads are aligned
  const auto* right = left + k * rows;
  const std::size_t begin = at.skipped, end = begin + at.count; // of the part, from its first row on
  // Tiles in the order of the product's rows: it is written from its beginning to its end.
  std::vector<float> lefts(k * tile_rows), rights(k * (n + tile_columns));
  for (std::size_t column = 0; column < n; column += tile_columns)
    columns_of<tile_columns>(k, right, n, column, rights.data() + k * column);
  for (std::size_t row = 0; row < rows; row += tile_rows) {
    columns_of<tile_rows>(k, left, rows, row, lefts.data());
    for (std::size_t column = 0; column < n; column += tile_columns) {
      tile sums = {};
      add_up(k, lefts.data(), rights.data() + k * column, sums);
      for (std::size_t r = 0; r < tile_rows; ++r) {
        const std::size_t there = (row + r) * n + column;
        const std::size_t first = std::max(there, begin), last = std::min(there + std::min(tile_columns, n - column), end);
        if (first < last)
          each(first - begin, last - first, &sums[r][first - there]);
      }
    }
  }
}

} // namespace

std::size_t factors_bytes(std::int64_t k, std::int64_t n, const matrix_part& part) {
  return bytes_of(numbers_of(k, n, part));
}

void encode_factors(const factors& of, const matrix_part& part, std::span<std::byte> out) {
  const head at = numbers_of(of.k, of.n, part);
  TROUPE_ASSERT(part.first >= 0 && part.count > 0 && part.first + part.count <= of.m * of.n && out.size() == bytes_of(at));
  std::memcpy(out.data(), &at, sizeof at);
  auto* to = out.data() + sizeof at;
  const auto put = [&to](const float* from, std::uint64_t count) {
    std::memcpy(to, from, count * sizeof(float));
    to += count * sizeof(float);
  };
  for (std::int64_t i = 0; i < of.k; ++i)
    put(of.left + i * of.m + part.first / of.n, at.rows());
  put(of.right, static_cast<std::uint64_t>(of.k * of.n));
  std::fill(to, out.data() + out.size(), std::byte{0});
}

bool is_sound_factors(const coded_range& where, std::span<const std::byte> bytes) {
  if (bytes.size() < sizeof(head) || bytes.size() > encoded_bytes(form::factors, where))
    return false;
  const head at = read_head(bytes);
  if (at.k == 0 || at.n == 0 || at.skipped >= at.n || at.count == 0 || at.count > static_cast<std::uint64_t>(where.count))
    return false;
  const std::uint64_t floats = bytes.size() / sizeof(float); // so many at most, and no product of the two can overflow
  return at.k <= floats && at.rows() + at.n <= floats && bytes_of(at) == bytes.size();
}

void decode_factors(std::span<const std::byte> bytes, std::span<float> out) {
  for_products(bytes, [out](std::size_t place, std::size_t count, const float* values) {
    std::copy_n(values, count, out.begin() + static_cast<std::ptrdiff_t>(place));
  });
  std::ranges::fill(out.subspan(read_head(bytes).count), 0.0F);
}

void add_factors(std::span<const std::byte> bytes, float weight, std::span<float> sum) {
  for_products(bytes, [weight, sum](std::size_t place, std::size_t count, const float* values) {
    for (std::size_t i = 0; i < count; ++i)
      sum[place + i] += weight * values[i];
  });
}

} // namespace troupe::kernels
