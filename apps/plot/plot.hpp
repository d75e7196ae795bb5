// SPDX-License-Identifier: BSD-3-Clause
// Loss against time as SVG: one labelled curve per protocol, with the point where it reached the target.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "apps/curve.hpp"

namespace troupe::apps {

struct plot_curve {
  std::string label;
  curve points{};                    ///< in order of time; a value that is not finite is left out and breaks the line
  std::optional<double> reached_s{}; ///< when the target was reached
};

struct plot_data {
  std::string title;
  std::string time_label = "training time (s)";
  double target_accuracy = 0; ///< above 0: a second panel shows accuracy against time, with the target
  std::vector<plot_curve> curves{};
};

/// A self-contained document without scripts. It follows the reader's light or dark scheme, and colour-blind readers can tell its
/// colours apart. Every curve is named at its end and in a legend. Loss is drawn on a logarithmic scale where it spans more than
/// a decade. Curves of many points are thinned, keeping their extremes, so that the document stays below about 60 kB. Texts may
/// hold any bytes.
std::string plot_svg(const plot_data& data);

} // namespace troupe::apps
