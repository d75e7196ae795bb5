// SPDX-License-Identifier: BSD-3-Clause
// What a node loads for a job.
#pragma once

#include <exception>
#include <string>

#include "actors/extensions.hpp"
#include "actors/messages/node.hpp"

namespace troupe::actors {

/// Every failure is reported: the node waits for the answer.
/// `checkpoints`: a folder that must be writable; empty: none.
inline data_loaded load_job_data(job_incarnation run, const job& job, const extensions& added, const std::string& checkpoints) {
  try {
    auto loaded = load_data(job, added);
    if (!loaded)
      return {run, {}, loaded.error().message};
    // Nodes of one job must read the same files, and so must who goes on from its checkpoint.
    const bool compared = job.cluster.may_span_nodes() || job.checkpoint.enabled() || !job.checkpoint.resume.empty();
    return {run,
            *loaded,
            {},
            compared && job.own_data.name.empty() ? look_at_data(job.data) : std::vector<file_probe>{},
            checkpoints.empty() ? folder_probe{} : look_at_folder(checkpoints)};
  } catch (const std::exception& e) {
    return {run, {}, e.what()};
  }
}

} // namespace troupe::actors
