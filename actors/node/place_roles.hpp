// SPDX-License-Identifier: BSD-3-Clause
// Where a job's roles go.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "actors/messages/node.hpp"
#include "protocols/protocol.hpp"

namespace troupe::actors {

/// A node that takes part in a job.
struct member_node {
  node_actor actor;
  std::string name;
  std::string host = "127.0.0.1";
  bool shard = true, worker = true;   ///< what it may hold
  std::vector<std::string> devices{}; ///< as in node_description
  bool absent = false;                ///< it may join later, and bring workers
  /// 0: jobs end with their coordinator; its node is the first, and has the first shard. Where they outlive it, a node holds
  /// parameters only where none with less may: 1 is any, 2 that of a coordinator that follows, 3 that of the one that leads.
  std::uint8_t last_resort = 0;
};
inline constexpr std::uint8_t any_node = 1, followers_node = 2, leaders_node = 3; ///< member_node::last_resort

/// Where each worker and holder goes, and the evaluator, which is beside the first shard; lane ports are not filled in. Where
/// shards and workers live apart, the shards go to nodes that may hold no workers, and workers to all that hold no shard, if
/// there are such; those of a job that outlives its coordinator not to the node that leads. A node at least may hold workers.
/// Nodes that list several of the job's devices get more workers than others, and those of one node have a device each in turn.
/// Nodes that are absent have the workers beyond `cluster.workers`, each as many as the others have on average; the last of them
/// may have fewer, or none.
job_places place_roles(const job& job, const std::vector<member_node>& nodes);

/// How many workers each node has that has some, tree_shape::blocks, if the job goes by that: by an aggregator on each node, or
/// by a protocol whose workers ask who shares one. The latter not over an emulated link, where each is on a host of its own.
std::vector<std::uint32_t> worker_blocks(const job& job, const protocols::protocol& runs, const job_places& places);

/// Into how many partitions workers of this job, which runs this protocol, cut a gradient of so many floats to sum it among
/// themselves; 1 where they sum none. `kib`: plan::partition_kib.
std::uint32_t sum_partitions(const job& job, const protocols::protocol& runs, std::int64_t floats, std::uint32_t kib = 0);

} // namespace troupe::actors
