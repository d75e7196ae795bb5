// SPDX-License-Identifier: BSD-3-Clause
// Training time by this process's monotonic clock.
#pragma once

#include <chrono>

#include "protocols/binding/training_clock.hpp"

namespace troupe::actors {

using protocols::own_timer;
using protocols::training_clock;
using protocols::training_timers;
using protocols::wall_clock;

inline protocols::nanoseconds steady_ns() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

} // namespace troupe::actors
