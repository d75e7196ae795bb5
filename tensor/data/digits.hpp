// SPDX-License-Identifier: BSD-3-Clause
// Handwritten digits drawn by the program: a data set that needs no file.
#pragma once

#include <cstdint>
#include <span>

#include "tensor/data/memory_set.hpp"

namespace troupe {

inline constexpr int digit_side = 28;
inline constexpr int digit_pixels = digit_side * digit_side;

/// Which half of a data set: halves of one seed have no sample in common, however many are drawn.
enum class split : std::uint8_t { train, test };

/// Names one sample.
struct digit_key {
  std::uint64_t seed = 0;
  split half = split::train;
  std::uint64_t index = 0;
};

/// Draws sample `key` (white ink, 255, on black) and returns its label; digits are equally likely. A pure function of the
/// key, and the same bytes on every machine: it does nothing with floats whose rounding IEEE 754 leaves open.
///
/// A hand: one of the digit's glyphs, its points shaken, scaled, slanted, rotated and shifted (an affine map), then bent by
/// a smooth random displacement field (in the manner of Simard et al. 2003, "Best practices for convolutional neural
/// networks"), and drawn by a pen of random width, pressure and softness, under noise.
int draw_digit(const digit_key& key, std::span<std::uint8_t, digit_pixels> pixels);

/// Draws samples 0 to train_samples - 1 and 0 to test_samples - 1 of the two halves.
image_halves draw_digits(std::uint64_t seed, std::int64_t train_samples, std::int64_t test_samples);

} // namespace troupe
