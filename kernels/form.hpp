// SPDX-License-Identifier: BSD-3-Clause
// The forms of a tensor that travels, and how many bytes each takes: all that code without mathematics needs to know of codecs.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

namespace troupe::kernels {

/// What an element x becomes, and the bytes of n elements, which are rounded up to 8:
/// - fp32: itself. 4 n.
/// - fp16: nearest, ties to even; beyond 65504: that. 2 n.
/// - bf16: nearest, ties to even; beyond the largest: that. 2 n.
/// - int8: floor(x / s + u) s, where s = the largest of its block / 127 and u is uniform in [0, 1) (Alistarh et al. 2017). n,
///   and 4 for each block of 256.
/// - int4: the same, of 7. n / 2, and 4 for each block of 256.
/// - onebit: the mean of those of its block with its sign (Seide et al. 2014). n / 8, and 8 for each block of 512.
///
/// Of the sparse forms, some elements are there and all others are 0 (kernels/sparse.hpp):
/// - sparse_fp32: they themselves.
/// - sparse_bf16: in bf16. The largest are chosen in blocks of 4,096.
/// - sparse_sign: plus or minus one size that all have (Strom 2015).
///
/// factors: a matrix's gradient as the two that it is the product of (kernels/factors.hpp), so a sum of products of floats.
///
/// Blocks begin at multiples of their length in the job's flat array; a range that cuts one has a block of the rest. So a range
/// that is cut between blocks is encoded to the same numbers. On lanes, the numbers of the forms are those here.
enum class form : std::uint8_t { fp32, fp16, bf16, int8, int4, onebit, sparse_fp32, sparse_bf16, sparse_sign, factors };

inline constexpr std::array<std::string_view, 10> form_names{"fp32",   "fp16",        "bf16",        "int8",        "int4",
                                                             "onebit", "sparse_fp32", "sparse_bf16", "sparse_sign", "factors"};

constexpr std::string_view name_of(form as) {
  return form_names[static_cast<std::size_t>(as)];
}
constexpr std::optional<form> form_named(std::string_view name) {
  for (std::size_t i = 0; i < form_names.size(); ++i)
    if (form_names[i] == name)
      return static_cast<form>(i);
  return {};
}

/// Whether some elements are there, and the others are 0.
constexpr bool is_sparse(form as) {
  return as >= form::sparse_fp32 && as <= form::sparse_sign;
}
/// Whether the bytes of a range depend on more than where it lies: a message says how many they are.
constexpr bool says_bytes(form as) {
  return is_sparse(as) || as == form::factors;
}

/// A range of the flat array: [begin, begin + count). `begin` is even.
struct coded_range {
  std::int64_t begin = 0, count = 0;
};

/// Elements of a block; 1: each is encoded by itself.
constexpr std::int64_t block_of(form as) {
  if (as == form::sparse_bf16)
    return 4096;
  return as == form::onebit ? 512 : as == form::int8 || as == form::int4 ? 256 : 1;
}
/// How many blocks the range touches.
constexpr std::size_t blocks_in(form as, const coded_range& where) {
  const std::int64_t length = block_of(as);
  return where.count == 0 ? 0
                          : static_cast<std::size_t>((where.begin + where.count + length - 1) / length - where.begin / length);
}
/// Of scales and means, in front of the elements.
constexpr std::size_t scale_bytes(form as, const coded_range& where) {
  switch (as) {
  case form::int8:
  case form::int4:
    return sizeof(float) * blocks_in(as, where);
  case form::onebit:
    return 2 * sizeof(float) * blocks_in(as, where);
  default:
    return 0;
  }
}
/// Follows from form and range, so that a receiver knows it beforehand; of a form that says its bytes, the most that it may take.
constexpr std::size_t encoded_bytes(form as, const coded_range& where) {
  const auto n = static_cast<std::size_t>(where.count);
  std::size_t body = 4 * n;
  switch (as) {
  case form::fp32:
  case form::sparse_fp32:
  case form::sparse_bf16:
  case form::sparse_sign:
  case form::factors:
    break;
  case form::fp16:
  case form::bf16:
    body = 2 * n;
    break;
  case form::int8:
    body = n;
    break;
  case form::int4:
    body = (n + 1) / 2;
    break;
  case form::onebit:
    body = (n + 7) / 8;
    break;
  }
  return (scale_bytes(as, where) + body + 7) / 8 * 8;
}

/// In front of a sparse range's elements.
inline constexpr std::size_t sparse_head_bytes = 8;
/// Of so many elements that are there, without their places.
constexpr std::size_t sparse_value_bytes(form as, std::size_t count) {
  switch (as) {
  case form::sparse_bf16:
    return 2 * count;
  case form::sparse_sign:
    return sizeof(float) + (count + 7) / 8;
  default:
    return sizeof(float) * count;
  }
}
/// Of the code of places. Geometric gaps of this mean take the fewest bits with about log2(0.69 mean) of them in binary (Kiely
/// 2004).
inline unsigned rice_parameter(double elements, double places) {
  const double mean = 0.69 * elements / std::max(places, 1.0);
  return mean < 2 ? 0 : static_cast<unsigned>(std::min(std::floor(std::log2(mean)), 30.0));
}
/// encoded_bytes(), or what a sparse form takes on average if a share of `density` of the elements is there, at any places alike.
/// Of factors, `density` is the share of the bytes.
inline double expected_bytes(form as, const coded_range& where, double density) {
  const auto most = static_cast<double>(encoded_bytes(as, where));
  if (as == form::factors)
    return density * most;
  if (!is_sparse(as) || where.count == 0)
    return most;
  const double elements = static_cast<double>(where.count), places = density * elements;
  const unsigned rice = rice_parameter(elements, places);
  const double none = std::pow(1 - density, std::ldexp(1.0, static_cast<int>(rice))); // in 2^rice places
  const double gaps = places * (none / (1 - none) + 1 + rice) / 8;
  const auto values = static_cast<double>(sparse_value_bytes(as, static_cast<std::size_t>(std::llround(places))));
  return std::min(static_cast<double>(sparse_head_bytes) + values + gaps + 4, most); // 4: half of what is filled up
}

} // namespace troupe::kernels
