// SPDX-License-Identifier: BSD-3-Clause
// The compute actor's handlers.
#include "actors/compute_actor.hpp"

#include "actors/errors.hpp"
#include "actors/training_clock.hpp"

namespace troupe::actors {

compute_state::compute_state(compute_actor::stateful_pointer<compute_state> self, std::shared_ptr<kernels::backend> queue,
                             std::shared_ptr<const model> net, const optimizer_spec& local_optimizer, std::int64_t max_rows)
    : self_(self), queue_(std::move(queue)), floats_(net->layout().floats()), replica_(*queue_, local_optimizer, floats_) {
  end_with_reason(*self);
  plan_ = value_or_throw(plan::compile(*net, *queue_, {.max_rows = max_rows, .training = true}));
}

compute_actor::behavior_type compute_state::make_behavior() {
  return {
    [this](const compute_request& request) -> caf::result<compute_result> {
      promise_ = self_->make_response_promise<compute_result>();
      request_ = request;
      asker_ = caf::actor_cast<worker_actor>(self_->current_sender());
      if (request_.update)
        request_.parameters = replica_.parameters();
      else
        replica_.forget_momentum();
      done_ = {};
      done_.step = request.step;
      parts_done_ = 0;
      started_ns_ = steady_ns();
      enqueue_part();
      return promise_;
    },
    [this](const mix_request& msg) {
      replica_.mix(msg.terms);
      mixed_.insert(mixed_.end(), msg.terms.begin(), msg.terms.end());
    },
    [this](const dual_request& msg) { replica_.dual_step(msg.anchor, msg.rho); },
    [this](const sum_request& msg) -> caf::result<sum_result> {
      pending_sum next{self_->make_response_promise<sum_result>(), replica_.sum(msg.terms), msg.terms,
                       queue_->allocate(sizeof(std::int32_t)), queue_->allocate_host(sizeof(std::int32_t))};
      queue_->all_finite(next.sum.as<const float>(), floats_, next.flag.as<std::int32_t>());
      queue_->copy_to_host(next.finite.data(), next.flag.data(), sizeof(std::int32_t));
      // Before the step that may be next in the mailbox: whoever gets the sum is not to wait for that.
      queue_->notify([me = compute_actor{self_}] { caf::anon_send<caf::message_priority::high>(me, compute_finished{no_step}); });
      sums_.push_back(std::move(next));
      return sums_.back().promise;
    },
    [this](compute_finished msg) {
      if (msg.step != no_step)
        part_done();
      else
        sum_done();
    },
  };
}

void compute_state::enqueue_part() {
  const auto& part = request_.parts[parts_done_];
  bool alone = request_.parts.size() == 1 && part.weight == 1 && !request_.update;
  gradient_ = queue_->allocate(static_cast<std::size_t>(floats_) * sizeof(float));
  // The callbacks may come on a thread of the device: they only send messages.
  auto me = compute_actor{self_};
  auto step = request_.step;
  step_args args;
  args.parameters = request_.parameters.as<const float>();
  args.gradients = gradient_.as<float>();
  args.x = part.data.x.as<const float>();
  args.labels = part.data.labels.as<const std::int32_t>();
  args.rows = part.data.rows;
  args.key = request_.key;
  if (alone)
    args.gradient_ready = [asker = asker_, step, gradients = gradient_](int slot) {
      caf::anon_send(asker, gradient_ready{step, slot, gradients});
    };
  args.done = [me, step] { caf::anon_send(me, compute_finished{step}); };
  plan_->enqueue_step(args);
}

void compute_state::sum_done() {
  auto done = std::move(sums_.front());
  sums_.pop_front();
  done.promise.deliver(sum_result{std::move(done.sum), *done.finite.as<std::int32_t>() != 0});
}

/// Adds the part to the sum, in the order of the parts.
void compute_state::part_done() {
  const auto& outcome = plan_->outcome();
  auto weight = request_.parts[parts_done_].weight;
  done_.loss += outcome.loss_sum; // a sum until the end
  done_.rows += outcome.rows;
  done_.finite = done_.finite && outcome.finite;
  if (parts_done_ == 0 && weight == 1) {
    done_.gradients = std::move(gradient_);
  } else {
    std::vector<kernels::term> terms;
    if (parts_done_ == 0)
      done_.gradients = queue_->allocate(gradient_.bytes());
    else
      terms.push_back({done_.gradients.as<const float>(), 1});
    terms.push_back({gradient_.as<const float>(), weight});
    queue_->weighted_sum(terms, done_.gradients.as<float>(), floats_);
  }
  if (++parts_done_ < request_.parts.size())
    enqueue_part();
  else
    finish();
}

void compute_state::finish() {
  if (done_.rows > 0)
    done_.loss /= static_cast<double>(done_.rows);
  if (request_.update) {
    if (done_.finite) // else the replica stays as it is
      replica_.step(done_.gradients, *request_.update);
    done_.gradients = {};
  }
  done_.compute_ns = steady_ns() - started_ns_;
  request_ = {};
  mixed_.clear();
  asker_ = nullptr;
  promise_.deliver(std::move(done_));
}

} // namespace troupe::actors
