// SPDX-License-Identifier: BSD-3-Clause
// What a node loads for a job.
#pragma once

#include <exception>
#include <string>

#include "actors/extensions.hpp"
#include "actors/messages/node.hpp"

namespace troupe::actors {

/// Every failure is reported: the node waits for the answer.
inline data_loaded load_job_data(job_incarnation run, const job& job, const extensions& added) {
  try {
    auto loaded = load_data(job, added);
    if (!loaded)
      return {run, {}, loaded.error().message};
    const bool shared = job.cluster.may_span_nodes() && job.own_data.name.empty(); // nodes of one job must read the same files
    return {run,
            *loaded,
            {},
            shared ? look_at_data(job.data) : std::vector<file_probe>{},
            job.checkpoint.enabled() ? look_at_folder(job.checkpoint.dir) : folder_probe{}};
  } catch (const std::exception& e) {
    return {run, {}, e.what()};
  }
}

} // namespace troupe::actors
