// SPDX-License-Identifier: BSD-3-Clause
// The forms of a tensor that travels, and how many bytes each takes: all that code without mathematics needs to know of codecs.
#pragma once

#include <array>
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
/// Blocks begin at multiples of their length in the job's flat array; a range that cuts one has a block of the rest. So a range
/// that is cut between blocks is encoded to the same numbers. On lanes, the numbers of the forms are those here.
enum class form : std::uint8_t { fp32, fp16, bf16, int8, int4, onebit };

inline constexpr std::array<std::string_view, 6> form_names{"fp32", "fp16", "bf16", "int8", "int4", "onebit"};

constexpr std::string_view name_of(form as) {
  return form_names[static_cast<std::size_t>(as)];
}
constexpr std::optional<form> form_named(std::string_view name) {
  for (std::size_t i = 0; i < form_names.size(); ++i)
    if (form_names[i] == name)
      return static_cast<form>(i);
  return {};
}

/// A range of the flat array: [begin, begin + count). `begin` is even.
struct coded_range {
  std::int64_t begin = 0, count = 0;
};

/// Elements of a block; 1: each is encoded by itself.
constexpr std::int64_t block_of(form as) {
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
/// Follows from form and range, so that a receiver knows it beforehand.
constexpr std::size_t encoded_bytes(form as, const coded_range& where) {
  const auto n = static_cast<std::size_t>(where.count);
  std::size_t body = 4 * n;
  switch (as) {
  case form::fp32:
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

} // namespace troupe::kernels
