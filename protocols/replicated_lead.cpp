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

} // namespace

replicated_lead::replicated_lead(maker make, decision_record from, std::uint64_t view)
    : make_(std::move(make)), record_(std::move(from)), view_(view), lead_(make_(record_.from)), takes_over_(view > 0),
      needs_orders_(view > 0) {
  std::ranges::move(std::exchange(record_.since, {}), std::back_inserter(waiting_));
  if (waiting_.empty() && std::exchange(takes_over_, false)) // nothing is known of what the last lead has decided
    begin_view();
  record_.from = lead_->state();
}

lead_effects replicated_lead::on(lead_input msg) {
  if (open_ || !waiting_.empty() || must_wait(msg) || needs_orders_) {
    waiting_.push_back(std::move(msg));
    return is_hopeless() ? abandon() : lead_effects{};
  }
  return decide(std::move(msg));
}

/// Decisions and sendings get numbers that no lead before has given.
void replicated_lead::begin_view() {
  record_.decision = std::max(record_.decision, first_of(view_));
  lead_->number_sendings_from(first_of(view_));
}

/// While the lead holds, only what ends that, and what is asked of the held version.
bool replicated_lead::must_wait(const lead_input& msg) const {
  return lead_->held() && !std::holds_alternative<resume_order>(msg) && !std::holds_alternative<fetch_order>(msg)
         && !std::holds_alternative<hold_order>(msg) && !std::holds_alternative<checkpoint_order>(msg);
}

std::optional<lead_effects> replicated_lead::next() {
  hear_of_orders();
  if (open_ || (needs_orders_ && !takes_over_))
    return {};
  const auto first = std::ranges::find_if(waiting_, [this](const lead_input& msg) { return !must_wait(msg); });
  if (first == waiting_.end())
    return {};
  lead_input msg = std::move(*first);
  waiting_.erase(first);
  return decide(std::move(msg));
}

/// Once the record is decided again, what the coordinator has ordered comes before all else, and the deaths before pushes.
void replicated_lead::hear_of_orders() {
  if (open_ || takes_over_ || !needs_orders_)
    return;
  const auto order =
      std::ranges::find_if(waiting_, [](const lead_input& msg) { return std::holds_alternative<hold_order>(msg); });
  if (order == waiting_.end())
    return;
  needs_orders_ = false;
  std::rotate(waiting_.begin(), order, std::next(order));
  std::ranges::stable_partition(waiting_, [](const lead_input& msg) { return !std::holds_alternative<arrival>(msg); });
}

lead_effects replicated_lead::decide(lead_input msg) {
  lead_effects decided = std::visit([this](const auto& m) { return lead_->on(m); }, msg);
  record_.since.push_back(std::move(msg));
  const auto is_close = [](const lead_effect& effect) { return std::holds_alternative<close>(effect); };
  const auto round = std::ranges::find_if(decided, is_close);
  if (round == decided.end())
    return decided;
  TROUPE_ASSERT(std::none_of(std::next(round), decided.end(), is_close)); // what the lead hears one by one, it decides one by one
  proposal made{.round = std::get<close>(*round), .before = {}, .after = {}};
  made.before.assign(std::make_move_iterator(decided.begin()), std::make_move_iterator(round));
  made.after.assign(std::make_move_iterator(std::next(round)), std::make_move_iterator(decided.end()));
  made.round.view = view_;
  made.round.decision = record_.decision;
  missing_ = record_.holders;
  unable_.clear();
  open_ = std::move(made);
  return {open_->round};
}

lead_effects replicated_lead::on(const prepared& msg) {
  if (!open_ || msg.ver != open_->round.ver || msg.decision != open_->round.decision || !missing_.contains(msg.holder))
    return {};
  if (!msg.possible) {
    unable_.insert(msg.holder);
    return is_hopeless() ? abandon() : lead_effects{};
  }
  unable_.erase(msg.holder);
  missing_.erase(msg.holder);
  return commit();
}

lead_effects replicated_lead::commit() {
  if (!open_ || !missing_.empty())
    return {};
  committed_ = open_->round;
  lead_effects out{commit_order{committed_.ver, committed_.decision}};
  for (lead_effects* part : {&open_->before, &open_->after})
    out.insert(out.end(), std::make_move_iterator(part->begin()), std::make_move_iterator(part->end()));
  open_.reset();
  record_.since.clear();
  ++record_.decision;
  if (std::exchange(takes_over_, false))
    begin_view();
  record_.from = lead_->state();
  return out;
}

/// Whether it says that a worker is gone whose push is in the proposal.
bool replicated_lead::concerns_proposal(const lead_input& msg) const {
  const auto* gone = std::get_if<worker_down>(&msg);
  return gone != nullptr && std::ranges::any_of(open_->round.contributions, [gone](const contribution& part) {
           return part.id.worker == gone->worker && part.id.incarnation <= gone->incarnation;
         });
}

/// A holder lacks a push, and the lead can be told that its worker is gone.
bool replicated_lead::is_hopeless() const {
  return open_ && !unable_.empty()
         && std::ranges::any_of(waiting_, [this](const lead_input& msg) { return concerns_proposal(msg); });
}

lead_effects replicated_lead::abandon() {
  TROUPE_ASSERT(open_ && !missing_.empty() && !record_.since.empty());
  // The deaths, and where it is to hold, come right before what made it decide.
  const auto is_order = [](const lead_input& msg) { return std::holds_alternative<hold_order>(msg); };
  if (std::ranges::any_of(waiting_, is_order))
    needs_orders_ = false;
  const auto deaths = std::stable_partition(waiting_.begin(), waiting_.end(),
                                            [&](const lead_input& msg) { return concerns_proposal(msg) || is_order(msg); });
  std::deque<lead_input> again;
  std::ranges::move(record_.since, std::back_inserter(again));
  const lead_input decided_by = std::move(again.back());
  again.pop_back();
  std::move(waiting_.begin(), deaths, std::back_inserter(again));
  again.push_back(decided_by);
  std::move(deaths, waiting_.end(), std::back_inserter(again));
  waiting_ = std::move(again);
  record_.since.clear();
  const commit_order out{open_->round.ver, open_->round.decision, true};
  open_.reset();
  missing_.clear();
  unable_.clear();
  record_.decision = std::max(record_.decision + 1, takes_over_ ? first_of(view_) : 0);
  lead_ = make_(record_.from);
  return {out};
}

lead_effects replicated_lead::on(const holder_down& msg) {
  record_.holders.erase(msg.holder);
  unable_.erase(msg.holder);
  return missing_.erase(msg.holder) == 0 ? lead_effects{} : commit();
}

/// What either has said of a proposal does not count: it is asked again.
lead_effects replicated_lead::on(const takes_over& msg) {
  record_.holders.erase(msg.by);
  if (!open_)
    return {};
  missing_.erase(msg.by);
  missing_.insert(msg.shard);
  unable_.erase(msg.shard);
  return {open_->round};
}

void replicated_lead::check() const {
  lead_->check();
  TROUPE_ASSERT(open_.has_value() == !missing_.empty());
  TROUPE_ASSERT(std::ranges::includes(record_.holders, missing_));
  TROUPE_ASSERT(std::ranges::includes(missing_, unable_));
  TROUPE_ASSERT(!open_ || !record_.since.empty());
}

} // namespace troupe::protocols
