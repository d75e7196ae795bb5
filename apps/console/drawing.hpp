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

/// A panel. Values that are not finite are left out. A range of more than a decade gets a logarithmic scale.
struct drawing {
  std::string title;
  std::vector<drawn_point> line;  ///< joined in order of time; points that share a column are averaged
  std::vector<drawn_point> marks; ///< single
};

/// Panels below each other over one axis of time, from 0 on: `height` lines of at most `width` letters, or more where less could
/// not be read. Panels without points are left out. In Unicode a letter holds eight dots.
std::string draw(const std::vector<drawing>& panels, std::size_t width, std::size_t height, bool unicode);

} // namespace troupe::apps::console
