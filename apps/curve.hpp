// SPDX-License-Identifier: BSD-3-Clause
// How a run went: what compare reports and plots.
#pragma once

#include <vector>

namespace troupe::apps {

/// One evaluation.
struct curve_point {
  double seconds = 0; ///< training time, or virtual
  double train_loss = 0, test_accuracy = 0;
  friend bool operator==(const curve_point&, const curve_point&) = default;
};

/// Every evaluation of a run, in its order.
using curve = std::vector<curve_point>;

} // namespace troupe::apps
