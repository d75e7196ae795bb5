// SPDX-License-Identifier: BSD-3-Clause
// Asynchronous consensus ADMM.
#include "protocols/admm.hpp"

#include <algorithm>
#include <utility>

namespace troupe::protocols {

rule_effects admm::on(const plan& msg) {
  if (msg.epoch <= plan_.epoch)
    return {};
  plan_ = msg;
  rule_effects out;
  for (auto& [who, worker] : seats_)
    if (!plan_.has(who))
      drop(out, worker);
  std::erase_if(seats_, [this](const auto& entry) { return !plan_.has(entry.first); });
  for (const member& who : plan_.workers)
    seats_.try_emplace(who);
  send_z(out);
  return out;
}

rule_effects admm::on(const push& msg) {
  const auto found = seats_.find({msg.id.worker, msg.id.life});
  if (found == seats_.end() || found->second.waits)
    return {discard{msg.gradient}, report{.what = report::kind::push_refused, .ver = msg.base, .worker = msg.id.worker}};
  seat& worker = found->second;
  worker.waits = true;
  rule_effects out;
  if (!msg.finite || msg.samples == 0) {
    out.emplace_back(discard{msg.gradient});
    if (!msg.finite)
      out.emplace_back(report{.what = report::kind::push_not_finite, .ver = msg.base, .worker = msg.id.worker});
    send_z(out);
    return out;
  }
  drop(out, worker);
  worker.newest = msg;
  worker.fresh = true;
  worker.age = 0;
  for (rule_effect& effect : close_if_ready())
    out.push_back(std::move(effect));
  return out;
}

rule_effects admm::on(const worker_down& msg) {
  const auto gone = seats_.find({msg.worker, msg.life});
  if (gone == seats_.end())
    return {};
  rule_effects out;
  drop(out, gone->second);
  seats_.erase(gone);
  for (rule_effect& effect : close_if_ready())
    out.push_back(std::move(effect));
  return out;
}

/// The partial barrier, and the bound on delays.
bool admm::ready() const {
  const std::size_t wanted = options_.barrier == 0 ? (seats_.size() + 1) / 2 : std::min(options_.barrier, seats_.size());
  const auto fresh = static_cast<std::size_t>(std::ranges::count_if(seats_, [](const auto& s) { return s.second.fresh; }));
  return fresh > 0 && fresh >= wanted
         && std::ranges::all_of(seats_, [this](const auto& s) { return s.second.fresh || s.second.age < options_.delay; });
}

rule_effects admm::close_if_ready() {
  if (!ready())
    return {};
  z_ = next(z_);
  apply step{.ver = z_, .epoch = plan_.epoch, .workers = static_cast<std::uint32_t>(plan_.workers.size())};
  step.step = {.what = step_rule::kind::linear, .parameter_weight = 0, .threshold = options_.l1 / options_.rho};
  step.keep = true;
  report closed{.what = report::kind::round_closed, .ver = z_};
  const auto known = std::ranges::count_if(seats_, [](const auto& s) { return s.second.newest.has_value(); });
  for (auto& [who, worker] : seats_) {
    ++worker.age;
    if (!worker.newest)
      continue;
    const push& u = *worker.newest;
    step.sum.push_back({u.gradient, 1 / static_cast<double>(known)});
    if (!std::exchange(worker.fresh, false))
      continue;
    worker.age = 0;
    step.samples += u.samples;
    ++closed.contributions;
    closed.loss += (u.loss - closed.loss) * static_cast<double>(u.samples) / static_cast<double>(step.samples);
    closed.staleness = std::max(closed.staleness, z_.value - 1 - u.base.value);
    if (u.compute > closed.compute) {
      closed.compute = u.compute;
      closed.worker = who.worker;
    }
    closed.at = std::max(closed.at, u.at);
    closed.timings.push_back({who.worker, u.compute, 0, u.samples});
  }
  rule_effects out{std::move(step), std::move(closed)};
  send_z(out);
  return out;
}

/// To those that have nothing to compute: who has pushed what is not in z yet waits for the round's end.
void admm::send_z(rule_effects& out) {
  for (auto& [who, worker] : seats_) {
    if (!worker.waits || worker.fresh)
      continue;
    worker.waits = false;
    out.emplace_back(send_params{
        .to = {who.worker}, .ver = z_, .epoch = plan_.epoch, .position = worker.position, .period = plan_.period});
    for (std::uint32_t step = 0; step < plan_.period; ++step)
      worker.position = plan_.after(worker.position);
  }
}

void admm::drop(rule_effects& out, seat& of) {
  if (of.newest)
    out.emplace_back(discard{of.newest->gradient});
  of.newest.reset();
}

std::vector<worker_id> admm::waiting_for() const {
  std::vector<worker_id> out;
  for (const auto& [who, worker] : seats_)
    if (!worker.waits)
      out.push_back(who.worker);
  return out;
}

worker_effects admm_task::begin(const plan& with, const params& what, const push& as) {
  plan_ = with;
  open_ = as;
  left_ = what.period;
  position_ = what.position;
  worker_effects out{adopt{what.ver, what.parameters}};
  if (std::exchange(fresh_, false))
    out.emplace_back(mix{{{what.parameters, 1}}});
  out.emplace_back(step());
  return out;
}

worker_effects admm_task::on(const computed& msg) {
  accumulate(open_, msg);
  position_ = plan_.after(position_);
  if (--left_ > 0)
    return {step()};
  fresh_ = !open_.finite;
  if (fresh_)
    return {send_push{open_, {{own_parameters, 1}}}};
  return {dual{rho_}, send_push{open_, {{own_parameters, 1}, {dual_variable, 1 / rho_}}}};
}

local_step admm_task::step() const {
  const auto n = static_cast<std::uint32_t>(plan_.workers.size());
  return {{.position = position_,
           .batches = n,
           .cuts = n,
           .parts = {{static_cast<std::uint32_t>(plan_.rank_of(open_.id.worker)), 1}}},
          rho_,
          1};
}

} // namespace troupe::protocols
