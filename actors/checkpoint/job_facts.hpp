// SPDX-License-Identifier: BSD-3-Clause
// What of a job a checkpoint must agree with.
#pragma once

#include <map>
#include <string>

#include "actors/job.hpp"
#include "protocols/protocol.hpp"

namespace troupe::actors {

/// By job key, what must be the same for the job to go on from a checkpoint: model, data set, seed, protocol, and optimizer
/// without its learning rate. `job` has its layers.
std::map<std::string, std::string> checkpoint_facts(const job& job);

/// Why a job that reads `own` files does not go on from the checkpoint in `folder`, whose job read `theirs`: SHA-256 by path.
/// Empty: nothing speaks against it. Files may have moved; data that are generated have none.
std::string other_data(const std::map<std::string, std::string>& own, const std::map<std::string, std::string>& theirs,
                       const std::string& folder);

/// Whether the workers keep from one round to the next what belongs into checkpoints: the momentum of their own steps, a dual
/// variable, parameters that nobody else has, or what the codes of their pushes have lost.
bool workers_keep_state(const job& job, const protocols::protocol& with);
/// Whether workers write files of checkpoints: what they keep, or the parameters, where all take the same steps.
bool workers_write(const job& job, const protocols::protocol& with);

/// The folder's absolute path, without "." and a slash at its end.
std::string absolute_folder(const std::string& path);

} // namespace troupe::actors
