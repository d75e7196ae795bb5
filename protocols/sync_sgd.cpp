// SPDX-License-Identifier: BSD-3-Clause
// Synchronous SGD.
#include "protocols/sync_sgd.hpp"

#include <iterator>

namespace troupe::protocols {

namespace {

bool adds_a_term(const push& part) {
  return part.finite && part.samples > 0;
}

rule_effects refuse(const push& what) {
  return {discard{what.gradient}, report{.what = report::kind::push_discarded, .ver = what.base, .worker = what.id.worker}};
}

void append(rule_effects& out, rule_effects more) {
  out.insert(out.end(), std::make_move_iterator(more.begin()), std::make_move_iterator(more.end()));
}

} // namespace

rule_effects sync_sgd::on(const plan& msg) {
  if (msg.epoch <= newest_.epoch)
    return {};
  newest_ = msg;
  std::erase_if(dead_, [this](member who) { return !newest_.has(who); });
  return live_.empty() ? begin_round() : rule_effects{};
}

rule_effects sync_sgd::on(const push& msg) {
  const member from{msg.id.worker, msg.id.life};
  // Late, foreign or from a dead worker: its round is closed without it. Repeated: it is in already.
  if (msg.epoch != plan_.epoch || msg.base != version_ || !live_.contains(from) || !pushed_.emplace(from, msg).second)
    return refuse(msg);

  rule_effects out;
  if (!msg.finite)
    out.emplace_back(report{.what = report::kind::push_not_finite, .ver = msg.base, .worker = from.worker});
  if (!adds_a_term(msg))
    out.emplace_back(discard{msg.gradient});
  append(out, close_if_full());
  return out;
}

rule_effects sync_sgd::on(const worker_down& msg) {
  const member gone{msg.worker, msg.life};
  // Until the coordinator's next plan the newest one still names the dead: nobody must wait for them in its rounds.
  if (newest_.has(gone))
    dead_.insert(gone);
  if (live_.erase(gone) == 0)
    return {};
  rule_effects out;
  if (auto part = pushed_.extract(gone); part && adds_a_term(part.mapped()))
    out = refuse(part.mapped());
  append(out, close_if_full());
  return out;
}

rule_effects sync_sgd::on(const expired&) {
  return {};
}

std::vector<worker_id> sync_sgd::waiting_for() const {
  std::vector<worker_id> out;
  for (const member& who : live_)
    if (!pushed_.contains(who))
      out.emplace_back(who.worker);
  return out;
}

/// Sends the current version to everybody in the newest plan.
rule_effects sync_sgd::begin_round() {
  plan_ = newest_;
  send_params out{.ver = version_, .epoch = plan_.epoch, .position = position_, .period = plan_.period};
  for (const member& who : plan_.workers)
    if (!dead_.contains(who)) {
      live_.insert(who);
      out.to.push_back(who.worker);
    }
  return live_.empty() ? rule_effects{} : rule_effects{std::move(out)};
}

rule_effects sync_sgd::close_if_full() {
  if (live_.empty())
    return begin_round();
  return pushed_.size() == live_.size() ? close_round() : rule_effects{};
}

rule_effects sync_sgd::close_round() {
  apply step{.ver = next(version_), .epoch = plan_.epoch, .workers = static_cast<std::uint32_t>(plan_.workers.size())};
  double loss_sum = 0;
  for (const auto& [from, part] : pushed_)
    if (adds_a_term(part)) {
      step.samples += part.samples;
      loss_sum += part.loss * static_cast<double>(part.samples);
    }
  // Summing in worker order, not arrival order, makes a run repeat bit for bit.
  for (const auto& [from, part] : pushed_)
    if (adds_a_term(part))
      step.sum.push_back({part.gradient, static_cast<double>(part.samples) / static_cast<double>(step.samples)});

  report closed{.what = report::kind::round_closed, .ver = step.ver};
  closed.contributions = static_cast<std::uint32_t>(step.sum.size());
  if (step.samples > 0)
    closed.loss = loss_sum / static_cast<double>(step.samples);
  version_ = step.ver;
  position_ = plan_.after(position_);
  pushed_.clear();
  live_.clear();
  rule_effects out{std::move(step), std::move(closed)};
  append(out, begin_round());
  return out;
}

} // namespace troupe::protocols
