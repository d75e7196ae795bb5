// SPDX-License-Identifier: BSD-3-Clause
// Who holds a job's workers up, and with which part of a round.
#pragma once

#include <vector>

#include "apps/console/snapshot.hpp"

namespace troupe::apps::console {

/// 0 of none.
double median_of(std::vector<double> values);

/// Workers by what a round is made of: computing, the way to the shards and back, waiting for their data; with median and MAD.
/// Named are those beyond three deviations and a tenth of the median, with the part that it is. Of fewer than four that have made
/// a step a deviation says nothing (of two, each is exactly one from the median): named are those that take longer than the
/// fastest by half of that, and of a step.
answer stragglers(const snapshot& at);

} // namespace troupe::apps::console
