// SPDX-License-Identifier: BSD-3-Clause
// What a job's lead has reported in all.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <vector>

#include "protocols/effect.hpp"

namespace troupe::actors {

/// Where the lead held, and when.
struct held_point {
  protocols::version ver{};
  std::uint64_t samples = 0;
  protocols::nanoseconds trained = 0;
  friend bool operator==(const held_point&, const held_point&) = default;
};

/// Sums of a lead's reports, for a coordinator that has not heard them. A lead that takes another's place begins with none.
struct lead_tally {
  std::uint64_t gradients = 0, discarded = 0;         ///< pushes, and those of them that no version used
  std::map<std::uint64_t, std::uint64_t> staleness{}; ///< how many applied pushes had it
  double residual_max = 0;
  std::vector<held_point> held{}; ///< the last of them, in their order
  friend bool operator==(const lead_tally&, const lead_tally&) = default;
};

/// As many as the evaluator remembers evaluations.
inline constexpr std::size_t most_held_points = 16;

/// `now`: training time.
inline void add(lead_tally& to, const protocols::report& fact, protocols::nanoseconds now) {
  using kind = protocols::report::kind;
  switch (fact.event) {
  case kind::round_closed:
    to.gradients += fact.contributions;
    to.staleness[fact.staleness] += fact.contributions;
    to.residual_max = std::max(to.residual_max, fact.residual);
    break;
  case kind::push_discarded:
  case kind::push_refused:
  case kind::push_not_finite:
    ++to.gradients;
    ++to.discarded;
    break;
  case kind::held:
    if (to.held.size() == most_held_points)
      to.held.erase(to.held.begin());
    to.held.push_back({fact.ver, fact.samples, now});
    break;
  case kind::note:
  case kind::lost:
    break;
  }
}

} // namespace troupe::actors
