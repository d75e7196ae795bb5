// SPDX-License-Identifier: BSD-3-Clause
// Changes from one look at a cluster to the next.
#pragma once

#include <optional>
#include <string>

#include <boost/json.hpp>

#include "apps/console/snapshot.hpp"

namespace troupe::apps::console {

/// Per second; none where it is unknown.
using rate = std::optional<double>;
boost::json::value rate_json(rate value);

struct job_speed {
  rate steps = {}, samples = {};
};
job_speed speed_of(const actors::job_view& job, const snapshot& before, const snapshot& now);

/// `why` from two looks. Actors that wait for each other may only be between two messages: then rounds close from one look to
/// the next.
answer why(const snapshot& before, const snapshot& now, const std::string& actor);

/// Per second: steps and samples of jobs, bytes of lanes. A count that is new or was reset has no rate (JSON: null).
answer rates(const snapshot& before, const snapshot& now);

/// Every lane: throughput, queued bytes and their credit, the round trip, and how long it has been stalled.
answer links(const snapshot& before, const snapshot& now);

/// The mailbox of one actor, how it changes, and when it will be empty at that rate.
answer mailbox(const snapshot& before, const snapshot& now, const std::string& actor);

} // namespace troupe::apps::console
