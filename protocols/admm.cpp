// SPDX-License-Identifier: BSD-3-Clause
// Asynchronous consensus ADMM, the centre's half.
#include "protocols/admm.hpp"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "kernels/assert.hpp"
#include "protocols/admm_task.hpp"

namespace troupe::protocols {

rule_effects admm::on(const plan& msg) {
  if (msg.epoch <= state_.plan.epoch)
    return {};
  state_.plan = msg;
  rule_effects out;
  std::erase_if(state_.members, [&](const auto& entry) {
    if (!state_.plan.has(entry.first))
      drop(out, entry.second);
    return !state_.plan.has(entry.first);
  });
  for (const member& who : state_.plan.workers)
    state_.members.try_emplace(who);
  send_z(out);
  close_if_ready(out); // whoever is out may have been the last that was waited for
  return out;
}

rule_effects admm::on(const push& msg) {
  const auto found = state_.members.find({msg.id.worker, msg.id.incarnation});
  const bool foreign = found == state_.members.end();
  if (foreign || found->second.waits)
    return refuse(msg, foreign ? "its worker takes no part" : "its worker has pushed already and was not answered yet");
  admm_member& worker = found->second;
  worker.waits = true;
  if (msg.base > state_.z) {
    rule_effects out = refuse(msg, "it is from the future");
    send_z(out);
    return out;
  }
  worker.fresh = true;
  rule_effects out;
  worker.empty = msg.finite && msg.samples == 0;
  // Without a usable u the push counts as arrived, but not towards S if it has no samples. The worker's last usable u stays in
  // the mean.
  if (!msg.finite || msg.samples == 0) {
    out.emplace_back(discard{msg.gradient});
    if (!msg.finite)
      out.emplace_back(report{.event = report::kind::push_not_finite, .ver = msg.base, .worker = msg.id.worker});
  } else {
    drop(out, worker);
    worker.newest = msg;
    worker.unused = true;
  }
  close_if_ready(out);
  return out;
}

rule_effects admm::on(const worker_down& msg) {
  rule_effects out;
  if (const auto gone = state_.members.extract({msg.worker, msg.incarnation})) {
    drop(out, gone.mapped());
    close_if_ready(out);
  }
  return out;
}

/// The partial barrier and the bound on delays. If no further push can come, fewer than S are enough.
bool admm::ready() const {
  const std::size_t wanted = options_.barrier == 0 ? (state_.members.size() + 1) / 2 : options_.barrier;
  const auto come = static_cast<std::size_t>(
      std::ranges::count_if(state_.members, [](const auto& s) { return s.second.fresh && !s.second.empty; }));
  const bool all = !state_.members.empty() && std::ranges::all_of(state_.members, [](const auto& s) { return s.second.fresh; });
  return (all || (come > 0 && come >= wanted)) && std::ranges::all_of(state_.members, [this](const auto& s) {
           return s.second.fresh || s.second.age + 1 < options_.delay;
         });
}

void admm::close_if_ready(rule_effects& out) {
  if (!ready())
    return;
  state_.z = next(state_.z);
  apply step{.ver = state_.z, .epoch = state_.plan.epoch, .workers = static_cast<std::uint32_t>(state_.plan.workers.size())};
  step.step = {.method = step_rule::kind::linear, .parameter_weight = 0, .threshold = options_.l1 / options_.rho};
  step.keep = true;
  report closed{.event = report::kind::round_closed, .ver = state_.z};
  const auto known = std::ranges::count_if(state_.members, [](const auto& s) { return s.second.newest.has_value(); });
  for (auto& [who, worker] : state_.members) {
    worker.age = std::exchange(worker.fresh, false) ? 0 : worker.age + 1;
    if (!worker.newest)
      continue;
    const push& u = *worker.newest;
    step.sum.push_back({u.gradient, 1 / static_cast<double>(known)});
    if (!std::exchange(worker.unused, false))
      continue;
    step.samples += u.samples;
    ++closed.contributions;
    closed.loss += (u.loss - closed.loss) * static_cast<double>(u.samples) / static_cast<double>(step.samples);
    closed.staleness = std::max(closed.staleness, state_.z.value - 1 - u.base.value);
    if (u.compute > closed.compute) {
      closed.compute = u.compute;
      closed.worker = who.worker;
    }
    closed.at = std::max(closed.at, u.at);
    closed.timings.push_back({who.worker, u.compute, 0, u.samples});
  }
  out.emplace_back(std::move(step));
  out.emplace_back(std::move(closed));
  send_z(out);
}

/// Sends z to the workers that have nothing to compute. A worker whose push is not in z yet waits for the round's end.
void admm::send_z(rule_effects& out) {
  for (auto& [who, worker] : state_.members) {
    if (!worker.waits || worker.fresh)
      continue;
    worker.waits = false;
    worker.sent = worker.position;
    out.emplace_back(send_params{.to = {who.worker},
                                 .ver = state_.z,
                                 .epoch = state_.plan.epoch,
                                 .position = worker.position,
                                 .period = state_.plan.period});
    for (std::uint32_t step = 0; step < state_.plan.period; ++step)
      worker.position = state_.plan.after(worker.position);
  }
}

void admm::drop(rule_effects& out, const admm_member& state) {
  if (state.newest)
    out.emplace_back(discard{state.newest->gradient});
}

rule_effects admm::refuse(const push& msg, const char* why) {
  report refused{.event = report::kind::push_refused, .ver = msg.base, .worker = msg.id.worker};
  refused.text = why;
  return {discard{msg.gradient}, std::move(refused)};
}

std::vector<worker_id> admm::waiting_for() const {
  std::vector<worker_id> out;
  for (const auto& [who, worker] : state_.members)
    if (!worker.waits)
      out.push_back(who.worker);
  return out;
}

void admm::check() const {
  for (const auto& [who, worker] : state_.members) {
    TROUPE_ASSERT(state_.plan.has(who) || state_.plan.epoch == plan_epoch{}); // no plan yet: it goes on from a checkpoint
    TROUPE_ASSERT(!worker.fresh || worker.waits);
    TROUPE_ASSERT(!worker.unused || worker.newest);
    TROUPE_ASSERT(worker.age < options_.delay);
  }
  TROUPE_ASSERT(!ready());
}

protocol admm_protocol() {
  const auto rho = real_parameter("rho", 1, {.least = 0, .open_least = true}, "penalty for disagreeing with the centre");
  const auto l1 = real_parameter("l1", 0, {.least = 0}, "weight of the sum of absolute values in the objective");
  const auto barrier = integer_parameter("barrier", 0, 0, "S: workers that a round waits for; 0: half of them");
  const auto delay = integer_parameter("delay", 8, 1, "tau: each worker is in one of any tau rounds in a row");
  const auto steps = integer_parameter("steps", 10, 1, "local steps in a round");
  return {
      .name = "admm",
      .summary = "asynchronous consensus ADMM with an l1 term",
      .round_is_full = "S workers have pushed again and no worker is left out for the tau-th round in a row; the mean of "
                       "each worker's newest push, soft-thresholded",
      .recipients = "those that wait",
      .pays_when = "the model is convex and should be sparse",
      .pushes_parameters = true,
      .own_samples = true,
      .keeps_pushes = true,
      .resumable = true, // the means that wait for their round are pushed anew
      .parameters = {rho, l1, barrier, delay, steps},
      .period = steps,
      .validate = [barrier](const protocol_spec& spec, std::uint32_t workers) -> std::string {
        const std::int64_t s = barrier.of(spec);
        return s > workers ? fmt::format("barrier {} is more than the {} workers; a round would never be full", s, workers) : "";
      },
      .keeps = [](const protocol_spec&) { return footprint{.replica = true, .dual = true}; },
      .make_rule =
          [rho, l1, barrier, delay](const protocol_spec& spec, std::uint64_t) {
            return std::make_unique<admm>(admm_options{rho.of(spec), l1.of(spec), static_cast<std::size_t>(barrier.of(spec)),
                                                       static_cast<std::uint64_t>(delay.of(spec))});
          },
      .make_worker = params_worker_maker([rho](const protocol_spec& spec) { return std::make_unique<admm_task>(rho.of(spec)); })};
}

} // namespace troupe::protocols
