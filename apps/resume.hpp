// SPDX-License-Identifier: BSD-3-Clause
// The checkpoint that `run --resume` names, and whether the job can go on from it.
#pragma once

#include <cstdint>
#include <string>

#include "actors/checkpoint/checkpoint_file.hpp"
#include "apps/config/job_file.hpp"

namespace troupe::apps {

struct resume_point {
  std::string folder{}; ///< absolute, "DIR/step-N"
  actors::checkpoint_manifest manifest{};
  config::problems passed_over{}; ///< newer ones that are not whole
};

/// `given`: "DIR/step-N", exactly that one; or a folder of checkpoints, the newest good one. Every byte of it is read. Refuses
/// what is not whole.
config::checked<resume_point> find_checkpoint(const std::string& given);

/// Why the job cannot go on from it: another model, data set, optimizer or protocol, or nothing left to do. Empty: it can.
/// `floats` and `train_samples`: of the job's model and training set.
config::problems cannot_resume(const config::loaded_job& loaded, const resume_point& from, std::uint64_t floats,
                               std::int64_t train_samples);

/// Why the job should not write its checkpoints where it says: a whole one there is newer than the one with which the job begins,
/// so that the newest would be another run's. Empty: it may.
config::problems other_checkpoints(const config::loaded_job& loaded);

} // namespace troupe::apps
