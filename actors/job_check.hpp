// SPDX-License-Identifier: BSD-3-Clause
// Whether a job can be carried out, as the layers say that will do it.
#pragma once

#include <string>
#include <vector>

#include "actors/extensions.hpp"
#include "actors/job.hpp"

namespace troupe::actors {

/// One thing in a job that a layer cannot do.
struct job_problem {
  std::string key;  ///< "optimizer.warmup_epochs"
  std::string what; ///< what is wrong, and what would be right
  friend bool operator==(const job_problem&, const job_problem&) = default;
};

/// What is wrong with a job whose every value is resolved, whoever carries it out: the optimizer's values are judged by `tensor`,
/// the protocol's by `protocols`. Empty: nothing. Neither data nor files nor devices are looked at.
std::vector<job_problem> check_job(const job& what, const extensions& added);

/// What is wrong with it for processes beyond that: the lanes between them have limits that virtual time has not.
std::vector<job_problem> check_processes(const job& what);

} // namespace troupe::actors
