// SPDX-License-Identifier: BSD-3-Clause
// The engine of rounds.
#include "protocols/round_rule.hpp"

#include <algorithm>
#include <iterator>
#include <utility>

#include "kernels/assert.hpp"

namespace troupe::protocols {

namespace {

constexpr timer_id patience_timer{1};

void append(rule_effects& out, rule_effects more) {
  out.insert(out.end(), std::make_move_iterator(more.begin()), std::make_move_iterator(more.end()));
}

report discarded(const push& msg) {
  return {.event = report::kind::push_discarded, .ver = msg.base, .worker = msg.id.worker};
}

} // namespace

std::uint64_t open_round::end() const {
  std::uint64_t out = position;
  for (std::uint32_t step = 0; step < plan.period; ++step)
    out = plan.after(out);
  return out;
}

std::uint64_t open_round::samples() const {
  return end() - position;
}

bool open_round::has_samples(member who) const {
  const auto n = static_cast<std::uint32_t>(plan.workers.size());
  std::uint64_t begin = position;
  for (std::uint32_t step = 0; step < plan.period; ++step) {
    const std::uint64_t end = plan.after(begin);
    if (end - begin >= n || plan::cut_size(end - begin, n, static_cast<std::uint32_t>(plan.rank_of(who.worker))) > 0)
      return true;
    begin = end;
  }
  return false;
}

std::size_t open_round::gradients() const {
  return static_cast<std::size_t>(std::ranges::count_if(pushed, [](const auto& entry) { return usable(entry.second); }));
}

bool open_round::settled() const {
  if (plan.after(position) - position >= plan.workers.size()) // almost always: every worker has some
    return full();
  return std::ranges::none_of(live, [this](member who) { return !pushed.contains(who) && has_samples(who); });
}

closing by_samples(const open_round& round) {
  closing out;
  double counted = 0;
  for (const auto& [from, part] : round.pushed)
    if (usable(part)) {
      out.samples += part.samples;
      counted += part.counted();
    }
  for (const auto& [from, part] : round.pushed)
    if (usable(part))
      out.weights[from] = counted > 0 ? part.counted() / counted : 0;
  return out;
}

round_rule::round_rule(policy_maker make, std::uint64_t seed) : make_(std::move(make)), seed_(seed) {}

rule_effects round_rule::on(const plan& msg) {
  if (msg.epoch <= state_.newest.epoch)
    return {};
  state_.newest = msg;
  const auto gone = [this](member who) { return !state_.newest.has(who); };
  std::erase_if(state_.dead, gone);
  std::erase_if(state_.busy, [&](const auto& entry) { return gone(entry.first); });
  if (msg.rooted > state_.round.plan.epoch && !state_.round.live.empty()) {
    state_.busy.clear(); // their pushes go where nobody waits for them
    return abandon();
  }
  return state_.round.live.empty() ? begin() : rule_effects{};
}

rule_effects round_rule::on(const push& msg) {
  state_.now = std::max(state_.now, msg.at);
  const member from{msg.id.worker, msg.id.incarnation};
  nanoseconds elapsed = 0;
  // A push that answers older parameters than its worker has leaves it busy: it was sent twice, or computed twice.
  if (const auto sent = state_.busy.find(from);
      sent != state_.busy.end() && msg.base >= sent->second.ver && msg.epoch >= sent->second.epoch) {
    elapsed = msg.at - sent->second.at;
    state_.busy.erase(sent);
    state_.timings.push_back({from.worker, msg.compute, elapsed, msg.samples});
    if (policy_)
      policy_->arrived(msg, elapsed);
  }
  const bool expected = state_.round.live.contains(from) && !state_.round.pushed.contains(from);
  if (!expected || msg.epoch != state_.round.plan.epoch || msg.base != state_.round.base)
    return refuse(msg, expected);

  state_.round.pushed.emplace(from, msg);
  rule_effects out;
  if (!msg.finite)
    out.emplace_back(report{.event = report::kind::push_not_finite, .ver = msg.base, .worker = from.worker});
  if (!usable(msg))
    out.emplace_back(discard{msg.gradient});
  append(out, close_if_full());
  return out;
}

rule_effects round_rule::on(const worker_down& msg) {
  const member gone{msg.worker, msg.incarnation};
  // Until the coordinator's next plan the newest one still names the dead: its rounds must not wait for them.
  if (state_.newest.has(gone))
    state_.dead.insert(gone);
  state_.busy.erase(gone);
  if (state_.round.live.erase(gone) == 0)
    return {};
  rule_effects out;
  if (auto part = state_.round.pushed.extract(gone); part && usable(part.mapped()))
    out = {discard{part.mapped().gradient}, discarded(part.mapped())};
  append(out, !state_.round.live.empty() && policy_->lost(state_.round) ? abandon() : close_if_full());
  return out;
}

rule_effects round_rule::on(const expired& msg) {
  state_.now = std::max(state_.now, msg.at);
  state_.armed = false;
  state_.round.out_of_patience = true;
  return close_if_full();
}

std::vector<worker_id> round_rule::waiting_for() const {
  std::vector<worker_id> out;
  for (const member& who : state_.round.live)
    if (!state_.round.pushed.contains(who))
      out.emplace_back(who.worker);
  return out;
}

void round_rule::check() const {
  for (const auto& [from, part] : state_.round.pushed) {
    TROUPE_ASSERT(state_.round.live.contains(from));
    TROUPE_ASSERT(part.epoch == state_.round.plan.epoch && part.base == state_.round.base);
    TROUPE_ASSERT(!state_.busy.contains(from));
  }
  for (const member& gone : state_.dead) {
    TROUPE_ASSERT(state_.newest.has(gone));
    TROUPE_ASSERT(!state_.round.live.contains(gone) && !state_.busy.contains(gone));
  }
  // Until it is begun anew, a checkpoint's round is of a plan of another life.
  TROUPE_ASSERT(state_.round.live.empty() || state_.round.plan.epoch <= state_.newest.epoch);
  TROUPE_ASSERT(state_.round.live.empty() || policy_ != nullptr);
}

rule_state round_rule::state() const {
  round_rule_state out = state_;
  if (policy_)
    out.memory = policy_->memory();
  return out;
}

void round_rule::restore(const rule_state& from) {
  const auto* known = std::get_if<round_rule_state>(&from);
  if (known == nullptr)
    return;
  state_ = *known;
  state_.memory.clear();
  if (state_.round.plan.epoch == plan_epoch{})
    return;
  policy_ = make_(state_.round.plan.protocol, seed_);
  policy_->remember(known->memory);
}

/// Opens a round on the current version under the newest plan. It is empty if no worker is alive, or too few for this policy;
/// then the plan that follows the deaths begins it again.
rule_effects round_rule::begin() {
  if (!policy_ || state_.newest.protocol != state_.round.plan.protocol)
    policy_ = make_(state_.newest.protocol, seed_);
  state_.round = {.plan = state_.newest, .base = state_.round.base, .position = state_.round.position, .began = state_.now};
  std::set<member> alive;
  for (const member& who : state_.round.plan.workers)
    if (!state_.dead.contains(who))
      alive.insert(who);
  if (!alive.empty())
    state_.round.live = policy_->begin(state_.round, alive);
  if (!state_.round.live.empty() && policy_->lost(state_.round))
    state_.round.live.clear();
  std::vector<worker_id> waiting;
  for (const member& who : state_.round.live)
    if (state_.busy.try_emplace(who, sending()).second)
      waiting.push_back(who.worker);
  rule_effects out;
  send(out, waiting);
  const auto patience = state_.round.live.empty() ? std::nullopt : policy_->patience(state_.round);
  if (patience || state_.armed)
    out.emplace_back(arm_timer{patience_timer, patience.value_or(-1)});
  state_.armed = patience.has_value();
  return out;
}

rule_effects round_rule::close_if_full() {
  if (state_.round.live.empty())
    return begin();
  const auto how = policy_->close(state_.round);
  return how ? close(*how) : rule_effects{};
}

rule_effects round_rule::close(const closing& how) {
  apply step{.ver = next(state_.round.base),
             .epoch = state_.round.plan.epoch,
             .workers = static_cast<std::uint32_t>(state_.round.plan.workers.size()),
             .step = how.step,
             .samples = how.samples,
             .position = state_.round.position};
  report closed{.event = report::kind::round_closed, .ver = step.ver, .at = state_.now};
  rule_effects unused;
  double loss_sum = 0, counted = 0;
  // Summing in worker order, not arrival order, makes a run repeat bit for bit.
  for (const auto& [from, part] : state_.round.pushed) {
    const auto weight = how.weights.find(from);
    if (weight != how.weights.end() && usable(part)) {
      step.sum.push_back({part.gradient, weight->second});
      loss_sum += part.loss * part.counted();
      counted += part.counted();
    } else if (usable(part)) {
      unused.emplace_back(discard{part.gradient});
      unused.emplace_back(discarded(part));
    }
    if (part.compute > closed.compute) {
      closed.compute = part.compute;
      closed.worker = from.worker;
    }
  }
  closed.contributions = static_cast<std::uint32_t>(step.sum.size());
  closed.loss = counted > 0 ? loss_sum / counted : 0;
  closed.residual = how.residual;
  closed.timings = std::exchange(state_.timings, {});
  state_.round.position = state_.round.end();
  state_.round.base = step.ver;
  rule_effects out = std::move(unused);
  out.emplace_back(std::move(step));
  out.emplace_back(std::move(closed));
  append(out, begin());
  return out;
}

/// Discards the pushes that have come and restarts the round, on the same version, under the newest plan or the next.
rule_effects round_rule::abandon() {
  rule_effects out;
  for (const auto& [from, part] : state_.round.pushed)
    if (usable(part)) {
      out.emplace_back(discard{part.gradient});
      out.emplace_back(discarded(part));
    }
  append(out, begin());
  return out;
}

/// No version will use the push. If this round waits for its worker, it was too late for an earlier round: it gets this round's
/// parameters.
rule_effects round_rule::refuse(const push& msg, bool waits) {
  const member from{msg.id.worker, msg.id.incarnation};
  report why = discarded(msg);
  if (msg.base > state_.round.base || msg.epoch > state_.newest.epoch || state_.round.pushed.contains(from)) {
    why.event = report::kind::push_refused;
    why.text = state_.round.pushed.contains(from) ? "its worker has pushed for this round already" : "it is from the future";
  }
  rule_effects out{discard{msg.gradient}, std::move(why)};
  if (waits && state_.busy.try_emplace(from, sending()).second)
    send(out, {from.worker});
  return out;
}

void round_rule::send(rule_effects& out, const std::vector<worker_id>& to) const {
  if (!to.empty())
    out.emplace_back(send_params{.to = to,
                                 .ver = state_.round.base,
                                 .epoch = state_.round.plan.epoch,
                                 .position = state_.round.position,
                                 .period = state_.round.plan.period});
}

} // namespace troupe::protocols
