// SPDX-License-Identifier: BSD-3-Clause
// A cluster as Kubernetes describes it to the pods of an indexed Job.
#pragma once

#include <functional>
#include <string>

#include "apps/config/cluster_file.hpp"

namespace troupe::config {

/// This pod, among those of its job.
struct kubernetes_pod {
  cluster nodes;    ///< a node for each pod, called after its host; pod 0 is the coordinator's; all hold shards and compute
  std::string self; ///< this pod's node
};

/// From the environment of a pod of an indexed Job: JOB_COMPLETION_INDEX and HOSTNAME, which is JOB-INDEX, are set by Kubernetes;
/// the Job's description sets TROUPE_SERVICE, the headless service by which pods find each other (its `subdomain`), TROUPE_NODES,
/// its `completions`, and if need be TROUPE_PORT, the coordinator's (7400). `variable` looks one up (empty: not set). `certs`:
/// the folder of ca.pem, NAME.pem and NAME.key; empty: none, and then `insecure` has to be true.
checked<kubernetes_pod> cluster_of_kubernetes(const std::function<std::string(const char*)>& variable, const std::string& certs,
                                              bool insecure);

} // namespace troupe::config
