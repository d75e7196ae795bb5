// SPDX-License-Identifier: BSD-3-Clause
// Curves drawn with letters.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace troupe::apps::console {

struct drawn_point {
  double seconds = 0, value = 0;
};

/// A panel. What is not finite is left out. Where a value spans more than a decade its scale is logarithmic.
struct drawing {
  std::string title;
  std::vector<drawn_point> line;  ///< joined, in the order of time: of points that share a column their mean
  std::vector<drawn_point> marks; ///< single
};

/// Panels below each other over one axis of time, from 0 on, in lines that end with a newline: `height` of them, none longer than
/// `width`, but at least as much as can be read. Panels without points are left out. In Unicode eight dots stand for a letter.
std::string draw(const std::vector<drawing>& panels, std::size_t width, std::size_t height, bool unicode);

} // namespace troupe::apps::console
