// SPDX-License-Identifier: BSD-3-Clause
// How a hand writes the ten digits: pen strokes.
#pragma once

#include <span>
#include <vector>

namespace troupe {

struct point {
  float x = 0, y = 0;
  friend bool operator==(const point&, const point&) = default;
};

/// Points that the pen passes through in order, smoothly; a corner is where one stroke ends and the next begins.
using stroke = std::vector<point>;

/// One way of writing a digit, in the unit square, y downwards.
using glyph = std::vector<stroke>;

/// The ways of writing `digit` (0 to 9), from the commonest to the rarest.
std::span<const glyph> glyphs_of(int digit);

} // namespace troupe
