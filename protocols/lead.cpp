// SPDX-License-Identifier: BSD-3-Clause
// The lead: collecting arrivals, translating a rule's effects, holding.
#include "protocols/lead.hpp"

#include <algorithm>
#include <limits>
#include <optional>
#include <type_traits>
#include <utility>

#include "kernels/assert.hpp"

namespace troupe::protocols {

namespace {

/// Not older than any push of this incarnation.
push_id last_push_of(const worker_down& msg) {
  return {msg.worker, msg.incarnation, clock_tick{std::numeric_limits<clock_tick::rep>::max()}};
}

} // namespace

lead::lead(std::unique_ptr<rule> decides, std::uint32_t holders_per_push, bool per_push)
    : rule_(std::move(decides)), holders_per_push_(holders_per_push), per_push_(per_push) {}

lead::~lead() = default;

lead_effects lead::on(const plan& msg) {
  if (msg.epoch > plan_.epoch) {
    plan_ = msg;
    // Pushes of workers forgotten here are refused as foreign from now on.
    std::erase_if(newest_, [this](const auto& seen) { return plan_.rank_of(seen.first) < 0; });
  }
  return translate(rule_->on(msg));
}

lead_effects lead::on(const arrival& msg) {
  if (held_) {
    parked_.push_back(msg);
    return {};
  }
  const push_id id = msg.push.id;
  auto known = open_.find(id);
  if (known == open_.end()) {
    const auto seen = newest_.find(id.worker);
    const bool decided = seen != newest_.end() && id <= seen->second;
    const bool foreign = msg.push.epoch <= plan_.epoch && !plan_.has({id.worker, id.incarnation});
    // Its holder need not keep it: the push is decided, or can never be complete.
    if (decided || foreign)
      return {drop_order{id}};
    known = open_.try_emplace(id).first;
  }
  open_push& entry = known->second;
  if (entry.known_as != ticket{} || !entry.reported.insert(msg.holder).second || entry.reported.size() < holders_per_push_)
    return {};

  entry.known_as = ticket{++last_ticket_.value};
  names_.emplace(entry.known_as, id);
  newest_.insert_or_assign(id.worker, id);
  push complete = msg.push;
  complete.gradient = entry.known_as;
  return translate(rule_->on(complete));
}

lead_effects lead::on(const worker_down& msg) {
  push_id& seen = newest_[msg.worker];
  seen = std::max(seen, last_push_of(msg));
  lead_effects out;
  // A holder that has not reported a push yet never will: it drops what is incomplete.
  std::erase_if(open_, [&](const auto& entry) {
    const auto& [id, state] = entry;
    const bool never_complete = id.worker == msg.worker && id.incarnation == msg.incarnation && state.known_as == ticket{};
    if (never_complete)
      out.emplace_back(drop_order{id});
    return never_complete;
  });
  const auto do_not_send = [&](send_params& waiting) {
    if (plan_.has({msg.worker, msg.incarnation}))
      std::erase(waiting.to, msg.worker);
  };
  std::ranges::for_each(held_back_, do_not_send);
  for (rule_effects& effects : deferred_)
    for (rule_effect& effect : effects)
      if (auto* waiting = std::get_if<send_params>(&effect))
        do_not_send(*waiting);
  for (lead_effect& effect : translate(rule_->on(msg)))
    out.emplace_back(std::move(effect));
  return out;
}

lead_effects lead::on(const expired& msg) {
  return translate(rule_->on(msg));
}

lead_effects lead::on(const hold_order& msg) {
  limit_ = msg;
  return {};
}

lead_effects lead::on(const resume_order&) {
  if (!std::exchange(held_, false))
    return {};
  lead_effects out;
  for (const send_params& sending : std::exchange(held_back_, {}))
    send(out, sending);
  for (rule_effects& decided : std::exchange(deferred_, {}))
    for (lead_effect& effect : translate(std::move(decided)))
      out.emplace_back(std::move(effect));
  for (const arrival& msg : std::exchange(parked_, {}))
    for (lead_effect& effect : on(msg))
      out.emplace_back(std::move(effect));
  return out;
}

lead_effects lead::on(const fetch_order&) {
  return {send_order{.epoch = plan_.epoch, .ver = current(), .key = ++sends_, .to = {evaluator}}};
}

version lead::current() const {
  return made_;
}

void lead::check() const {
  std::size_t known = 0;
  for (const auto& [id, entry] : open_) {
    TROUPE_ASSERT(!entry.reported.empty());
    const bool complete = entry.reported.size() >= holders_per_push_;
    TROUPE_ASSERT(complete == (entry.known_as != ticket{}));
    TROUPE_ASSERT(!complete || names_.at(entry.known_as) == id);
    known += complete ? 1 : 0;
  }
  TROUPE_ASSERT(names_.size() == known);
  TROUPE_ASSERT(held_ || (held_back_.empty() && parked_.empty() && deferred_.empty()));
  TROUPE_ASSERT(deferred_.empty() ? made_ == rule_->current() : made_ < rule_->current());
  rule_->check();
}

std::vector<worker_id> lead::waiting_for() const {
  return held_ ? std::vector<worker_id>{} : rule_->waiting_for();
}

lead_effects lead::translate(rule_effects decided) {
  const auto makes_version = [](const rule_effect& effect) { return std::holds_alternative<apply>(effect); };
  if (held_ && (!deferred_.empty() || std::ranges::any_of(decided, makes_version))) {
    deferred_.push_back(std::move(decided));
    return {};
  }
  lead_effects out;
  std::optional<report> holds;
  for (rule_effect& effect : decided)
    std::visit(
        [&]<class Effect>(Effect& e) {
          if constexpr (std::is_same_v<Effect, apply>) {
            out.emplace_back(as_close(e));
            if (!held_ && limit_reached(e.ver)) {
              held_ = true;
              limit_ = {};
              holds = report{.event = report::kind::held, .ver = e.ver, .samples = samples_applied_};
            }
          } else if constexpr (std::is_same_v<Effect, send_params>) {
            send(out, e);
          } else if constexpr (std::is_same_v<Effect, discard>) {
            if (const auto name = names_.find(e.tensor); name != names_.end())
              out.emplace_back(drop_order{name->second});
            forget(e.tensor);
          } else if constexpr (std::is_same_v<Effect, report>) {
            e.samples = samples_applied_;
            out.emplace_back(std::move(e));
          } else {
            out.emplace_back(std::move(e));
          }
        },
        effect);
  // Last, so that the coordinator hears of the round before it hears of the hold.
  if (holds)
    out.emplace_back(*std::move(holds));
  return out;
}

close lead::as_close(const apply& step) {
  close out{.epoch = step.epoch,
            .ver = step.ver,
            .keep = step.keep,
            .step = step.step,
            .samples_before = samples_applied_,
            .workers = step.workers,
            .send_epoch = step.epoch,
            .compensate = step.compensate};
  out.step.lr_scale *= plan_.lr_scale;
  for (const term& part : step.sum)
    if (const auto name = names_.find(part.tensor); name != names_.end())
      out.contributions.push_back({name->second, part.weight});
  for (const term& part : step.sum)
    if (!step.keep)
      forget(part.tensor);
  samples_applied_ += static_cast<std::uint64_t>(step.samples);
  made_ = step.ver;
  return out;
}

/// Sends with the close that has just made this version, if nothing travels with it yet; else in an order of its own.
void lead::send(lead_effects& out, const send_params& sending) {
  if (sending.to.empty())
    return;
  if (held_) {
    held_back_.push_back(sending);
    return;
  }
  for (lead_effect& effect : out)
    if (auto* made = std::get_if<close>(&effect); made && made->ver == sending.ver && made->send_to.empty()) {
      made->send_to = sending.to;
      made->send_epoch = sending.epoch;
      made->key = key_of(sending);
      made->position = sending.position;
      made->period = sending.period;
      return;
    }
  out.emplace_back(send_order{.epoch = sending.epoch,
                              .ver = sending.ver,
                              .key = key_of(sending),
                              .to = sending.to,
                              .position = sending.position,
                              .period = sending.period});
}

bool lead::limit_reached(version made) const {
  return limit_.now || (limit_.at_samples != 0 && samples_applied_ >= limit_.at_samples)
         || (limit_.at_version != 0 && made.value >= limit_.at_version);
}

void lead::forget(ticket known_as) {
  if (const auto name = names_.find(known_as); name != names_.end()) {
    open_.erase(name->second);
    names_.erase(name);
  }
}

} // namespace troupe::protocols
