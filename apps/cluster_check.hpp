// SPDX-License-Identifier: BSD-3-Clause
// Compares what nodes report before a job: with each other, with the cluster's file, and with what the job needs.
#pragma once

#include <string>
#include <vector>

#include <boost/json.hpp>

#include "actors/job.hpp"
#include "actors/messages/cluster.hpp"
#include "actors/node/probe.hpp"
#include "apps/config/cluster_file.hpp"
#include "apps/memory_estimate.hpp"

namespace troupe::actors {
struct node_options;
}

namespace troupe::apps {

/// The nodes of a file as their cluster knows them: the coordinator's first, which is `leader` of several (empty: the first of
/// them), other coordinators last.
std::vector<actors::node_description> node_descriptions(const config::cluster& file, const std::string& leader = {});

/// What a file says of a node's lanes; the port is left to the caller.
actors::node_options lanes_of(const config::cluster& file, const config::cluster_node& self);

/// What a job expects of the nodes.
struct node_needs {
  const actors::job& job;
  const config::cluster& file;
  const std::vector<role_memory>& roles; ///< with the memory of each
};

/// Every reason why the job could not run there now: the nodes could never hold it, "node c: data/train.csv differs from node
/// a's". An absent node is a reason where the job cannot do without it. Nodes are compared with the first one that answered.
std::vector<std::string> mismatches(const actors::cluster_probe& probe, const node_needs& needs);

/// Every reason why no nodes of the cluster could ever run the job: a device that none has, or memory, by the estimate. All
/// memory of a node that works for another job counts, since that job ends. Every job shares the coordinator's node, so only its
/// free memory counts. A node that is absent or does not answer is assumed to have what it needs.
std::vector<std::string> shortages(const actors::cluster_probe& probe, const node_needs& needs);

/// One row per node.
std::string nodes_table(const actors::cluster_probe& probe, const config::cluster& file);
/// One object per node with everything that it reported.
boost::json::array nodes_json(const actors::cluster_probe& probe, const config::cluster& file);

} // namespace troupe::apps
