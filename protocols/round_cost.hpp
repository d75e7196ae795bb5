// SPDX-License-Identifier: BSD-3-Clause
// What a round would have cost under another protocol, from measured times.
#pragma once

#include <algorithm>
#include <span>
#include <vector>

namespace troupe::protocols {

/// How long a worker computed on one batch and how long its push travelled, in nanoseconds.
struct step_time {
  double compute = 0, travel = 0;
};

/// The times of a plan's workers in one round, by rank.
using round_times = std::span<const step_time>;

/// The cost of a round that closes with the first k pushes, 1 <= k <= n.
inline double cost_of_first(round_times times, std::size_t k) {
  std::vector<double> arrivals;
  for (const step_time& each : times)
    arrivals.push_back(each.compute + each.travel);
  std::ranges::sort(arrivals);
  return arrivals[k - 1] * static_cast<double>(times.size()) / static_cast<double>(k);
}

} // namespace troupe::protocols
