// SPDX-License-Identifier: BSD-3-Clause
// The engine of protocols that apply each push alone.
#include "protocols/push_rule.hpp"

#include <algorithm>
#include <utility>

#include "kernels/assert.hpp"

namespace troupe::protocols {

rule_effects push_rule::on(const plan& msg) {
  if (msg.epoch <= plan_.epoch)
    return {};
  plan_ = msg;
  std::erase_if(dead_, [this](member who) { return !plan_.has(who); });
  rule_effects out;
  std::vector<member> gone;
  for (const auto& [who, worker] : workers_)
    if (!plan_.has(who))
      gone.push_back(who);
  for (const member& who : gone) {
    left(out, who);
    forget(who);
  }
  const std::uint64_t clock = slowest();
  for (const member& who : plan_.workers)
    if (!dead_.contains(who) && !workers_.contains(who))
      join(who, clock);
  answer_waiting(out);
  return out;
}

rule_effects push_rule::on(const push& msg) {
  now_ = std::max(now_, msg.at);
  const member from{msg.id.worker, msg.id.incarnation};
  const auto found = workers_.find(from);
  if (found == workers_.end() || found->second.waits) {
    report why{.event = report::kind::push_refused, .ver = msg.base, .worker = from.worker};
    why.text = found == workers_.end() ? "its worker takes no part" : "its worker has pushed already and was not answered yet";
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
  if (plan_.has(gone))
    dead_.insert(gone);
  rule_effects out;
  if (workers_.contains(gone)) {
    left(out, gone);
    forget(gone);
  }
  answer_waiting(out);
  return out;
}

void push_rule::join(member who, std::uint64_t clock) {
  workers_.emplace(who, progress{.clock = clock});
  ++clocks_[clock];
  waiting_.insert(who);
  fresh_.push_back(who);
}

void push_rule::forget(member who) {
  const auto count = clocks_.find(workers_.at(who).clock);
  if (--count->second == 0)
    clocks_.erase(count);
  workers_.erase(who);
  waiting_.erase(who);
}

/// It has pushed again.
void push_rule::wait(member who) {
  progress& worker = workers_.at(who);
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
  const std::uint64_t staleness = version_.value - worker.base.value;
  version_ = next(version_);
  const step_rule step = step_of(msg);
  out.emplace_back(apply{.sum = {{msg.gradient, step.method == step_rule::kind::linear ? msg.weight : 1}},
                         .ver = version_,
                         .epoch = plan_.epoch,
                         .workers = static_cast<std::uint32_t>(plan_.workers.size()),
                         .step = step,
                         .samples = msg.samples,
                         .compensate = compensation_of(from)});
  report made{.event = report::kind::round_closed, .ver = version_, .worker = from.worker, .loss = msg.loss, .contributions = 1};
  made.staleness = staleness;
  made.compute = msg.compute;
  made.at = now_;
  made.timings = {{from.worker, msg.compute, msg.at - worker.sent, msg.samples}};
  out.emplace_back(std::move(made));
}

/// Sends to each worker that waits and may go on, in worker order. While the slowest clock is unchanged, workers that had to wait
/// must wait on and are not asked about again.
void push_rule::answer_waiting(rule_effects& out) {
  const bool moved = std::exchange(asked_at_, slowest()) != slowest();
  const std::vector<member> asked = moved ? std::vector<member>(waiting_.begin(), waiting_.end()) : fresh_;
  fresh_.clear();
  for (const member& who : asked) {
    if (!may_go(who))
      continue;
    progress& worker = workers_.at(who);
    waiting_.erase(who);
    worker.waits = false;
    worker.base = version_;
    worker.sent = now_;
    sent(out, who);
    const std::uint32_t slices = slices_for(worker);
    out.emplace_back(send_params{.to = {who.worker},
                                 .ver = version_,
                                 .epoch = plan_.epoch,
                                 .position = position_,
                                 .period = slices,
                                 .answers = worker.last_clock});
    for (std::uint32_t step = 0; step < slices; ++step)
      position_ = plan_.after(position_, 1);
  }
}

step_rule push_rule::step_of(const push& msg) const {
  const double whole = static_cast<double>(plan_.batch) * static_cast<double>(plan_.workers.size());
  return {.lr_scale = static_cast<double>(msg.samples) / whole};
}

void push_rule::check() const {
  std::size_t counted = 0;
  for (const auto& [clock, count] : clocks_) {
    TROUPE_ASSERT(count > 0);
    counted += count;
  }
  TROUPE_ASSERT(counted == workers_.size());
  for (const auto& [who, worker] : workers_) {
    TROUPE_ASSERT(plan_.has(who) && !dead_.contains(who));
    TROUPE_ASSERT(worker.waits == waiting_.contains(who));
    TROUPE_ASSERT(worker.base <= version_);
  }
  TROUPE_ASSERT(fresh_.empty());
}

std::vector<worker_id> push_rule::waiting_for() const {
  std::vector<worker_id> out;
  for (const auto& [who, worker] : workers_)
    if (!worker.waits)
      out.push_back(who.worker);
  return out;
}

} // namespace troupe::protocols
