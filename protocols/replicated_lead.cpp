// SPDX-License-Identifier: BSD-3-Clause
// Proposing, committing, abandoning what a lead decides.
#include "protocols/replicated_lead.hpp"

#include <algorithm>
#include <iterator>
#include <utility>

#include "kernels/assert.hpp"

namespace troupe::protocols {

namespace {

/// Numbers that the leads of earlier views do not reach.
std::uint64_t first_of(std::uint64_t view) {
  return view << 40;
}

bool is_order(const lead_input& msg) {
  return std::holds_alternative<hold_order>(msg);
}

} // namespace

replicated_lead::replicated_lead(maker make, decision_record from, std::uint64_t view)
    : make_(std::move(make)),
      lead_(make_(from.from)), state_{.record = std::move(from), .view = view, .takes_over = view > 0, .needs_orders = view > 0} {
  std::ranges::move(std::exchange(state_.record.since, {}), std::back_inserter(state_.waiting));
  if (state_.waiting.empty()) // nothing is known of what the last lead has decided
    decide_anew();
}

replicated_lead::replicated_lead(maker make, replicated_lead_state from)
    : make_(std::move(make)), lead_(make_(std::exchange(from.lead, {}))), state_(std::move(from)) {}

replicated_lead_state replicated_lead::state() const {
  replicated_lead_state out = state_;
  out.lead = lead_->state();
  return out;
}

lead_effects replicated_lead::on(lead_input msg) {
  if (state_.open || !state_.waiting.empty() || must_wait(msg) || state_.needs_orders) {
    const auto before = is_order(msg) ? std::ranges::find_if_not(state_.waiting, is_order) : state_.waiting.end();
    state_.waiting.insert(before, std::move(msg)); // a limit holds for whatever is decided from now on
    return is_hopeless() ? abandon() : lead_effects{};
  }
  return decide(std::move(msg));
}

/// From here on. Where the last lead has decided up to here, decisions and sendings get numbers that no lead before has given.
void replicated_lead::decide_anew() {
  if (std::exchange(state_.takes_over, false)) {
    state_.record.decision = std::max(state_.record.decision, first_of(state_.view));
    lead_->number_sendings_from(first_of(state_.view));
  }
  state_.record.from = lead_->state();
}

/// While the lead holds, only what ends that, and what is asked of the held version.
bool replicated_lead::must_wait(const lead_input& msg) const {
  return lead_->held() && !std::holds_alternative<resume_order>(msg) && !std::holds_alternative<fetch_order>(msg)
         && !std::holds_alternative<hold_order>(msg) && !std::holds_alternative<checkpoint_order>(msg);
}

std::optional<lead_effects> replicated_lead::next() {
  hear_of_orders();
  if (state_.open || (state_.needs_orders && !state_.takes_over))
    return {};
  const auto first = std::ranges::find_if(state_.waiting, [this](const lead_input& msg) { return !must_wait(msg); });
  if (first == state_.waiting.end())
    return {};
  lead_input msg = std::move(*first);
  state_.waiting.erase(first);
  return decide(std::move(msg));
}

/// Once the record is decided again, what the coordinator has ordered comes before all else, and the deaths before pushes.
void replicated_lead::hear_of_orders() {
  if (state_.open || state_.takes_over || !state_.needs_orders || state_.waiting.empty() || !is_order(state_.waiting.front()))
    return;
  state_.needs_orders = false;
  std::ranges::stable_partition(state_.waiting, [](const lead_input& msg) { return !std::holds_alternative<arrival>(msg); });
}

lead_effects replicated_lead::decide(lead_input msg) {
  lead_effects decided = std::visit([this](const auto& m) { return lead_->on(m); }, msg);
  state_.record.since.push_back(std::move(msg));
  const auto is_close = [](const lead_effect& effect) { return std::holds_alternative<close>(effect); };
  const auto round = std::ranges::find_if(decided, is_close);
  if (round == decided.end())
    return decided;
  TROUPE_ASSERT(std::none_of(std::next(round), decided.end(), is_close)); // what the lead hears one by one, it decides one by one
  proposal made{.round = std::get<close>(*round), .before = {}, .after = {}};
  made.before.assign(std::make_move_iterator(decided.begin()), std::make_move_iterator(round));
  made.after.assign(std::make_move_iterator(std::next(round)), std::make_move_iterator(decided.end()));
  made.round.view = state_.view;
  made.round.decision = state_.record.decision;
  made.round.squares_before = state_.record.squares_before;
  state_.missing = state_.record.holders;
  state_.unable.clear();
  state_.squares.clear();
  state_.open = std::move(made);
  return {state_.open->round};
}

lead_effects replicated_lead::on(const prepared& msg) {
  if (!state_.open || msg.ver != state_.open->round.ver || msg.decision != state_.open->round.decision
      || !state_.missing.contains(msg.holder))
    return {};
  if (!msg.possible) {
    state_.unable.insert(msg.holder);
    return is_hopeless() ? abandon() : lead_effects{};
  }
  state_.unable.erase(msg.holder);
  state_.missing.erase(msg.holder);
  state_.squares[msg.holder] = msg.squares;
  return commit();
}

lead_effects replicated_lead::commit() {
  if (!state_.open || !state_.missing.empty())
    return {};
  state_.committed = state_.open->round;
  squared_norm whole;
  for (const auto& [holder, part] : std::exchange(state_.squares, {}))
    whole += part;
  state_.record.squares_before = whole;
  lead_effects out{commit_order{state_.committed.ver, state_.committed.decision, false, whole}};
  for (lead_effects* part : {&state_.open->before, &state_.open->after})
    out.insert(out.end(), std::make_move_iterator(part->begin()), std::make_move_iterator(part->end()));
  state_.open.reset();
  state_.record.since.clear();
  ++state_.record.decision;
  decide_anew();
  return out;
}

/// Whether it says that a worker is gone whose push is in the proposal, or an aggregator that may have had some.
bool replicated_lead::concerns_proposal(const lead_input& msg) const {
  if (const auto* changed = std::get_if<plan>(&msg))
    return changed->rooted > state_.open->round.epoch;
  const auto* gone = std::get_if<worker_down>(&msg);
  return gone != nullptr && std::ranges::any_of(state_.open->round.contributions, [gone](const contribution& part) {
           return part.id.worker == gone->worker && part.id.incarnation <= gone->incarnation;
         });
}

/// A holder lacks a push or a sum, and the lead can be told who is gone; and where it is to hold, for then it decides anew.
bool replicated_lead::is_hopeless() const {
  return state_.open && !state_.unable.empty() && (!state_.needs_orders || std::ranges::any_of(state_.waiting, is_order))
         && std::ranges::any_of(state_.waiting, [this](const lead_input& msg) { return concerns_proposal(msg); });
}

lead_effects replicated_lead::abandon() {
  TROUPE_ASSERT(state_.open && !state_.missing.empty() && !state_.record.since.empty());
  // Who is gone, and where it is to hold, come right before what made it decide.
  state_.needs_orders = false;
  const auto deaths = std::stable_partition(state_.waiting.begin(), state_.waiting.end(),
                                            [&](const lead_input& msg) { return concerns_proposal(msg) || is_order(msg); });
  std::deque<lead_input> again;
  std::ranges::move(state_.record.since, std::back_inserter(again));
  const lead_input decided_by = std::move(again.back());
  again.pop_back();
  std::move(state_.waiting.begin(), deaths, std::back_inserter(again));
  again.push_back(decided_by);
  std::move(deaths, state_.waiting.end(), std::back_inserter(again));
  state_.waiting = std::move(again);
  state_.record.since.clear();
  const commit_order out{state_.open->round.ver, state_.open->round.decision, true};
  state_.open.reset();
  state_.missing.clear();
  state_.unable.clear();
  state_.squares.clear();
  ++state_.record.decision;
  lead_ = make_(state_.record.from);
  decide_anew();
  return {out};
}

lead_effects replicated_lead::on(const holder_down& msg) {
  state_.record.holders.erase(msg.holder);
  state_.unable.erase(msg.holder);
  state_.squares.erase(msg.holder);
  return state_.missing.erase(msg.holder) == 0 ? lead_effects{} : commit();
}

/// What either has said of a proposal does not count: it is asked again.
lead_effects replicated_lead::on(const takes_over& msg) {
  state_.record.holders.erase(msg.by);
  if (!state_.open)
    return {};
  state_.missing.erase(msg.by);
  state_.missing.insert(msg.shard);
  state_.squares.erase(msg.by);
  state_.squares.erase(msg.shard);
  state_.unable.erase(msg.shard);
  return {state_.open->round};
}

/// It is asked from the next proposal on; or now, where the last lead had admitted it.
lead_effects replicated_lead::on(const new_backup& msg) {
  state_.record.holders.insert(msg.holder);
  lead_effects out{admit_order{msg.holder, msg.shard, state_.open ? state_.open->round.ver : lead_->current(), state_.view}};
  if (state_.missing.contains(msg.holder))
    out.emplace_back(state_.open->round);
  return out;
}

decision_record replicated_lead::newest_record() const {
  return state_.open
             ? state_.record
             : decision_record{lead_->state(), {}, state_.record.decision, state_.record.holders, state_.record.squares_before};
}

void replicated_lead::check() const {
  lead_->check();
  TROUPE_ASSERT(state_.open.has_value() == !state_.missing.empty());
  TROUPE_ASSERT(std::ranges::includes(state_.record.holders, state_.missing));
  TROUPE_ASSERT(std::ranges::includes(state_.missing, state_.unable));
  TROUPE_ASSERT(!state_.open || !state_.record.since.empty());
  TROUPE_ASSERT(state_.open || state_.squares.empty());
  for (const auto& [holder, part] : state_.squares)
    TROUPE_ASSERT(state_.record.holders.contains(holder) && !state_.missing.contains(holder));
}

} // namespace troupe::protocols
