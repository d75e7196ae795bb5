// SPDX-License-Identifier: BSD-3-Clause
// Random draws in order, from the counter-based generator.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <utility>

#include "kernels/random.hpp"

namespace troupe {

/// `random_key::stream` of everything that data sets draw; layers number theirs from 0.
enum data_stream : std::uint32_t {
  stream_permutation = 0xDA7A0000, ///< step = epoch
  stream_digits_train,             ///< step = sample
  stream_digits_test,              ///< step = sample
  stream_assignment,               ///< step = 0
  stream_label_noise,              ///< step = sample
  stream_augmentation,             ///< step = epoch, a block a sample
  stream_holdout,                  ///< step = 0
  stream_own_order = 0xDA7B0000,   ///< plus the worker's number; step = epoch
};

/// The words of the sequence that a key names (kernels/random.hpp), one after the other. Built from integer operations and exact
/// float operations alone: the same numbers on every machine.
class random_stream {
public:
  explicit random_stream(const kernels::random_key& key) : key_(key) {}

  /// 32 random bits.
  std::uint32_t bits() {
    if (used_ == 4) {
      block_ = kernels::random_block(key_, next_++);
      used_ = 0;
    }
    return block_[used_++];
  }

  /// Uniform over [0, bound), without bias (Lemire 2019, "Fast random integer generation in an interval"). bound > 0.
  std::uint32_t below(std::uint32_t bound) {
    auto product = std::uint64_t{bits()} * bound;
    if (auto low = static_cast<std::uint32_t>(product); low < bound) {
      // 2^32 % bound of the low halves are one too many.
      for (auto excess = (0U - bound) % bound; low < excess; low = static_cast<std::uint32_t>(product))
        product = std::uint64_t{bits()} * bound;
    }
    return static_cast<std::uint32_t>(product >> 32);
  }

  /// Uniform over [low, high), in steps of 2^-24 of the interval.
  float uniform(float low, float high) { return low + (high - low) * kernels::uniform_float(bits()); }

  /// Bell-shaped with mean 0, variance 1 and |value| < 3.5: the sum of four uniform bytes. Needs no log and no cosine,
  /// whose last bits differ between maths libraries.
  float bell() {
    auto word = bits();
    auto sum = static_cast<int>((word & 255) + (word >> 8 & 255) + (word >> 16 & 255) + (word >> 24));
    return static_cast<float>(sum - 510) * (1 / 147.80166F); // sqrt(4 * (256^2 - 1) / 12)
  }

  /// Every order of `values` is equally likely (Fisher and Yates).
  void shuffle(std::span<std::uint32_t> values) {
    for (auto left = static_cast<std::uint32_t>(values.size()); left > 1; --left)
      std::swap(values[left - 1], values[below(left)]);
  }

private:
  kernels::random_key key_;
  std::uint32_t next_ = 0;
  std::array<std::uint32_t, 4> block_{};
  std::size_t used_ = 4;
};

} // namespace troupe
