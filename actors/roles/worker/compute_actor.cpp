// SPDX-License-Identifier: BSD-3-Clause
// The compute actor's handlers.
#include "actors/roles/worker/compute_actor.hpp"

#include <bit>

#include <fmt/format.h>

#include "actors/checkpoint/names.hpp"
#include "actors/errors.hpp"
#include "actors/roles/gradient_norm.hpp"
#include "actors/roles/training_clock.hpp"

namespace troupe::actors {

compute_state::compute_state(measured_pointer<device_compute_actor> self, compute_setup setup)
    : self_(self), queue_(std::move(setup.queue)), foreign_(setup.net->computed_by() != nullptr),
      floats_(setup.net->layout().floats()), row_predictions_(foreign_ ? 1 : setup.net->row_predictions()), held_(*queue_),
      replica_(*queue_, setup.local_optimizer, floats_, &held_, update_ranges(setup.net->layout(), {0, floats_})),
      clip_norm_(setup.local_optimizer.clip_norm), clips_pushes_(setup.clips_pushes),
      gradient_blocks_([queue = queue_](std::size_t bytes) { return queue->allocate(bytes); }),
      kept_{setup.worker, setup.life, setup.keeps_replica, std::move(setup.checkpoints), std::move(setup.saved), {}} {
  replica_.resume(setup.start);
  end_with_reason(*self, std::string{queue_->name()});
  const bool device = !queue_->on_host();
  plan_ = value_or_throw(plan::compile(*setup.net, *queue_,
                                       {.max_rows = setup.max_rows,
                                        .piece_rows = setup.piece_rows,
                                        .training = true,
                                        .capture = device,
                                        .report_bytes = device ? setup.report_bytes : 0,
                                        .recompute = setup.recompute,
                                        .factors = setup.factors,
                                        .worker = static_cast<std::int32_t>(setup.worker)}));
  end_with_reason(*self, std::string{queue_->name()},
                  fmt::format("parameters and gradients of {} bytes each, and a workspace of {} bytes for {} rows",
                              plan_->cost().parameter_bytes, plan_->cost().workspace_bytes, setup.max_rows));
  if (setup.factors)
    factor_bytes_ =
        static_cast<std::size_t>(factor_floats(find_factored(*setup.net, setup.max_rows), setup.max_rows)) * sizeof(float);
  if (device)
    inputs_.emplace(*queue_, held_, setup.max_rows, setup.net->sample().elements(), setup.net->label_shape().elements());
}

device_compute_actor::behavior_type compute_state::make_behavior() {
  self_->name_thread(fmt::format("compute {}", kept_.worker));
  return {
      [this](const compute_request& request) { return begin(request); },
      [this](const ahead_request& msg) { go_ahead(msg); },
      [this](const step_request& msg) { replica_.step(msg.gradient, msg.how); },
      [this](const mix_request& msg) { replica_.mix(msg.terms, msg.where); },
      [this](const dual_request& msg) { replica_.dual_step(msg.anchor, msg.rho); },
      [this](const sum_request& msg) { return sum(msg); },
      [this](const keep_request& msg) { keep(msg); },
      [this](compute_finished msg) {
        held_.passed(msg.mark);
        if (msg.step == no_step)
          sum_done();
        else if (msg.summed)
          finish();
        else
          part_done();
      },
      // only on a device
      [this](const upload_request& msg) {
        if (msg.from_host)
          queue_->upload(msg.to.data(), msg.from.data(), msg.from.bytes());
        else
          queue_->copy(msg.to.data(), msg.from.data(), msg.from.bytes());
        held_.keep(msg.to);
        held_.keep(msg.from);
      },
      [this](const prefetch_request& msg) { inputs_->prefetch(msg.data); },
      [this](const download_request& msg) {
        queue_->download(msg.to.data(), msg.from.data(), msg.from.bytes(), [msg] { msg.done(); });
      },
      [this](replica_copied) { write_copied(); },
      [this](device_check) { watch_.check(&*self_, *queue_, promise_.pending() || !sums_.empty()); },
      [this](const inspect_query&) { return report(); },
  };
}

/// The worker has nothing else under way; if it asks for another step nevertheless, the plan begins that one anew.
void compute_state::go_ahead(const ahead_request& msg) {
  if (promise_.pending())
    return;
  const auto began_ns = steady_ns();
  if (!ahead_.gradient)
    ahead_.gradient = queue_->allocate(static_cast<std::size_t>(floats_) * sizeof(float));
  if (!is_ahead(msg.parameters, msg.data))
    ahead_.spent_ns = 0;
  ahead_.of = msg;
  auto args = args_of(msg.parameters, msg.data, msg.seed);
  args.gradients = ahead_.gradient.as<float>();
  plan_->enqueue_ahead(args, msg.there);
  ahead_.spent_ns += steady_ns() - began_ns;
}

caf::result<compute_result> compute_state::begin(const compute_request& request) {
  asker_ = caf::actor_cast<worker_actor>(self_->current_sender()); // a promise takes it along
  promise_ = self_->make_response_promise<compute_result>();
  request_ = request;
  if (request_.own)
    request_.parameters = replica_.parameters_for(*request_.own);
  else
    replica_.forget_momentum();
  done_ = {};
  done_.step = request.step;
  if (request_.parts.size() == 1 && is_ahead(request_.parameters, request_.parts.front().data))
    done_.ahead_ns = ahead_.spent_ns;
  ahead_.of = {};
  parts_done_ = 0;
  started_ns_ = steady_ns() - done_.ahead_ns;
  self_->doing.again("computes");
  enqueue_part();
  watch_.begin(&*self_, *queue_);
  return promise_;
}

caf::result<sum_result> compute_state::sum(const sum_request& msg) {
  pending_sum next{self_->make_response_promise<sum_result>(), replica_.sum(msg.terms), queue_->allocate(kernels::alignment),
                   queue_->allocate_host(sizeof(std::int32_t))};
  queue_->enqueue(kernels::all_finite{.x = next.sum.as<const float>(), .count = floats_, .flag = next.flag.as<std::int32_t>()});
  queue_->copy_to_host(next.finite.data(), next.flag.data(), sizeof(std::int32_t));
  // High priority, ahead of a step that may be next in the mailbox: the sum should not wait for that.
  notify({no_step}, true);
  sums_.push_back(std::move(next));
  watch_.begin(&*self_, *queue_);
  return sums_.back().promise;
}

void compute_state::keep(const keep_request& msg) {
  auto out = std::make_shared<role_snapshot>(
      file_saved{.of_worker = true, .index = kept_.worker, .incarnation = kept_.life, .ver = msg.ver}, flat_range{0, floats_},
      *queue_);
  out->copy(replica_.momentum());
  if (kept_.whole)
    out->copy(replica_.itself());
  if (!msg.replica.empty()) {
    out->share(replica_name, replica_.mean(msg.replica));
    out->number(weight_name, std::bit_cast<std::int64_t>(msg.weight));
    out->number(position_name, static_cast<std::int64_t>(msg.position));
    out->number(open_samples_name, msg.open.samples);
    out->number(open_loss_name, std::bit_cast<std::int64_t>(msg.open.loss));
    out->number(open_ignored_name, std::bit_cast<std::int64_t>(msg.open.ignored));
    out->number(open_not_finite_name, msg.open.finite ? 0 : 1);
  }
  for (const auto& [name, block] : msg.of_worker)
    out->add(name, block);
  out->number("optimizer.steps", replica_.momentum_steps());
  kept_.copying.push_back(std::move(out));
  queue_->notify([me = device_compute_actor{self_}] { caf::anon_send(me, replica_copied{}); });
}

void compute_state::write_copied() {
  write_behind(self_->home_system(), std::move(kept_.copying.front()), kept_.dir, kept_.saved);
  kept_.copying.pop_front();
}

/// Sends `msg` to itself once everything enqueued has run.
void compute_state::notify(compute_finished msg, bool first) {
  msg.mark = held_.mark();
  queue_->notify([me = compute_actor{self_}, msg, first] {
    if (first)
      caf::anon_send<caf::message_priority::high>(me, msg);
    else
      caf::anon_send(me, msg);
  });
}

/// Without where its gradient goes, and whom it tells.
step_args compute_state::args_of(const kernels::buffer& parameters, const batch& data, std::uint64_t seed) {
  step_args args;
  args.parameters = parameters.as<const float>();
  const auto* x = &data.x;
  const auto* labels = &data.labels;
  if (inputs_) {
    const auto& place = inputs_->use(data);
    x = &place.x;
    labels = &place.labels;
    args.staged = true;
  }
  args.x = x->data();
  args.labels = labels->data();
  args.rows = data.rows;
  args.counted = data.counted;
  args.key = {.seed = seed, .step = data.place};
  return args;
}

void compute_state::enqueue_part() {
  const auto& part = request_.parts[parts_done_];
  bool alone = request_.parts.size() == 1 && part.weight == 1 && !request_.own;
  const auto bytes = static_cast<std::size_t>(floats_) * sizeof(float);
  gradient_ = inputs_           ? gradient_blocks_.take(bytes)
              : ahead_.gradient ? std::exchange(ahead_.gradient, {})
                                : queue_->allocate(bytes);
  // Callbacks may come on a device thread: they only send messages.
  auto me = compute_actor{self_};
  auto step = request_.step;
  auto args = args_of(request_.parameters, part.data, request_.seed);
  args.gradients = gradient_.as<float>();
  if (foreign_)
    args.blocks = {request_.parameters, gradient_, part.data.x};
  if (alone && factor_bytes_ > 0) {
    done_.factors = {queue_->allocate(factor_bytes_), part.data.rows};
    args.factors = done_.factors.block.as<float>();
  }
  if (alone) {
    const auto predictions = part.data.rows * row_predictions_;
    const step_outcome known{.rows = part.data.rows, .predictions = predictions, .counted = part.data.counted};
    args.gradient_ready = [asker = asker_, step, gradients = gradient_, factors = done_.factors, rows = known.rows,
                           ignored = known.ignored_rows()](int slot) {
      caf::anon_send(asker, gradient_ready{step, slot, gradients, factors, rows, ignored});
    };
  }
  args.done = [me, step, mark = held_.mark()] { caf::anon_send(me, compute_finished{step, mark}); };
  plan_->enqueue_step(args);
  if (inputs_ && parts_done_ + 1 < request_.parts.size())
    inputs_->prefetch(request_.parts[parts_done_ + 1].data);
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
  done_.counted += outcome.counted;
  done_.ignored += outcome.ignored_rows();
  done_.finite = done_.finite && outcome.finite;
  const bool summing = parts_done_ > 0 || weight != 1;
  if (!summing) {
    done_.gradients = std::move(gradient_);
  } else {
    std::vector<kernels::term> terms;
    if (parts_done_ == 0)
      done_.gradients = queue_->allocate(gradient_.bytes());
    else
      terms.push_back({done_.gradients.as<const float>(), 1});
    terms.push_back({gradient_.as<const float>(), weight});
    queue_->enqueue(kernels::weighted_sum{.terms = terms, .y = done_.gradients.as<float>(), .count = floats_});
    held_.keep(gradient_);
  }
  if (++parts_done_ < request_.parts.size())
    enqueue_part();
  else if (is_clipped() && inputs_)
    copy_to_measure();
  else if (inputs_ && summing && !request_.own) // the sum is read at once; the replica's step is enqueued behind it
    notify({.step = request_.step, .summed = true});
  else
    finish();
}

void compute_state::copy_to_measure() {
  if (!on_host_)
    on_host_ = queue_->allocate_host(done_.gradients.bytes());
  queue_->copy_to_host(on_host_.data(), done_.gradients.data(), done_.gradients.bytes());
  notify({.step = request_.step, .summed = true});
}

actor_report compute_state::report() const {
  auto out = self_->report();
  out.fields = {{"step", std::to_string(done_.step)}, {"device", std::string{queue_->name()}}};
  return out;
}

void compute_state::finish() {
  if (done_.counted > 0)
    done_.loss /= static_cast<double>(done_.counted);
  gradient_ = {};
  if (is_clipped())
    done_.squares = squares_of((on_host_ ? on_host_ : done_.gradients).as<const float>(), replica_.ranges(), clip_norm_);
  done_.compute_ns = steady_ns() - started_ns_;
  self_->doing.enter("idle");
  request_ = {};
  asker_ = nullptr;
  promise_.deliver(std::move(done_));
}

} // namespace troupe::actors
