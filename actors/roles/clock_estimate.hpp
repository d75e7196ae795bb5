// SPDX-License-Identifier: BSD-3-Clause
// How far the clock of another host is ahead.
#pragma once

#include <cstdint>
#include <limits>

namespace troupe::actors {

/// From a few readings, the one with the quickest answer (Cristian 1989, "Probabilistic clock synchronization").
struct clock_estimate {
  std::int64_t ahead_ns = 0; ///< accurate to half of `round_trip_ns`
  std::int64_t round_trip_ns = std::numeric_limits<std::int64_t>::max();

  /// Asked when our clock said `asked_ns`, it said `its_ns`, and the answer was here after `took_ns`.
  void take(std::int64_t asked_ns, std::int64_t its_ns, std::int64_t took_ns) {
    if (took_ns < round_trip_ns)
      *this = {its_ns - asked_ns - took_ns / 2, took_ns};
  }
};

} // namespace troupe::actors
