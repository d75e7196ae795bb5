// SPDX-License-Identifier: BSD-3-Clause
// The compute actor's handlers.
#include "actors/compute_actor.hpp"

#include <chrono>

#include "actors/errors.hpp"

namespace troupe::actors {

namespace {

std::int64_t now_ns() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

} // namespace

compute_state::compute_state(compute_actor::stateful_pointer<compute_state> self, std::shared_ptr<kernels::backend> queue,
                             std::shared_ptr<const model> net, std::int64_t max_rows)
    : self_(self), queue_(std::move(queue)), gradient_bytes_(static_cast<std::size_t>(net->layout().floats()) * sizeof(float)) {
  end_with_reason(*self);
  plan_ = value_or_throw(plan::compile(*net, *queue_, {.max_rows = max_rows, .training = true}));
}

compute_actor::behavior_type compute_state::make_behavior() {
  return {
    [this](const compute_request& request) -> caf::result<compute_result> {
      promise_ = self_->make_response_promise<compute_result>();
      enqueue(request);
      return promise_;
    },
    [this](compute_finished msg) {
      const auto& outcome = plan_->outcome();
      compute_result done;
      done.step = msg.step;
      done.gradients = std::move(gradients_);
      done.rows = outcome.rows;
      done.loss = outcome.rows > 0 ? outcome.loss_sum / static_cast<double>(outcome.rows) : 0;
      done.finite = outcome.finite;
      done.compute_ns = now_ns() - started_ns_;
      request_ = {};
      promise_.deliver(std::move(done));
    },
  };
}

void compute_state::enqueue(const compute_request& request) {
  request_ = request;
  gradients_ = queue_->allocate(gradient_bytes_);
  started_ns_ = now_ns();
  // The callbacks may come on a thread of the device: they only send messages.
  auto asker = caf::actor_cast<worker_actor>(self_->current_sender());
  auto me = compute_actor{self_};
  auto step = request_.step;
  step_args args;
  args.parameters = request_.parameters.as<const float>();
  args.gradients = gradients_.as<float>();
  args.x = request_.data.x.as<const float>();
  args.labels = request_.data.labels.as<const std::int32_t>();
  args.rows = request_.data.rows;
  args.key = request_.key;
  args.gradient_ready = [asker, step, gradients = gradients_](int slot) { caf::anon_send(asker, gradient_ready{step, slot, gradients}); };
  args.done = [me, step] { caf::anon_send(me, compute_finished{step}); };
  plan_->enqueue_step(args);
}

} // namespace troupe::actors
