// SPDX-License-Identifier: BSD-3-Clause
// From the trace of a real run to the times of a simulated one.
#pragma once

#include <string>

#include "apps/config/problem.hpp"
#include "protocols/sim/options.hpp"

namespace troupe::apps {

/// Reads a file that `run --trace` wrote.
///
/// All times are training time. `compute` has every computed step of each worker, scaled to a whole batch; emulated times are
/// kept. `apply` is the mean over all shards. `message` is half of a round trip without `apply`. A version's round trip is that
/// of the workers that waited for it: from when the last of them had computed to the mean time at which they went on. Means are
/// used because their sums make up the length of a run.
///
/// Refused by name: a file that is cut off, altered, or from another program; a run whose round trips have other parts, over an
/// emulated link or through aggregators.
config::checked<protocols::sim::calibration> read_calibration(const std::string& path);

} // namespace troupe::apps
