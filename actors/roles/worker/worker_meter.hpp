// SPDX-License-Identifier: BSD-3-Clause
// How long workers compute, and how long they exchange.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <optional>
#include <utility>

#include "protocols/ids.hpp"

namespace troupe::actors {

/// Of a process's workers: real and emulated compute time, and how long they exchanged. An exchange lasts from the first
/// partition of a push that leaves a worker to the last of the parameters that it computes with next, in training time; what of
/// it is hidden, the worker still computed, or did already.
struct worker_meter {
  std::atomic<std::int64_t> computed_ns{0}, emulated_ns{0};
  std::atomic<std::int64_t> exchanged_ns{0}, hidden_ns{0};
};

/// One worker's exchanges, one after the other; training time.
class exchange_watch {
public:
  void step_ended(protocols::nanoseconds now) { step_ended_ = now; } ///< with its emulated time
  void begins(protocols::nanoseconds now) { began_ = began_.value_or(now); }
  /// A step that ended before the exchange began hides nothing of it.
  void ends(protocols::nanoseconds now, worker_meter& meter) {
    const auto began = std::exchange(began_, std::nullopt);
    if (!began)
      return;
    const auto hidden = std::max(protocols::nanoseconds{0}, step_ended_ - *began);
    meter.exchanged_ns += now - *began;
    meter.hidden_ns += hidden;
    open_ = now - *began - hidden;
  }
  /// So much of the step after the exchange was computed before its end.
  void computed_ahead(protocols::nanoseconds took, worker_meter& meter) {
    meter.hidden_ns += std::min(took, std::exchange(open_, 0));
  }

private:
  std::optional<protocols::nanoseconds> began_;      ///< while one is under way
  protocols::nanoseconds step_ended_ = 0, open_ = 0; ///< of the last one: not hidden
};

} // namespace troupe::actors
