// SPDX-License-Identifier: BSD-3-Clause
// The count of gossip's steps.
#include "protocols/gossip_rule.hpp"

#include <utility>

namespace troupe::protocols {

rule_effects gossip_rule::on(const plan& msg) {
  if (msg.epoch <= plan_.epoch)
    return {};
  plan_ = msg;
  std::erase_if(live_, [this](const auto& entry) { return !plan_.has(entry.first); });
  send_params first{.ver = version_, .epoch = plan_.epoch, .position = samples_};
  for (const member& who : plan_.workers)
    if (live_.try_emplace(who).second)
      first.to.push_back(who.worker);
  return first.to.empty() ? rule_effects{} : rule_effects{std::move(first)};
}

rule_effects gossip_rule::on(const push& msg) {
  const auto from = live_.find({msg.id.worker, msg.id.incarnation});
  if (from == live_.end())
    return {discard{msg.gradient},
            report{.event = report::kind::push_refused, .worker = msg.id.worker, .text = "its worker takes no part"}};
  if (!msg.finite)
    return {discard{msg.gradient}, report{.event = report::kind::push_not_finite, .ver = version_, .worker = msg.id.worker}};
  version_ = next(version_);
  samples_ += static_cast<std::uint64_t>(msg.samples);
  const auto n = static_cast<std::uint32_t>(plan_.workers.size());
  report made{
      .event = report::kind::round_closed, .ver = version_, .worker = msg.id.worker, .loss = msg.loss, .contributions = 1};
  made.compute = msg.compute;
  made.at = msg.at;
  made.timings = {{msg.id.worker, msg.compute, msg.at - std::exchange(from->second, msg.at), msg.samples}};
  return {apply{.ver = version_, .epoch = plan_.epoch, .workers = n, .samples = msg.samples}, discard{msg.gradient},
          std::move(made)};
}

std::vector<worker_id> gossip_rule::waiting_for() const {
  std::vector<worker_id> out;
  for (const auto& [who, heard] : live_)
    out.push_back(who.worker);
  return out;
}

} // namespace troupe::protocols
