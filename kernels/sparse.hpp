// SPDX-License-Identifier: BSD-3-Clause
// A few elements of a range and their places: which ones, and as what bytes they travel.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "kernels/form.hpp"

namespace troupe::kernels {

/// Places in a range, ascending.
using sparse_places = std::vector<std::uint32_t>;

/// Those of the largest magnitudes, a share of `density` of each block of sparse_bf16, one at least; of equal ones the first
/// (Aji & Heafield 2017). Exact, so every run chooses the same, and a range that is cut between blocks gives the same, too.
/// 0 is never chosen. Values are finite; `density` is in (0, 1].
sparse_places choose_largest(const coded_range& where, std::span<const float> values, double density);
/// Likewise, a share of each block's own, which may be 0: `density_of` is given the block's place among those of the flat array.
sparse_places choose_largest(const coded_range& where, std::span<const float> values,
                             const std::function<double(std::int64_t block)>& density_of);
/// Those of at least this magnitude (Strom 2015).
sparse_places choose_from(std::span<const float> values, float magnitude);
/// Those whose bits differ.
sparse_places choose_changed(std::span<const float> now, std::span<const float> before);
/// Those whose bits are not all 0.
sparse_places choose_nonzero(std::span<const float> values);

/// What encode_sparse() will write; a multiple of 8. Nothing for no elements, nor places.
std::size_t sparse_bytes(form as, const coded_range& where, std::span<const std::uint32_t> places);
/// Little-endian: the number of places; the parameter of their Rice code (1979), as 4 bytes; the elements; the gap before each
/// place as a unary quotient and a binary remainder, from the lowest bit on; zeros up to a multiple of 8. The elements of
/// sparse_sign are a float, their size, and a bit each, which is 1 below 0. `values` are all of the range's; in sparse_sign
/// those that are chosen have one magnitude.
void encode_sparse(form as, const coded_range& where, std::span<const std::uint32_t> places, std::span<const float> values,
                   std::span<std::byte> out);

/// As in kernels/codec.hpp, of these forms.
bool is_sound_sparse(form as, const coded_range& where, std::span<const std::byte> bytes);
void add_sparse(form as, std::span<const std::byte> bytes, float weight, std::span<float> sum);
/// The elements that are there replace those of `out`.
void overwrite_sparse(form as, std::span<const std::byte> bytes, std::span<float> out);

} // namespace troupe::kernels
