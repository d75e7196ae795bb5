// SPDX-License-Identifier: BSD-3-Clause
// The name of a sequence of random numbers.
#pragma once

#include <cstdint>

namespace troupe::kernels {

/// What names a random draw: the same numbers on every backend, in every process, for any order of calls.
/// The generator is Philox4x32-10 (kernels/random.hpp): key = seed (low word first), counter = (element / 4, stream, step low,
/// step high); element i is word i % 4 of its block.
struct random_key {
  std::uint64_t seed = 0;
  std::uint32_t stream = 0; ///< which consumer: a layer, say
  std::uint64_t step = 0;   ///< when, or which row of the data

  /// The keys `layer` streams and `row` steps after this one.
  constexpr random_key of_layer(std::uint32_t layer) const { return {seed, stream + layer, step}; }
  constexpr random_key of_row(std::uint64_t row) const { return {seed, stream, step + row}; }
  friend bool operator==(const random_key&, const random_key&) = default;
};

} // namespace troupe::kernels
