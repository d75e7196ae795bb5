// SPDX-License-Identifier: BSD-3-Clause
// What is known of gradients in a sum.
#pragma once

#include <cstdint>

namespace troupe::protocols::collective {

/// What is known of the gradients in a sum. It travels with the sum and is added in the same order.
struct facts {
  std::int64_t samples = 0;
  double loss = 0;    ///< mean loss times what it is the mean over
  bool finite = true; ///< every element of each is
  double ignored = 0; ///< as in `push`
  bool saves = false; ///< one of their workers was told that the version they make is for a checkpoint
  /// What losses and gradients are means over.
  double counted() const { return static_cast<double>(samples) - ignored; }
  friend bool operator==(const facts&, const facts&) = default;
};

} // namespace troupe::protocols::collective
