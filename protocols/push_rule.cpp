// SPDX-License-Identifier: BSD-3-Clause
// The mechanics of pushes that are applied alone.
#include "protocols/push_rule.hpp"

#include <algorithm>

namespace troupe::protocols {

rule_effects push_rule::on(const plan& msg) {
  if (msg.epoch <= plan_.epoch)
    return {};
  plan_ = msg;
  std::erase_if(dead_, [this](member who) { return !plan_.has(who); });
  rule_effects out;
  for (auto at = workers_.begin(); at != workers_.end();)
    if (plan_.has(at->first)) {
      ++at;
    } else {
      left(out, at->first);
      at = workers_.erase(at);
    }
  const std::uint64_t clock = slowest();
  for (const member& who : plan_.workers)
    if (!dead_.contains(who))
      workers_.try_emplace(who, progress{.clock = clock});
  answer_waiting(out);
  return out;
}

rule_effects push_rule::on(const push& msg) {
  now_ = std::max(now_, msg.at);
  const member from{msg.id.worker, msg.id.life};
  const auto found = workers_.find(from);
  if (found == workers_.end() || found->second.waits) {
    report why{.what = report::kind::push_refused, .ver = msg.base, .worker = from.worker};
    why.text = found == workers_.end() ? "its worker takes no part" : "its worker has pushed already and was not answered yet";
    return {discard{msg.gradient}, std::move(why)};
  }
  rule_effects out;
  progress& worker = found->second;
  worker.waits = true;
  worker.answers = msg.id.clock;
  ++worker.clock;
  const progress before = worker;
  if (msg.finite && msg.samples > 0 && answers_first())
    answer_waiting(out);
  apply_push(out, msg, before);
  answer_waiting(out);
  return out;
}

rule_effects push_rule::on(const worker_down& msg) {
  const member gone{msg.worker, msg.life};
  if (plan_.has(gone))
    dead_.insert(gone);
  rule_effects out;
  if (workers_.erase(gone) > 0)
    left(out, gone);
  answer_waiting(out);
  return out;
}

/// `worker`: as it was when the push came.
void push_rule::apply_push(rule_effects& out, const push& what, const progress& worker) {
  const member from{what.id.worker, what.id.life};
  if (!what.finite || what.samples == 0) {
    out.emplace_back(discard{what.gradient});
    if (!what.finite)
      out.emplace_back(report{.what = report::kind::push_not_finite, .ver = what.base, .worker = from.worker});
    return;
  }
  const std::uint64_t staleness = version_.value - worker.base.value;
  version_ = next(version_);
  const step_rule step = step_of(what);
  out.emplace_back(apply{.sum = {{what.gradient, step.what == step_rule::kind::linear ? what.weight : 1}},
                         .ver = version_,
                         .epoch = plan_.epoch,
                         .workers = static_cast<std::uint32_t>(plan_.workers.size()),
                         .step = step,
                         .samples = what.samples,
                         .compensate = compensation_of(from)});
  report made{.what = report::kind::round_closed, .ver = version_, .worker = from.worker, .loss = what.loss, .contributions = 1};
  made.staleness = staleness;
  made.compute = what.compute;
  made.at = now_;
  made.timings = {{from.worker, what.compute, what.at - worker.sent, what.samples}};
  out.emplace_back(std::move(made));
}

/// Sends to everybody that waits and may go on: in worker order.
void push_rule::answer_waiting(rule_effects& out) {
  for (auto& [who, worker] : workers_) {
    if (!worker.waits || !may_go(who))
      continue;
    worker.waits = false;
    worker.base = version_;
    worker.sent = now_;
    sent(out, who);
    out.emplace_back(send_params{.to = {who.worker},
                                 .ver = version_,
                                 .epoch = plan_.epoch,
                                 .position = position_,
                                 .period = plan_.period,
                                 .answers = worker.answers});
    for (std::uint32_t step = 0; step < plan_.period; ++step)
      position_ = plan_.after(position_, 1);
  }
}

step_rule push_rule::step_of(const push& what) const {
  const double whole = static_cast<double>(plan_.batch) * static_cast<double>(plan_.workers.size());
  return {.lr_scale = static_cast<double>(what.samples) / whole};
}

std::uint64_t push_rule::slowest() const {
  std::uint64_t out = 0;
  bool first = true;
  for (const auto& [who, worker] : workers_) {
    out = first ? worker.clock : std::min(out, worker.clock);
    first = false;
  }
  return out;
}

std::vector<worker_id> push_rule::waiting_for() const {
  std::vector<worker_id> out;
  for (const auto& [who, worker] : workers_)
    if (!worker.waits)
      out.push_back(who.worker);
  return out;
}

} // namespace troupe::protocols
