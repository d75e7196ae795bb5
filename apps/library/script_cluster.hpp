// SPDX-License-Identifier: BSD-3-Clause
// The cluster of a script that is started once on each host: from a file, or from what Slurm or Kubernetes tell their processes.
#pragma once

#include <string>

#include "apps/config/cluster_file.hpp"

namespace troupe::apps {

/// As the caller says it.
struct script_place {
  std::string of{};      ///< a cluster file, "slurm" or "kubernetes"; empty: none
  std::string certs{};   ///< of the latter two: the folder of ca.pem, NAME.pem and NAME.key; empty: none
  bool insecure = false; ///< of the latter two: anyone may join
};

/// This process in its cluster. Its coordinator's process submits the job, and the cluster ends with it.
struct script_cluster {
  config::cluster nodes;
  std::string self; ///< a name in it
  bool coordinates() const { return nodes.coordinator().name == self; }
};

/// `node`: which one this process is, for a file. Throws std::runtime_error with all that is wrong.
script_cluster find_script_cluster(const script_place& where, const std::string& node);

/// A running cluster to which a job of Troupe's own is submitted. Throws likewise.
config::cluster find_cluster_of_nodes(const std::string& file);

} // namespace troupe::apps
