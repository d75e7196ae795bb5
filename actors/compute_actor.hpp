// SPDX-License-Identifier: BSD-3-Clause
// The compute actor: owns one backend queue and one training plan.
#pragma once

#include <memory>

#include <caf/typed_event_based_actor.hpp>
#include <caf/stateful_actor.hpp>

#include "actors/messages.hpp"
#include "actors/type_ids.hpp"
#include "tensor/plan.hpp"

namespace troupe::actors {

/// Enqueues one step at a time and answers when the device says that it has run; no thread waits. During backward it
/// sends `gradient_ready` to whoever asked. Spawn it detached on a CPU, whose queue runs work inside the call. A device
/// failure ends the actor with the reason; whoever monitors it decides.
class compute_state {
public:
  static inline const char* name = "troupe.compute";

  compute_state(compute_actor::stateful_pointer<compute_state> self, std::shared_ptr<kernels::backend> queue,
                std::shared_ptr<const model> net, std::int64_t max_rows);
  compute_actor::behavior_type make_behavior();

private:
  void enqueue(const compute_request& request);

  compute_actor::stateful_pointer<compute_state> self_;
  std::shared_ptr<kernels::backend> queue_;
  std::unique_ptr<plan> plan_;
  std::size_t gradient_bytes_ = 0;
  // the step under way; what it computes with stays alive until it has run
  compute_request request_;
  kernels::buffer gradients_;
  std::int64_t started_ns_ = 0;
  caf::typed_response_promise<compute_result> promise_;
};

using compute_impl = compute_actor::stateful_impl<compute_state>;

} // namespace troupe::actors
