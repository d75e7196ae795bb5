// SPDX-License-Identifier: BSD-3-Clause
// What nodes said of themselves before a job, compared: with each other, with the cluster's file, and with what the job needs.
#pragma once

#include <string>
#include <vector>

#include <boost/json.hpp>

#include "actors/job.hpp"
#include "actors/messages/cluster.hpp"
#include "actors/node/probe.hpp"
#include "apps/config/cluster_file.hpp"
#include "apps/memory_estimate.hpp"

namespace troupe::apps {

/// The nodes of a file as their cluster knows them, the coordinator's first.
std::vector<actors::node_description> node_descriptions(const config::cluster& file);

/// What a job expects of the nodes.
struct node_needs {
  const actors::job& job;
  const config::cluster& file;
  const std::vector<role_memory>& roles; ///< what each takes
};

/// Every reason for which the job could not run there now: what its nodes could never hold, "node c: data/train.csv differs from
/// node a's". A node that is not here is one where the job cannot do without it. Nodes are compared with the first one that
/// answered.
std::vector<std::string> mismatches(const actors::cluster_probe& probe, const node_needs& needs);

/// Every reason for which no nodes of the cluster could ever carry the job: a device that none has, or memory, by the estimate.
/// Of a node that works for another job all memory counts, for that ends; of the coordinator's, which every job shares, what is
/// free. A node that is not here or does not answer is thought to have what it needs.
std::vector<std::string> shortages(const actors::cluster_probe& probe, const node_needs& needs);

/// A row a node.
std::string nodes_table(const actors::cluster_probe& probe, const config::cluster& file);
/// An object a node: everything that it said.
boost::json::array nodes_json(const actors::cluster_probe& probe, const config::cluster& file);

} // namespace troupe::apps
