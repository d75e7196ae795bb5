// SPDX-License-Identifier: BSD-3-Clause
// The worker's handlers.
#include "actors/worker_actor.hpp"

#include "actors/errors.hpp"
#include "actors/overloaded.hpp"

#include <stdexcept>

#include <fmt/format.h>

namespace troupe::actors {

namespace {

/// More would mean that a plan is not coming; parameters beyond are dropped and the plan's round will send them again.
constexpr std::size_t max_parked = 4096;

bool overlap(const flat_range& a, const flat_range& b) { return a.begin < b.end && b.begin < a.end; }

} // namespace

worker_state::worker_state(worker_actor::stateful_pointer<worker_state> self, worker_setup setup)
    : self_(self), setup_(std::move(setup)) {
  end_with_reason(*self);
  const auto& slots = setup_.net->layout().slots;
  partitions_of_slot_.resize(slots.size());
  for (std::size_t t = 0; t < setup_.targets.size(); ++t) {
    const auto& partitions = setup_.targets[t].partitions;
    auto& counts = slots_per_partition_.emplace_back(partitions.size(), 0);
    for (std::size_t p = 0; p < partitions.size(); ++p)
      for (std::size_t s = 0; s < slots.size(); ++s)
        if (overlap(partitions[p], {slots[s].offset, slots[s].offset + slots[s].elements()})) {
          ++counts[p];
          partitions_of_slot_[s].emplace_back(t, p);
        }
  }
  // They live and die together: without its compute actor or loader a worker is no worker, and its node reports the reason.
  self->link_to(setup_.compute);
  self->link_to(setup_.loader);
}

worker_actor::behavior_type worker_state::make_behavior() {
  return {
    [this](const wire::params_part& head, const kernels::buffer& payload) { on_params(head, payload); },
    [this](const peers_ptr& peers) { peers_ = peers; },
    [this](const protocols::plan& msg) {
      if (plan_.epoch >= msg.epoch && plan_.epoch.value != 0)
        return;
      plan_ = msg;
      perform(setup_.machine->on(msg));
      for (auto& [head, payload] : std::exchange(parked_, {}))
        on_params(head, payload);
    },
    [this](const gradient_ready& msg) { on_gradient(msg); },
  };
}

void worker_state::on_params(const wire::params_part& head, const kernels::buffer& payload) {
  if (head.what.epoch > plan_.epoch) {
    if (parked_.size() < max_parked)
      parked_.emplace_back(head, payload);
    return;
  }
  setup_.landing->add(head.what.ver, {head.where.begin, head.where.end}, payload);
  auto whole = setup_.landing->take(head.what.ver);
  if (!whole)
    return;
  setup_.landing->drop_if([ver = head.what.ver](protocols::version other) { return other < ver; });
  auto msg = head.what;
  msg.parameters = store_.keep(std::move(*whole));
  if (auto [known, fresh] = parameters_.emplace(msg.ver, msg.parameters); !fresh) {
    store_.drop(msg.parameters); // the same version again, under a newer plan perhaps
    msg.parameters = known->second;
  }
  perform(setup_.machine->on(msg));
}

void worker_state::perform(const protocols::worker_effects& effects) {
  auto not_yet = [](const char* verb) { throw std::logic_error(fmt::format("{}: no protocol that needs it is built yet", verb)); };
  for (const auto& effect : effects)
    std::visit(overloaded{
                 [this](const protocols::compute& e) { begin(e); },
                 [this](const protocols::adopt& e) {
                   current_ = e.ver;
                   while (parameters_.begin()->first < e.ver) {
                     store_.drop(parameters_.begin()->second);
                     parameters_.erase(parameters_.begin());
                   }
                 },
                 [this](const protocols::send_push& e) { push(e.what); },
                 [&](const protocols::local_step&) { not_yet("local_step"); },
                 [&](const protocols::mix&) { not_yet("mix"); },
                 [&](const protocols::elastic&) { not_yet("elastic"); },
                 [&](const protocols::dual&) { not_yet("dual"); },
                 [&](const protocols::encode&) { not_yet("encode"); },
                 [&](const protocols::send_peer&) { not_yet("send_peer"); },
                 [&](const protocols::arm_timer&) { not_yet("arm_timer"); },
                 [](const protocols::report&) {},
               },
               effect);
}

slice worker_state::slice_at(std::uint64_t position, std::uint32_t cuts, std::uint32_t index) const {
  const step_part part{position, setup_.batch, static_cast<int>(cuts), static_cast<int>(index)};
  return step_rows(setup_.dealt, part, setup_.data_size);
}

void worker_state::begin(const protocols::compute& what) {
  if (what.parts.size() != 1 || what.parts.front().weight != 1)
    throw std::logic_error("several parts: no protocol that needs them is built yet");
  step_.what = what;
  step_.rows = slice_at(what.position, what.cuts, what.parts.front().index);
  step_.slots_missing = slots_per_partition_;
  if (step_.rows.size() == 0) { // a short last batch may leave nothing for this worker: its clock goes on all the same
    perform(setup_.machine->on(protocols::computed{.step = what.step}));
    return;
  }
  if (next_batch_ && next_batch_->where == step_.rows)
    compute(*std::exchange(next_batch_, std::nullopt));
  else
    load(step_.rows);
}

/// Asks for a batch; what comes is computed with at once if the step waits for it, else kept for the next step.
void worker_state::load(const slice& rows) {
  if (asked_for_ == rows)
    return;
  asked_for_ = rows;
  self_->request(setup_.loader, caf::infinite, rows).then([this](loaded_batch& loaded) {
    if (asked_for_ == loaded.where)
      asked_for_.reset();
    if (!step_.computing && loaded.where == step_.rows)
      compute(loaded);
    else
      next_batch_ = std::move(loaded);
  });
}

void worker_state::compute(const loaded_batch& loaded) {
  step_.computing = true;
  compute_request request;
  request.step = step_.what.step;
  request.parameters = store_.find(parameters_.at(current_));
  request.data = loaded.data;
  request.key = {setup_.seed, setup_.self.value, step_.what.step};
  self_->request(setup_.compute, caf::infinite, std::move(request)).then([this](compute_result& result) { on_computed(result); });
  // The next slice under the same plan; another one is loaded when it is asked for.
  auto rows = slice_at(plan_.after(step_.what.position), step_.what.cuts, step_.what.parts.front().index);
  if (rows.size() > 0)
    load(rows);
}

void worker_state::on_gradient(const gradient_ready& msg) {
  if (!step_.computing || msg.step != step_.what.step)
    return;
  for (auto [target, partition] : partitions_of_slot_[static_cast<std::size_t>(msg.slot)])
    if (--step_.slots_missing[target][partition] == 0 && step_.what.stream_as)
      send_partition(target, partition, msg.gradients, *step_.what.stream_as);
}

void worker_state::on_computed(compute_result& result) {
  step_.computing = false;
  auto gradient = store_.keep(std::move(result.gradients));
  perform(setup_.machine->on(protocols::computed{.step = result.step,
                                                 .gradient = gradient,
                                                 .samples = result.rows,
                                                 .loss = result.loss,
                                                 .compute = result.compute_ns,
                                                 .finite = result.finite}));
  // Nobody computes with them any more, and the next step brings its own: their shard may write over them.
  if (auto used = parameters_.find(current_); !step_.computing && used != parameters_.end()) {
    store_.drop(used->second);
    parameters_.erase(used);
  }
}

/// Sends what has not been streamed, and the trailers.
void worker_state::push(const protocols::push& what) {
  auto gradient = store_.find(what.gradient);
  store_.drop(what.gradient);
  bool streamed = step_.what.stream_as && step_.what.stream_as->id == what.id;
  for (std::size_t t = 0; t < setup_.targets.size(); ++t) {
    const auto& target = setup_.targets[t];
    wire::push_end end{target.holder, what, 0};
    end.what.gradient = {};
    if (gradient) {
      end.parts = static_cast<std::uint32_t>(target.partitions.size());
      for (std::size_t p = 0; p < target.partitions.size(); ++p)
        if (!streamed || step_.slots_missing[t][p] != 0)
          send_partition(t, p, gradient, what);
    }
    caf::anon_send(peers_->holders[target.holder.value], end);
  }
}

void worker_state::send_partition(std::size_t target, std::size_t partition, const kernels::buffer& gradients,
                                  const protocols::push& as) const {
  const auto& to = setup_.targets[target];
  auto where = to.partitions[partition];
  caf::anon_send(peers_->holders[to.holder.value], wire::push_part{to.holder, as.epoch, as.id, {where.begin, where.end}},
                 gradients.slice(static_cast<std::size_t>(where.begin) * sizeof(float),
                                 static_cast<std::size_t>(where.size()) * sizeof(float)));
}

} // namespace troupe::actors
