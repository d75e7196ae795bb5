// SPDX-License-Identifier: BSD-3-Clause
// What a job's lead tells a coordinator that takes it over.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "protocols/effect.hpp"

namespace troupe::protocols {

/// It repeats what the lead's last reports, which may be lost, have said.
struct lead_report {
  std::vector<plan> plans{}; ///< the last that it has heard, the newest last: parameters may be on their way under any of them
  version made{};            ///< the newest
  std::uint64_t samples = 0; ///< applied
  bool held = false;         ///< at `made`
  nanoseconds trained = 0;
  std::map<worker_id, step_count> counted{}; ///< the steps that it has reported, of each worker's newest incarnation
  friend bool operator==(const lead_report&, const lead_report&) = default;
};

/// How many plans a lead remembers for whoever has missed one. That of the open round is always one of them.
inline constexpr std::size_t most_plans = 8;

/// Counts the steps that a lead reports.
class reported_steps {
public:
  /// Older plans come again when another coordinator goes on.
  void on(const plan& next) {
    if (next.epoch <= newest_)
      return;
    newest_ = next.epoch;
    std::map<worker_id, incarnation> now;
    for (const member who : next.workers)
      now.emplace(who.worker, who.incarnation);
    std::erase_if(counted_, [&](const auto& each) {
      const auto before = members_.find(each.first), after = now.find(each.first);
      return after != now.end() && (before == members_.end() || before->second != after->second);
    });
    members_ = std::move(now);
  }
  void on(const report& fact) {
    if (fact.event == report::kind::round_closed)
      for (const timing& step : fact.timings) {
        step_count& all = counted_[step.worker];
        all = {all.steps + 1, all.samples + static_cast<std::uint64_t>(step.samples)};
      }
  }
  const std::map<worker_id, step_count>& counted() const { return counted_; }

private:
  plan_epoch newest_{};
  std::map<worker_id, incarnation> members_{};
  std::map<worker_id, step_count> counted_{};
};

} // namespace troupe::protocols
