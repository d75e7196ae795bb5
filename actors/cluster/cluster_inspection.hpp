// SPDX-License-Identifier: BSD-3-Clause
// What all actors of a cluster are doing, for whoever asks from outside.
#pragma once

#include <chrono>

#include <caf/actor_system.hpp>
#include <caf/expected.hpp>
#include <caf/fwd.hpp>
#include <caf/typed_actor.hpp>

#include "actors/messages/cluster.hpp"

namespace troupe::actors {

/// Looks at a cluster as often as it is asked: what the cluster says of itself, and every page of every node in one report, as
/// inspect_query alone does not give it where there are many actors. The error is the cluster's; a node that falls silent
/// meanwhile is reported so. It answers in any case, for it waits at most `patience` for the first pages and as long for the
/// rest.
using onlooker_actor = caf::typed_actor<caf::result<cluster_view, cluster_report>(caf::get_atom)>;
/// It lives until it is sent an exit.
onlooker_actor spawn_onlooker(caf::actor_system& system, cluster_actor cluster, std::chrono::milliseconds patience);

/// What an onlooker saw.
struct cluster_look {
  cluster_view cluster;
  cluster_report reports;
};
/// One look, for whoever waits for it.
caf::expected<cluster_look> inspect_cluster(caf::scoped_actor& asker, const cluster_actor& cluster,
                                            std::chrono::milliseconds patience);

} // namespace troupe::actors
