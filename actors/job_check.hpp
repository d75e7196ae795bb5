// SPDX-License-Identifier: BSD-3-Clause
// Whether the layers that will run a job can run it.
#pragma once

#include <string>
#include <vector>

#include "actors/extensions.hpp"
#include "actors/job.hpp"

namespace troupe::actors {

/// One thing in a job that a layer cannot do.
struct job_problem {
  std::string key;  ///< "optimizer.warmup_epochs"
  std::string text; ///< what is wrong, and what would be right
  friend bool operator==(const job_problem&, const job_problem&) = default;
};

/// What is wrong with a job whose every value is resolved: `tensor` validates the optimizer's values, `protocols` the protocol's.
/// Empty if it is valid. Data, files and devices are not looked at.
std::vector<job_problem> check_job(const job& job, const extensions& added);

/// What else is wrong with it for real processes: their lanes have limits that virtual time has not.
std::vector<job_problem> check_processes(const job& job);

} // namespace troupe::actors
