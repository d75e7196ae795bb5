// SPDX-License-Identifier: BSD-3-Clause
// Tensors in fewer bits, as they may travel: plain loops on the host, the same bits on every processor.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "kernels/random_key.hpp"

namespace troupe::kernels {

/// What an element becomes. n elements take, rounded up to 8 bytes:
///
/// | | bytes | an element x |
/// | --- | --- | --- |
/// | fp32 | 4 n | itself |
/// | fp16 | 2 n | nearest, ties to even; beyond 65504: that |
/// | bf16 | 2 n | nearest, ties to even; beyond the largest: that |
/// | int8 | n + 4 for each block of 256 | floor(x / s + u) s; s = largest of the block / 127, u uniform in [0, 1) (Alistarh et
/// al. 2017) | | int4 | n / 2 + 4 for each block of 256 | the same, of 7 | | onebit | n / 8 + 8 for each block of 512 | the mean
/// of those of its block with its sign (Seide et al. 2014) |
///
/// Blocks begin at multiples of their length in the job's flat array; a range that cuts one has a block of the rest. So a range
/// that is cut between blocks is encoded to the same numbers.
enum class form : std::uint8_t { fp32, fp16, bf16, int8, int4, onebit };

/// A range of the flat array: [begin, begin + count). `begin` is even.
struct coded_range {
  std::int64_t begin = 0, count = 0;
};

/// Follows from form and range, so that a receiver knows it beforehand.
std::size_t encoded_bytes(form as, const coded_range& where);

/// Encodes the range's values. False, and all of it zeros, if one is not finite. `key` names the uniform numbers of int8 and
/// int4, by an element's place in the flat array. `out` has encoded_bytes().
bool encode(form as, const coded_range& where, const random_key& key, std::span<const float> values, std::span<std::byte> out);

/// Whether bytes of another host may be decoded: they are as many as the form says, and no scale or mean in them is infinite or
/// not a number. Elements of fp32, fp16 and bf16 may be.
bool is_sound(form as, const coded_range& where, std::span<const std::byte> bytes);

/// Of sound bytes.
void decode(form as, const coded_range& where, std::span<const std::byte> bytes, std::span<float> out);

/// sum += weight times what decode() gives.
void add_decoded(form as, const coded_range& where, std::span<const std::byte> bytes, float weight, std::span<float> sum);

/// Error feedback (Seide et al. 2014; Karimireddy et al. 2019): encodes values + residual, and what that loses is the new
/// residual. So what was sent and the residual add up to all values. If a sum is not finite: false, zeros, and the residual as it
/// was.
bool encode_with_feedback(form as, const coded_range& where, const random_key& key, std::span<const float> values,
                          std::span<float> residual, std::span<std::byte> out);

} // namespace troupe::kernels
