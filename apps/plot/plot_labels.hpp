// SPDX-License-Identifier: BSD-3-Clause
// Places the names of curves at their ends, without overlap.
#pragma once

#include <vector>

namespace troupe::apps {

/// A place in a drawing; y grows downwards.
struct pixel {
  double x = 0, y = 0;
};

struct box {
  double left = 0, top = 0, right = 0, bottom = 0;
  bool overlaps(const box& b) const { return left < b.right && b.left < right && top < b.bottom && b.top < bottom; }
  bool holds(const pixel& p) const { return left < p.x && p.x < right && top < p.y && p.y < bottom; }
};

/// A name of `width` that belongs to `end`.
struct end_label {
  pixel end;
  double width = 0;
};

/// The box of each label, inside `area`: beside its end where that is free, else as near as possible, in the order of the ends. A
/// box may cover a curve where free space is far away, and another label only where `area` is too small for all.
std::vector<box> place_labels(const std::vector<end_label>& labels, const std::vector<std::vector<pixel>>& lines,
                              const box& area);

} // namespace troupe::apps
