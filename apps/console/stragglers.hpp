// SPDX-License-Identifier: BSD-3-Clause
// Finds stragglers, and the part of the round that makes them slow.
#pragma once

#include <vector>

#include "apps/console/snapshot.hpp"

namespace troupe::apps::console {

/// The parts of each worker's round: computing, the way to the shards and back, waiting for data; with median and MAD. A worker
/// is a straggler beyond three deviations and a tenth above the median. With fewer than four workers a deviation means nothing
/// (of two, each is exactly one from the median): then it is one that exceeds the fastest by half, and by half a step.
answer stragglers(const snapshot& seen);

} // namespace troupe::apps::console
