// SPDX-License-Identifier: BSD-3-Clause
// What changes from one look at a cluster to the next.
#pragma once

#include <optional>
#include <string>

#include <boost/json.hpp>

#include "apps/console/snapshot.hpp"

namespace troupe::apps::console {

/// Per second; none where it is not known.
using rate = std::optional<double>;
boost::json::value rate_json(rate value);

struct job_speed {
  rate steps = {}, samples = {};
};
job_speed speed_of(const actors::job_view& job, const snapshot& before, const snapshot& now);

/// As `why` of one look; those that wait for each other may be between two messages, and then rounds are closed from one to the
/// other.
answer why(const snapshot& before, const snapshot& now, const std::string& actor);

/// Per second: steps and samples of jobs, bytes of lanes. What was not there before, or has begun anew, has no rate (JSON: null).
answer rates(const snapshot& before, const snapshot& now);

/// Every lane: throughput, what waits and how much may, the round trip, and since when nothing has gone.
answer links(const snapshot& before, const snapshot& now);

/// What waits for one actor, whether it becomes more, and when it will be gone at that pace.
answer mailbox(const snapshot& before, const snapshot& now, const std::string& actor);

} // namespace troupe::apps::console
