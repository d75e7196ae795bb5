// SPDX-License-Identifier: BSD-3-Clause
// The compute actor: one queue of one device, and the plan that runs on it.
#pragma once

#include <deque>
#include <memory>

#include <caf/stateful_actor.hpp>
#include <caf/typed_event_based_actor.hpp>

#include "actors/messages.hpp"
#include "actors/type_ids.hpp"
#include "tensor/plan.hpp"

namespace troupe::actors {

/// Enqueues one step at a time, part by part, and answers when the device says that it has run; no thread waits. During the
/// backward of a step's only part it sends `gradient_ready` to whoever asked. What it is asked about the worker's replica it
/// enqueues in the order of asking. Spawn it detached on a CPU, whose queue runs work inside the call. A device failure ends the
/// actor with the reason; whoever monitors it decides.
class compute_state {
public:
  static inline const char* name = "troupe.compute";

  compute_state(compute_actor::stateful_pointer<compute_state> self, std::shared_ptr<kernels::backend> queue,
                std::shared_ptr<const model> net, const optimizer_spec& local_optimizer, std::int64_t max_rows);
  compute_actor::behavior_type make_behavior();

private:
  /// A sum that the device has not finished.
  struct pending_sum {
    caf::typed_response_promise<sum_result> promise;
    kernels::buffer sum;
    std::vector<replica_term> terms; ///< alive until it has run
    kernels::buffer flag, finite;    ///< on the device, on the host
  };
  static constexpr std::uint64_t no_step = 0; ///< `compute_finished` of a sum: steps count from 1

  void enqueue_part();
  void part_done();
  void finish();
  void sum_done();

  compute_actor::stateful_pointer<compute_state> self_;
  std::shared_ptr<kernels::backend> queue_;
  std::int64_t floats_;
  std::unique_ptr<plan> plan_;
  replica replica_;
  // the step under way; what it computes with stays alive until it has run
  compute_request request_;
  worker_actor asker_;
  std::size_t parts_done_ = 0;
  compute_result done_;      ///< its gradients: the sum of the parts that have run
  kernels::buffer gradient_; ///< of the part that runs
  std::int64_t started_ns_ = 0;
  caf::typed_response_promise<compute_result> promise_;
  std::deque<pending_sum> sums_;
  std::vector<replica_term> mixed_; ///< since the last step: alive until that has run
};

using compute_impl = compute_actor::stateful_impl<compute_state>;

} // namespace troupe::actors
