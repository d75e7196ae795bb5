// SPDX-License-Identifier: BSD-3-Clause
// What all actors of a cluster are doing, for whoever asks from outside.
#pragma once

#include <chrono>

#include <caf/expected.hpp>
#include <caf/fwd.hpp>

#include "actors/cluster_messages.hpp"

namespace troupe::actors {

/// Every page of every node in one report, as inspect_query alone does not give it where there are many actors. Waits for at most `patience`
/// for each answer. The error is the cluster's; a node that falls silent meanwhile is reported so.
caf::expected<cluster_report> inspect_cluster(caf::scoped_actor& asker, const cluster_actor& cluster, std::chrono::milliseconds patience);

} // namespace troupe::actors
