// SPDX-License-Identifier: BSD-3-Clause
// One job on a running cluster.
#pragma once

#include "apps/config/cluster_file.hpp"
#include "apps/memory_estimate.hpp"
#include "apps/run_job.hpp"

namespace troupe::apps {

/// Submits the job to the cluster's coordinator, shows its progress, and downloads the final parameters and the trace. Ctrl-C
/// ends the job in order. A cluster that cannot be reached, refuses, or lacks the memory (`roles`) gives a failed result with the
/// reason.
job_outcome run_on_cluster(const config::cluster& where, const config::loaded_job& loaded, const std::vector<role_memory>& roles,
                           const model& network, const run_view& view, signal_waiter& signals);

/// A submitted job that runs without this client.
struct detached_job {
  std::uint64_t number = 0; ///< 0: there is none
  std::string why_not{};
};
detached_job submit_detached(const config::cluster& where, const config::loaded_job& loaded,
                             const std::vector<role_memory>& roles);

} // namespace troupe::apps
