// SPDX-License-Identifier: BSD-3-Clause
// One job on a cluster that is there already.
#pragma once

#include "apps/config/cluster_file.hpp"
#include "apps/memory_estimate.hpp"
#include "apps/run_job.hpp"

namespace troupe::apps {

/// Submits the job to the cluster's coordinator, shows what comes of it, and brings the final parameters and the trace here.
/// Ctrl-C ends the job in order. A cluster that cannot be reached, or that refuses, or whose nodes could not carry the job
/// (`roles`: what it takes), is a failed result with the reason.
job_outcome run_on_cluster(const config::cluster& where, const config::loaded_job& loaded, const std::vector<role_memory>& roles,
                           const model& network, const run_view& view, signal_waiter& signals);

/// A job that goes on by itself.
struct detached_job {
  std::uint64_t number = 0; ///< 0: there is none
  std::string why_not{};
};
detached_job submit_detached(const config::cluster& where, const config::loaded_job& loaded,
                             const std::vector<role_memory>& roles);

} // namespace troupe::apps
