// SPDX-License-Identifier: BSD-3-Clause
// Tries how large the partitions of gradients and parameters should be, while a job runs. Our own search of what ByteScheduler
// (Peng et al., SOSP 2019) finds by Bayesian optimization.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "protocols/controller.hpp"

namespace troupe::protocols {

struct partition_search {
  std::vector<std::uint32_t> sizes{}; ///< that may be tried, in KiB, ascending; none: nothing is
  std::uint32_t spans = 15;           ///< to measure each by
};

/// All that it remembers between messages. Sizes are in KiB.
struct partition_tuning {
  std::uint32_t best = 0; ///< of all that were measured; 0: none was
  nanoseconds best_span = 0;
  bool tried_larger = false, tried_smaller = false; ///< than the best
  bool settled = false;
  // of the size that the newest plan says
  std::uint32_t waits = 0;          ///< spans that do not count: the plan has just begun
  std::uint32_t pushes = 0;         ///< in the span under way
  std::optional<nanoseconds> since; ///< when that began; none: at the next version
  std::vector<nanoseconds> spans{}; ///< that count
  friend bool operator==(const partition_tuning&, const partition_tuning&) = default;
};

/// Measures the size with which a plan begins, then its neighbours, the next larger one first, and keeps what is faster by 3 %;
/// from there it goes on in the same direction. Once no neighbour of the best is faster it settles, until a plan has other
/// workers, another protocol or another period. Under each size it takes the median of some spans: in one, as many pushes as
/// there are workers are used, so it is a round where each waits for all.
class partition_tuner {
public:
  explicit partition_tuner(partition_search search, partition_tuning from = {});

  /// That goes out instead of the last one.
  void on(const plan& next, const plan& last);
  /// A round has closed under this plan.
  std::optional<decision> on(const report& closed, const plan& under);

  const partition_tuning& state() const { return state_; }
  /// Ends the process where an invariant of its state is broken. Between messages.
  void check() const;

private:
  decision decide(nanoseconds span, std::uint32_t size);

  partition_search search_;
  partition_tuning state_;
};

} // namespace troupe::protocols
