// SPDX-License-Identifier: BSD-3-Clause
// Tensors in fewer bits, as they may travel: plain loops on the host, the same bits on every processor.
#pragma once

#include <cstddef>
#include <span>

#include "kernels/form.hpp"
#include "kernels/random_key.hpp"

namespace troupe::kernels {

/// Whether all of them are finite.
bool every_finite(std::span<const float> values);

/// Encodes the range's values, but not in a sparse form or as factors (kernels/sparse.hpp, kernels/factors.hpp). False, and all
/// of it zeros, if one is not finite. `key` names the uniform numbers of int8 and int4, by an element's place in the flat array.
/// `out` has encoded_bytes().
bool encode(form as, const coded_range& where, const random_key& key, std::span<const float> values, std::span<std::byte> out);

/// Whether bytes of another host may be decoded: they are as many as the form says, places lie in the range, and no scale, mean
/// or size in them is infinite or not a number. Elements of fp32, fp16 and bf16 may be.
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
