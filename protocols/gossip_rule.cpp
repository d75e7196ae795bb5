// SPDX-License-Identifier: BSD-3-Clause
// The count of gossip's steps.
#include "protocols/gossip_rule.hpp"

#include <utility>

#include "kernels/assert.hpp"

namespace troupe::protocols {

rule_effects gossip_rule::on(const plan& msg) {
  if (msg.epoch <= state_.plan.epoch)
    return {};
  state_.plan = msg;
  std::erase_if(state_.live, [this](const auto& entry) { return !state_.plan.has(entry.first); });
  send_params first{.ver = state_.made, .epoch = state_.plan.epoch, .position = state_.samples};
  for (const member& who : state_.plan.workers)
    if (state_.live.try_emplace(who).second)
      first.to.push_back(who.worker);
  return first.to.empty() ? rule_effects{} : rule_effects{std::move(first)};
}

rule_effects gossip_rule::on(const push& msg) {
  const auto from = state_.live.find({msg.id.worker, msg.id.incarnation});
  if (from == state_.live.end())
    return {discard{msg.gradient},
            report{.event = report::kind::push_refused, .worker = msg.id.worker, .text = "its worker takes no part"}};
  if (!msg.finite)
    return {discard{msg.gradient}, report{.event = report::kind::push_not_finite, .ver = state_.made, .worker = msg.id.worker}};
  state_.made = next(state_.made);
  state_.samples += static_cast<std::uint64_t>(msg.samples);
  const auto n = static_cast<std::uint32_t>(state_.plan.workers.size());
  report made{
      .event = report::kind::round_closed, .ver = state_.made, .worker = msg.id.worker, .loss = msg.loss, .contributions = 1};
  made.compute = msg.compute;
  made.at = msg.at;
  made.timings = {{msg.id.worker, msg.compute, msg.at - std::exchange(from->second, msg.at), msg.samples}};
  return {apply{.ver = state_.made, .epoch = state_.plan.epoch, .workers = n, .samples = msg.samples}, discard{msg.gradient},
          std::move(made)};
}

void gossip_rule::check() const {
  TROUPE_ASSERT(state_.live.size() == state_.plan.workers.size());
  for (const auto& [who, heard] : state_.live)
    TROUPE_ASSERT(state_.plan.has(who));
}

std::vector<worker_id> gossip_rule::waiting_for() const {
  std::vector<worker_id> out;
  for (const auto& [who, heard] : state_.live)
    out.push_back(who.worker);
  return out;
}

} // namespace troupe::protocols
