// SPDX-License-Identifier: BSD-3-Clause
// A cluster as Slurm describes it to the tasks of a step: no cluster file is needed under `srun`.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "apps/config/cluster_file.hpp"

namespace troupe::config {

/// The hosts of a Slurm list such as "n[1-3,07],login" in its order; leading zeros are kept. Empty: the list is malformed.
std::vector<std::string> expand_hostlist(std::string_view list);
/// Counts of tasks by host, "2(x3),1" means 2, 2, 2, 1. Empty: the list is malformed.
std::vector<std::uint32_t> expand_counts(std::string_view list);

/// This task, among the nodes of its step.
struct slurm_step {
  cluster nodes;    ///< a node for each task, called after its host; task 0 is the coordinator's and holds the shards
  std::string self; ///< this task's node
};

/// From the environment that srun sets: SLURM_JOB_ID, SLURM_STEP_ID, SLURM_STEP_NODELIST, SLURM_STEP_TASKS_PER_NODE,
/// SLURM_PROCID. `variable` looks one up (empty: not set), `address_of` a host's. The coordinator's port follows from job and
/// step, in 20000..39999, so that every task knows it. Without certificates, and unless `insecure`, all addresses must be
/// loopback ones.
checked<slurm_step> cluster_of_slurm(const std::function<std::string(const char*)>& variable,
                                     const std::function<std::string(const std::string&)>& address_of,
                                     const cluster_security& security);

} // namespace troupe::config
