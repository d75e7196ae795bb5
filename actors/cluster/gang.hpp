// SPDX-License-Identifier: BSD-3-Clause
// Which nodes a job gets: all that it needs at once, or none.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <variant>
#include <vector>

#include "actors/messages/cluster.hpp"

namespace troupe::actors {

struct member_node;

/// Numbers of nodes, the coordinator's first; or the reason why the job waits. The coordinator's node takes part in every job;
/// any other serves one job at a time. Of the nodes beside the coordinator's as many may hold workers as the job has workers and
/// the cluster such nodes, so every gang can be placed (`place_roles`). Of the free ones those go first that share their host
/// with most others, so that a job stays close together; for a GPU, before them, those whose file lists it. A job that no state
/// of this cluster could serve is `never`.
///
/// Where jobs outlive their coordinator, its node counts, and has no part in a job whose other nodes can hold all that it has: it
/// is not in the gang then. If they can hold no shard, a free one that may takes its place.
struct no_gang {
  std::string reason;
  bool never = false;
};
/// Nodes that jobs which wait keep from those behind them: number of the node, number of the job.
using kept_nodes = std::map<std::uint32_t, std::uint64_t>;
std::variant<std::vector<std::uint32_t>, no_gang> choose_gang(const job& job, const std::vector<member_view>& seats,
                                                              const kept_nodes& kept = {});

/// What a job that waits keeps from those behind it: the nodes that it would get if all that are here were free; those that
/// nobody has or keeps (`kept`: by jobs before it) first. None where those that are here would not do, for nobody knows whether
/// the others ever come.
std::vector<std::uint32_t> nodes_to_keep(const job& job, const std::vector<member_view>& seats, const kept_nodes& kept);

/// The nodes beside a gang that a job may grow onto, as they join or become free: those that may hold its workers, until all
/// of `cluster.max_workers` have a place.
std::vector<std::uint32_t> nodes_to_grow_onto(const job& job, const std::vector<member_view>& seats,
                                              const std::vector<std::uint32_t>& gang);

/// These nodes as members of this job; those from `begins_with` on are absent.
std::vector<member_node> members_of(const job& job, const std::vector<member_view>& seats, const std::vector<std::uint32_t>& of,
                                    std::size_t begins_with);

/// Whether the first node serves this job alone: it holds workers; or any role, where it is a member as others are. `seat`: the
/// cluster's first, as these nodes have it.
bool first_node_serves(const job& job, const member_view& seat, const std::vector<member_node>& nodes);

/// A node as a member of this job: it may hold what its roles and its devices allow.
member_node member_of(const job& job, const member_view& seat);

} // namespace troupe::actors
