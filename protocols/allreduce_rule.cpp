// SPDX-License-Identifier: BSD-3-Clause
// The count of allreduce's versions.
#include "protocols/allreduce_rule.hpp"

#include <algorithm>
#include <utility>

#include "kernels/assert.hpp"

namespace troupe::protocols {

rule_effects allreduce_rule::on(const plan& msg) {
  if (msg.epoch <= state_.plan.epoch)
    return {};
  const bool begins = state_.plan.epoch == plan_epoch{};
  state_.plan = msg;
  rule_effects out;
  std::erase_if(state_.live, [this](const auto& entry) { return !state_.plan.has(entry.first); });
  send_params first{.ver = state_.made, .epoch = state_.plan.epoch, .position = state_.position};
  for (const member& who : state_.plan.workers)
    if (state_.live.try_emplace(who, reported_version{.newest = state_.made, .has = begins}).second)
      first.to.push_back(who.worker);
  std::erase_if(state_.open, [&](const auto& entry) {
    const bool counts = is_ahead(entry.second) || learn(entry.second);
    if (!counts)
      out.emplace_back(discard{entry.second.gradient});
    return !counts;
  });
  if (begins) // who comes later has it all from a peer
    out.emplace_back(std::move(first));
  else if (std::ranges::none_of(state_.live, [](const auto& entry) { return entry.second.has; }))
    out.emplace_back(report{.event = report::kind::lost, .ver = state_.made});
  count(out);
  return out;
}

rule_effects allreduce_rule::on(const push& msg) {
  if (!is_ahead(msg) && !state_.live.contains({msg.id.worker, msg.id.incarnation}))
    return {discard{msg.gradient},
            report{.event = report::kind::push_refused, .worker = msg.id.worker, .text = "its worker takes no part"}};
  if (!is_ahead(msg) && !learn(msg))
    return {discard{msg.gradient}};
  state_.open.emplace(msg.id, msg);
  rule_effects out;
  count(out);
  return out;
}

/// Its worker's plan is on its way here: its peers have given it everything meanwhile.
bool allreduce_rule::is_ahead(const push& msg) const {
  return msg.epoch > state_.plan.epoch && !state_.live.contains({msg.id.worker, msg.id.incarnation});
}

/// Whether it counts: a member may have been given a version that was counted before it joined.
bool allreduce_rule::learn(const push& msg) {
  const auto from = state_.live.find({msg.id.worker, msg.id.incarnation});
  if (from == state_.live.end())
    return false;
  from->second.has = true;
  const version made{msg.id.clock.value};
  from->second.newest = std::max(from->second.newest, made);
  return made > state_.made;
}

/// All versions that every member has.
void allreduce_rule::count(rule_effects& out) {
  const auto has_next = [this](const auto& entry) { return entry.second.newest > state_.made; };
  while (!state_.live.empty() && std::ranges::all_of(state_.live, has_next))
    close(out);
}

void allreduce_rule::close(rule_effects& out) {
  const version made = next(state_.made);
  report fact{.event = report::kind::round_closed, .ver = made};
  // They all say the same, unless one who is dead had a version that was then made again. If all who made it are dead, who was
  // given a later one says how much is applied with that.
  const push* one = nullptr;
  rule_effects used;
  for (auto& [id, each] : state_.open) {
    if (id.clock.value != made.value)
      continue;
    one = one == nullptr || one->epoch < each.epoch ? &each : one;
    used.emplace_back(discard{each.gradient});
    if (is_ahead(each))
      continue;
    auto& known = state_.live.at({id.worker, id.incarnation});
    fact.timings.push_back({id.worker, each.compute, each.at - std::exchange(known.at, each.at), each.samples});
    if (each.compute >= fact.compute) {
      fact.compute = each.compute;
      fact.worker = id.worker;
    }
    fact.at = std::max(fact.at, each.at);
  }
  const std::uint64_t applied = one != nullptr ? std::max(one->applied, state_.samples) : state_.samples;
  fact.loss = one != nullptr ? one->loss : 0;
  fact.contributions = applied > state_.samples ? static_cast<std::uint32_t>(fact.timings.size()) : 0;
  out.emplace_back(apply{.ver = made,
                         .epoch = state_.plan.epoch,
                         .workers = static_cast<std::uint32_t>(state_.plan.workers.size()),
                         .samples = static_cast<std::int64_t>(applied - state_.samples)});
  state_.made = made;
  state_.samples = applied;
  out.insert(out.end(), used.begin(), used.end());
  out.emplace_back(std::move(fact));
  std::erase_if(state_.open, [made](const auto& entry) { return entry.first.clock.value == made.value; });
}

void allreduce_rule::check() const {
  TROUPE_ASSERT(state_.live.size() == state_.plan.workers.size());
  for (const auto& [who, reported] : state_.live)
    TROUPE_ASSERT(state_.plan.has(who));
  for (const auto& [id, each] : state_.open)
    TROUPE_ASSERT(is_ahead(each) || (id.clock.value > state_.made.value && state_.plan.has({id.worker, id.incarnation})));
}

std::vector<worker_id> allreduce_rule::waiting_for() const {
  std::vector<worker_id> out;
  for (const auto& [who, reported] : state_.live)
    if (reported.newest <= state_.made)
      out.push_back(who.worker);
  return out;
}

} // namespace troupe::protocols
