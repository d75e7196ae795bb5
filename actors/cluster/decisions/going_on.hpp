// SPDX-License-Identifier: BSD-3-Clause
// Where a job goes on whose coordinator was lost.
#pragma once

#include <string>
#include <vector>

#include "actors/job.hpp"

namespace troupe::actors {

struct going_on {
  std::string from{};                     ///< "DIR/step-N", absolute; empty: with what it was submitted
  std::vector<std::string> passed_over{}; ///< newer checkpoints and why they cannot be used
};

/// The newest whole checkpoint that the job can go on from: one of this job, in `checkpoint.dir`, made before its end. Every byte
/// is read, from this host.
going_on newest_checkpoint_of(const job& job);
/// Has a job that ran begin from there; or again, if there is none. Says which: "ran when the coordinator was lost, and goes on
/// from DIR/step-40".
std::string begin_where_it_can(job& job);

} // namespace troupe::actors
