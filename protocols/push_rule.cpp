// SPDX-License-Identifier: BSD-3-Clause
// The engine of protocols that apply each push alone.
#include "protocols/push_rule.hpp"

#include <algorithm>
#include <utility>

#include "kernels/assert.hpp"

namespace troupe::protocols {

rule_effects push_rule::on(const plan& msg) {
  if (msg.epoch <= state_.plan.epoch)
    return {};
  state_.plan = msg;
  std::erase_if(state_.dead, [this](member who) { return !state_.plan.has(who); });
  rule_effects out;
  std::vector<member> gone;
  for (const auto& [who, worker] : state_.workers)
    if (!state_.plan.has(who))
      gone.push_back(who);
  for (const member& who : gone) {
    left(out, who);
    forget(who);
  }
  const std::uint64_t clock = slowest();
  for (const member& who : state_.plan.workers)
    if (!state_.dead.contains(who) && !state_.workers.contains(who))
      join(who, clock);
  answer_waiting(out);
  return out;
}

rule_effects push_rule::on(const push& msg) {
  state_.now = std::max(state_.now, msg.at);
  const member from{msg.id.worker, msg.id.incarnation};
  const auto found = state_.workers.find(from);
  if (found == state_.workers.end() || found->second.waits) {
    report why{.event = report::kind::push_refused, .ver = msg.base, .worker = from.worker};
    why.text =
        found == state_.workers.end() ? "its worker takes no part" : "its worker has pushed already and was not answered yet";
    return {discard{msg.gradient}, std::move(why)};
  }
  rule_effects out;
  const progress before = found->second;
  found->second.last_clock = msg.id.clock;
  wait(from);
  if (msg.finite && msg.samples > 0 && answers_first())
    answer_waiting(out);
  apply_push(out, msg, before);
  answer_waiting(out);
  return out;
}

rule_effects push_rule::on(const worker_down& msg) {
  const member gone{msg.worker, msg.incarnation};
  if (state_.plan.has(gone))
    state_.dead.insert(gone);
  rule_effects out;
  if (state_.workers.contains(gone)) {
    left(out, gone);
    forget(gone);
  }
  answer_waiting(out);
  return out;
}

void push_rule::join(member who, std::uint64_t clock) {
  state_.workers.emplace(who, progress{.clock = clock});
  ++clocks_[clock];
  waiting_.insert(who);
  fresh_.push_back(who);
}

void push_rule::forget(member who) {
  const auto count = clocks_.find(state_.workers.at(who).clock);
  if (--count->second == 0)
    clocks_.erase(count);
  state_.workers.erase(who);
  waiting_.erase(who);
}

/// It has pushed again.
void push_rule::wait(member who) {
  progress& worker = state_.workers.at(who);
  worker.waits = true;
  ++clocks_[worker.clock + 1];
  if (const auto count = clocks_.find(worker.clock); --count->second == 0)
    clocks_.erase(count);
  ++worker.clock;
  waiting_.insert(who);
  fresh_.push_back(who);
}

/// `worker`: as it was when the push came.
void push_rule::apply_push(rule_effects& out, const push& msg, const progress& worker) {
  const member from{msg.id.worker, msg.id.incarnation};
  if (!msg.finite || msg.samples == 0) {
    out.emplace_back(discard{msg.gradient});
    if (!msg.finite)
      out.emplace_back(report{.event = report::kind::push_not_finite, .ver = msg.base, .worker = from.worker});
    return;
  }
  const std::uint64_t staleness = state_.made.value - worker.base.value;
  state_.made = next(state_.made);
  const step_rule step = step_of(msg);
  out.emplace_back(apply{.sum = {{msg.gradient, step.method == step_rule::kind::linear ? msg.weight : 1}},
                         .ver = state_.made,
                         .epoch = state_.plan.epoch,
                         .workers = static_cast<std::uint32_t>(state_.plan.workers.size()),
                         .step = step,
                         .samples = msg.samples,
                         .compensate = compensation_of(from)});
  report made{
      .event = report::kind::round_closed, .ver = state_.made, .worker = from.worker, .loss = msg.loss, .contributions = 1};
  made.staleness = staleness;
  made.compute = msg.compute;
  made.at = state_.now;
  made.timings = {{from.worker, msg.compute, msg.at - worker.sent, msg.samples}};
  out.emplace_back(std::move(made));
}

/// Sends to each worker that waits and may go on, in worker order. While the slowest clock is unchanged, workers that had to wait
/// must wait on and are not asked about again.
void push_rule::answer_waiting(rule_effects& out) {
  const bool moved = std::exchange(state_.asked_at, slowest()) != slowest();
  const std::vector<member> asked = moved ? std::vector<member>(waiting_.begin(), waiting_.end()) : fresh_;
  fresh_.clear();
  for (const member& who : asked) {
    if (!may_go(who))
      continue;
    progress& worker = state_.workers.at(who);
    waiting_.erase(who);
    worker.waits = false;
    worker.base = state_.made;
    worker.sent = state_.now;
    sent(out, who);
    const std::uint32_t slices = slices_for(worker);
    out.emplace_back(send_params{.to = {who.worker},
                                 .ver = state_.made,
                                 .epoch = state_.plan.epoch,
                                 .position = state_.position,
                                 .period = slices,
                                 .answers = worker.last_clock});
    for (std::uint32_t step = 0; step < slices; ++step)
      state_.position = state_.plan.after(state_.position, 1);
  }
}

step_rule push_rule::step_of(const push& msg) const {
  const double whole = static_cast<double>(state_.plan.batch) * static_cast<double>(state_.plan.workers.size());
  return {.lr_scale = msg.counted() / whole, .squares = msg.squares};
}

rule_state push_rule::state() const {
  push_rule_state out = state_;
  out.memory = memory();
  return out;
}

void push_rule::restore(const rule_state& from) {
  const auto* known = std::get_if<push_rule_state>(&from);
  if (known == nullptr)
    return;
  state_ = *known;
  state_.memory.clear();
  clocks_.clear();
  waiting_.clear();
  for (const auto& [who, worker] : state_.workers) {
    ++clocks_[worker.clock];
    if (worker.waits)
      waiting_.insert(who);
  }
  remember(known->memory);
}

void push_rule::check() const {
  std::size_t counted = 0;
  for (const auto& [clock, count] : clocks_) {
    TROUPE_ASSERT(count > 0);
    counted += count;
  }
  TROUPE_ASSERT(counted == state_.workers.size());
  for (const auto& [who, worker] : state_.workers) {
    TROUPE_ASSERT(state_.plan.has(who) && !state_.dead.contains(who));
    TROUPE_ASSERT(worker.waits == waiting_.contains(who));
    TROUPE_ASSERT(worker.base <= state_.made);
  }
  TROUPE_ASSERT(fresh_.empty());
}

std::vector<worker_id> push_rule::waiting_for() const {
  std::vector<worker_id> out;
  for (const auto& [who, worker] : state_.workers)
    if (!worker.waits)
      out.push_back(who.worker);
  return out;
}

} // namespace troupe::protocols
