// SPDX-License-Identifier: BSD-3-Clause
// From the trace of a real run to the times that a simulated one takes.
#pragma once

#include <string>

#include "apps/config/problem.hpp"
#include "protocols/sim/options.hpp"

namespace troupe::apps {

/// Reads a file that `run --trace` wrote.
///
/// All in training time. `compute` has every step that a worker computed, scaled to a whole batch; where times were emulated they
/// are the emulated ones. `apply` is the mean over all shards. `message` is half of what is left of a round trip without it. A
/// version's round trip is that of the workers that waited for it: from when the last of them had computed, which waited for
/// nobody, to when they went on, in the mean. Means, because their sums make the length of a run.
///
/// A file that is cut off, altered, or of another program is refused by name, and so is a run whose trips have other parts: over
/// an emulated link, or through aggregators.
config::checked<protocols::sim::calibration> read_calibration(const std::string& path);

} // namespace troupe::apps
