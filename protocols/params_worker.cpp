// SPDX-License-Identifier: BSD-3-Clause
// The engine of a worker that answers parameters with pushes.
#include "protocols/params_worker.hpp"

#include <iterator>
#include <utility>

#include "kernels/assert.hpp"

namespace troupe::protocols {

params_worker::params_worker(member self, task_maker make, bool once_a_version)
    : self_(self), make_(std::move(make)), once_a_version_(once_a_version) {}

worker_effects params_worker::on(const plan& msg) {
  if (newest_ && msg.epoch < newest_->epoch)
    return {};
  plans_.try_emplace(msg.epoch, msg);
  if (newest_ && is_of_older_incarnation(*newest_))
    newest_.reset();
  return begin_if_ready();
}

worker_effects params_worker::on(const params& msg) {
  if (is_of_older_incarnation(msg) || !is_newer(msg))
    return {};
  newest_ = msg;
  begun_newest_ = false;
  std::erase_if(plans_, [&msg](const auto& entry) { return entry.first < msg.epoch; });
  return begin_if_ready();
}

/// Parameters for an earlier incarnation: their plan lacks this one, or is older than the first plan that it heard.
bool params_worker::is_of_older_incarnation(const params& msg) const {
  if (plans_.empty())
    return false;
  const auto known = plans_.find(msg.epoch);
  return known == plans_.end() ? msg.epoch < plans_.begin()->first : !known->second.has(self_);
}

/// The same version comes again under a new plan if a round restarted.
bool params_worker::is_newer(const params& msg) const {
  if (!newest_ || msg.epoch != newest_->epoch)
    return !newest_ || msg.epoch > newest_->epoch;
  return once_a_version_ ? msg.ver > newest_->ver : msg.key > newest_->key;
}

worker_effects params_worker::on(const computed& msg) {
  if (!computing_ || msg.step != steps_)
    return {};
  computing_ = false;
  worker_effects out = task_->on(msg);
  note(out);
  worker_effects more = begin_if_ready();
  out.insert(out.end(), std::make_move_iterator(more.begin()), std::make_move_iterator(more.end()));
  return out;
}

worker_effects params_worker::begin_if_ready() {
  if (computing_ || !newest_ || begun_newest_)
    return {};
  const auto known = plans_.find(newest_->epoch);
  if (known == plans_.end() || !known->second.has(self_))
    return {};
  const plan& plan = known->second;
  if (!task_ || task_protocol_ != plan.protocol) {
    task_ = make_(plan.protocol);
    task_protocol_ = plan.protocol;
    if (std::exchange(has_replica_, false))
      task_->has_replica();
  }
  begun_newest_ = true;
  clock_ = {clock_.value + 1};
  worker_effects out = task_->begin(
      plan, *newest_, push{.epoch = newest_->epoch, .id = {self_.worker, self_.incarnation, clock_}, .base = newest_->ver});
  note(out);
  return out;
}

/// Steps are numbered consecutively across tasks; the number comes back in `computed`.
void params_worker::note(worker_effects& effects) {
  for (worker_effect& effect : effects) {
    auto* local = std::get_if<local_step>(&effect);
    if (auto* gradient = local != nullptr ? &local->gradient : std::get_if<compute>(&effect)) {
      gradient->step = ++steps_;
      computing_ = true;
    }
  }
}

void params_worker::check() const {
  TROUPE_ASSERT(!begun_newest_ || newest_);
  TROUPE_ASSERT(!computing_ || task_);
  TROUPE_ASSERT(!newest_ || plans_.empty() || plans_.begin()->first >= newest_->epoch);
}

void accumulate(push& total, const computed& msg) {
  total.samples += msg.samples;
  total.ignored += msg.ignored;
  total.compute += msg.compute;
  total.finite = total.finite && msg.finite;
  if (msg.counted() > 0)
    total.loss += (msg.loss - total.loss) * msg.counted() / total.counted();
}

worker_effects gradient_task::begin(const plan& plan, const params& msg, const push& draft) {
  open_ = draft;
  compute gradient{.position = msg.position, .parts = {{0, 1}}, .stream_as = draft};
  if (!own_slice_) {
    gradient.batches = gradient.cuts = static_cast<std::uint32_t>(plan.workers.size());
    gradient.parts = {{static_cast<std::uint32_t>(plan.rank_of(draft.id.worker)), 1}};
  }
  return {adopt{msg.ver, msg.parameters}, std::move(gradient)};
}

worker_effects gradient_task::on(const computed& msg) {
  accumulate(open_, msg);
  open_.gradient = msg.gradient;
  open_.squares = msg.squares;
  return {send_push{open_}};
}

} // namespace troupe::protocols
