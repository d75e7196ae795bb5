// SPDX-License-Identifier: BSD-3-Clause
// Where a job's roles go.
#pragma once

#include <string>
#include <vector>

#include "actors/messages/node.hpp"

namespace troupe::actors {

/// A node that takes part in a job.
struct member_node {
  node_actor actor;
  std::string name;
  std::string host = "127.0.0.1";
  bool shard = true, worker = true;   ///< what it may hold
  std::vector<std::string> devices{}; ///< as in node_description
  bool absent = false;                ///< it may join later, and bring workers
};

/// Where each worker and holder goes; lane ports are not filled in. The first shard is always on the first node, the
/// coordinator's. Where shards and workers live apart, the other shards go to nodes that may hold no workers, and workers to all
/// that hold no shard, if there are such. A node at least may hold workers. Nodes that list several of the job's devices get more
/// workers than others, and those of one node have a device each in turn. Nodes that are absent have the workers beyond
/// `cluster.workers`, each as many as the others have on average; the last of them may have fewer, or none.
job_places place_roles(const job& what, const std::vector<member_node>& nodes);

} // namespace troupe::actors
