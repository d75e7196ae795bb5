// SPDX-License-Identifier: BSD-3-Clause
// Parameters whose gradient is a product of two matrices, and what a step and a push make of that.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "kernels/buffer.hpp"
#include "kernels/factors.hpp"
#include "tensor/layout.hpp"

namespace troupe {

/// What a step has copied, in host memory; or nothing.
struct copied_factors {
  kernels::buffer block;
  std::int64_t rows = 0; ///< of the step
};

/// A parameter whose gradient is a product left' right of two matrices, of which each row of the batch gives `positions` rows.
struct factored_slot {
  flat_range where{};         ///< in the flat array, with the gap behind it
  std::int64_t m = 0, n = 0;  ///< columns of left and of right: the extents of the gradient
  std::int64_t positions = 1; ///< more than one in a sequence
  std::int64_t left = 0;      ///< where a step copies it to, in floats; likewise the next
  std::int64_t right = 0;

  kernels::factors in(const copied_factors& step) const;
  /// Of this parameter; `part` lies in `where`.
  kernels::matrix_part at(flat_range part) const;
  /// Of a part's factors as they travel (kernels/factors.hpp), if a step has so many rows.
  std::size_t bytes(flat_range part, std::int64_t rows) const;
  /// Whether these are fewer than the part's elements take.
  bool pays(flat_range part, std::int64_t rows) const;
};

/// In the order of the flat array; what is not in any of them has no factors.
using factored_slots = std::vector<factored_slot>;

/// Floats that steps of up to `rows` rows copy.
std::int64_t factor_floats(const factored_slots& slots, std::int64_t rows);
/// Bytes of the parts, each as factors or as it is: of the fewer.
std::size_t factored_bytes(const factored_slots& slots, const std::vector<flat_range>& parts, std::int64_t rows);
/// The one that the part lies in, or null.
const factored_slot* slot_of(const factored_slots& slots, flat_range part);

/// Partitions as cut_into_partitions() makes them, but what a range has of a slot is in partitions of its own, of up to
/// `largest_factored_bytes` of elements: each of them takes all of `right`.
std::vector<flat_range> cut_into_partitions(flat_range range, std::int64_t partition_bytes, const factored_slots& slots);
inline constexpr std::int64_t largest_factored_bytes = 64 << 20;

} // namespace troupe
