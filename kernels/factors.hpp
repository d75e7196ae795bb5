// SPDX-License-Identifier: BSD-3-Clause
// The gradient of a matrix as the two factors that it is the product of (Xie et al. 2016): exact, and smaller if few rows made
// it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "kernels/form.hpp"

namespace troupe::kernels {

/// A matrix (m, n) = left' right, of left (k, m) and right (k, n), all of them row by row.
struct factors {
  std::int64_t k = 0, m = 0, n = 0;
  const float* left = nullptr;
  const float* right = nullptr;
};

/// A part of the matrix: `count` of its elements, from element `first` on.
struct matrix_part {
  std::int64_t first = 0, count = 0;
};

/// What encode_factors() will write; a multiple of 8.
std::size_t factors_bytes(std::int64_t k, std::int64_t n, const matrix_part& part);
/// Little-endian: k, n, the column of the first element and the number of elements, of 4 bytes each; of the rows that the part
/// touches, a float each for every row of `left`; `right`; zeros up to a multiple of 8.
void encode_factors(const factors& of, const matrix_part& part, std::span<std::byte> out);

/// As in kernels/codec.hpp, of this form. What lies in the range behind the elements is 0. Each element is a sum in the order of
/// the factors' rows, so a matrix that is cut anywhere gives the same bits.
bool is_sound_factors(const coded_range& where, std::span<const std::byte> bytes);
void decode_factors(std::span<const std::byte> bytes, std::span<float> out);
void add_factors(std::span<const std::byte> bytes, float weight, std::span<float> sum);

} // namespace troupe::kernels
