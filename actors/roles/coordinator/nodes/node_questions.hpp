// SPDX-License-Identifier: BSD-3-Clause
// What the coordinator asks all nodes of its job, and what their answers make together.
#pragma once

#include <functional>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include <caf/actor_clock.hpp>

#include "actors/messages/node.hpp"
#include "actors/node/place_roles.hpp"
#include "actors/roles/activity.hpp"
#include "actors/run_observer.hpp"

namespace troupe::actors {

struct asked_node {
  std::string name;
  node_actor actor; ///< null: its process is gone
};

/// All but the actors of those that are `lost`.
std::vector<asked_node> asked_nodes(const std::vector<member_node>& nodes, const std::set<std::uint32_t>& lost);

/// Sums of what the nodes have counted, and the memory of the largest process, of those that answer. On the thread of `self`.
void ask_totals(measured_pointer<coordinator_control> self, const std::vector<asked_node>& nodes,
                std::function<void(node_totals)> take);

/// Asks every node for its events, in chunks, and brings them to this process's clock by the quickest of a few readings of each
/// node's clock. `take` gets a trace for each node, the first one with `own` events; the observer hears what a trace lacks. A
/// node that has not answered `until` then, on the actor's clock, is missing. On the thread of `self`.
void collect_traces(measured_pointer<coordinator_control> self, const std::vector<asked_node>& nodes,
                    std::vector<trace_event> own, std::shared_ptr<run_observer> observer, caf::actor_clock::time_point until,
                    std::function<void(std::vector<node_trace>)> take);

} // namespace troupe::actors
