// SPDX-License-Identifier: BSD-3-Clause
// What is left to do once it is decided how a job ends.
#pragma once

#include <cstdint>
#include <functional>
#include <set>

#include "actors/roles/coordinator/checkpoints.hpp"
#include "actors/roles/coordinator/coordinator_setup.hpp"
#include "actors/roles/coordinator/job_record.hpp"
#include "actors/roles/coordinator/nodes/evaluator_seat.hpp"
#include "actors/roles/coordinator/nodes/job_start.hpp"

namespace troupe::actors {

/// Brings into the job's result what its nodes have counted, and its trace; waits for its last checkpoint; and fetches its
/// parameters, if they are in another process. In this order, each with a deadline.
///
/// Part of the coordinator, and used on its thread alone.
class job_ending {
public:
  job_ending(measured_pointer<coordinator_control> self, const coordinator_setup& setup, const std::set<std::uint32_t>& lost,
             const job_start& start, job_record& record, checkpoints& saved, const evaluator_seat& evaluator)
      : self_(self), setup_(setup), lost_(lost), start_(start), record_(record), checkpoints_(saved), evaluator_(evaluator) {}

  /// `own`: of this process. `done` is called once.
  void begin(tracer& own, std::function<void()> done);

private:
  void save();
  void fetch();

  measured_pointer<coordinator_control> self_;
  const coordinator_setup& setup_;
  const std::set<std::uint32_t>& lost_; ///< nodes
  const job_start& start_;
  job_record& record_;
  checkpoints& checkpoints_;
  const evaluator_seat& evaluator_;
  std::function<void()> done_;
};

} // namespace troupe::actors
