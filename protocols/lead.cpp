// SPDX-License-Identifier: BSD-3-Clause
// The lead: gathering, translation of a rule's effects, holding.
#include "protocols/lead.hpp"

#include <algorithm>
#include <limits>
#include <optional>
#include <type_traits>
#include <utility>

#include "kernels/assert.hpp"

namespace troupe::protocols {

namespace {

/// Later than every push of this life.
push_id end_of(const worker_down& msg) {
  return {msg.worker, msg.life, clock_tick{std::numeric_limits<clock_tick::rep>::max()}};
}

} // namespace

lead::lead(std::unique_ptr<rule> decides, std::uint32_t holders_per_push, bool per_push)
    : rule_(std::move(decides)), holders_per_push_(holders_per_push), per_push_(per_push) {}

lead::~lead() = default;

lead_effects lead::on(const plan& msg) {
  if (msg.epoch > plan_.epoch) {
    plan_ = msg;
    // What is forgotten here is refused as foreign from now on.
    std::erase_if(newest_, [this](const auto& seen) { return plan_.rank_of(seen.first) < 0; });
  }
  return translate(rule_->on(msg));
}

lead_effects lead::on(const arrival& msg) {
  if (held_) {
    parked_.push_back(msg);
    return {};
  }
  const push_id id = msg.what.id;
  auto known = open_.find(id);
  if (known == open_.end()) {
    const auto seen = newest_.find(id.worker);
    const bool decided = seen != newest_.end() && id <= seen->second;
    const bool foreign = msg.what.epoch <= plan_.epoch && !plan_.has({id.worker, id.life});
    // Its holder keeps it for nothing: the push is decided, or can never be complete.
    if (decided || foreign)
      return {drop_order{id}};
    known = open_.try_emplace(id).first;
  }
  gathering& push_of_id = known->second;
  if (push_of_id.known_as != ticket{} || !push_of_id.reported.insert(msg.holder).second
      || push_of_id.reported.size() < holders_per_push_)
    return {};

  push_of_id.known_as = ticket{++last_ticket_.value};
  names_.emplace(push_of_id.known_as, id);
  newest_.insert_or_assign(id.worker, id);
  push complete = msg.what;
  complete.gradient = push_of_id.known_as;
  return translate(rule_->on(complete));
}

lead_effects lead::on(const worker_down& msg) {
  push_id& seen = newest_[msg.worker];
  seen = std::max(seen, end_of(msg));
  lead_effects out;
  // What some holder has not reported yet it never will: it drops what is incomplete.
  std::erase_if(open_, [&](const auto& entry) {
    const auto& [id, state] = entry;
    const bool never_complete = id.worker == msg.worker && id.life == msg.life && state.known_as == ticket{};
    if (never_complete)
      out.emplace_back(drop_order{id});
    return never_complete;
  });
  const auto do_not_send = [&](send_params& waiting) {
    if (plan_.has({msg.worker, msg.life}))
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
  for (const send_params& what : std::exchange(held_back_, {}))
    send(out, what);
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
  for (const auto& [id, push_of_id] : open_) {
    TROUPE_ASSERT(!push_of_id.reported.empty());
    const bool complete = push_of_id.reported.size() >= holders_per_push_;
    TROUPE_ASSERT(complete == (push_of_id.known_as != ticket{}));
    TROUPE_ASSERT(!complete || names_.at(push_of_id.known_as) == id);
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
        [&]<class Effect>(Effect& what) {
          if constexpr (std::is_same_v<Effect, apply>) {
            out.emplace_back(as_close(what));
            if (!held_ && limit_reached(what.ver)) {
              held_ = true;
              limit_ = {};
              holds = report{.what = report::kind::held, .ver = what.ver, .samples = samples_applied_};
            }
          } else if constexpr (std::is_same_v<Effect, send_params>) {
            send(out, what);
          } else if constexpr (std::is_same_v<Effect, discard>) {
            if (const auto name = names_.find(what.what); name != names_.end())
              out.emplace_back(drop_order{name->second});
            forget(what.what);
          } else if constexpr (std::is_same_v<Effect, report>) {
            what.samples = samples_applied_;
            out.emplace_back(std::move(what));
          } else {
            out.emplace_back(std::move(what));
          }
        },
        effect);
  // Last, so that whoever hears it has heard what the round was.
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
    if (const auto name = names_.find(part.what); name != names_.end())
      out.contributions.push_back({name->second, part.weight});
  for (const term& part : step.sum)
    if (!step.keep)
      forget(part.what);
  samples_applied_ += static_cast<std::uint64_t>(step.samples);
  made_ = step.ver;
  return out;
}

/// Sends with the close that has just made this version, where nothing travels with it yet; else on its own.
void lead::send(lead_effects& out, const send_params& what) {
  if (what.to.empty())
    return;
  if (held_) {
    held_back_.push_back(what);
    return;
  }
  for (lead_effect& effect : out)
    if (auto* made = std::get_if<close>(&effect); made && made->ver == what.ver && made->send_to.empty()) {
      made->send_to = what.to;
      made->send_epoch = what.epoch;
      made->key = key_of(what);
      made->position = what.position;
      made->period = what.period;
      return;
    }
  out.emplace_back(send_order{.epoch = what.epoch,
                              .ver = what.ver,
                              .key = key_of(what),
                              .to = what.to,
                              .position = what.position,
                              .period = what.period});
}

bool lead::limit_reached(version made) const {
  return limit_.now || (limit_.at_samples != 0 && samples_applied_ >= limit_.at_samples)
         || (limit_.at_version != 0 && made.value >= limit_.at_version);
}

void lead::forget(ticket what) {
  if (const auto name = names_.find(what); name != names_.end()) {
    open_.erase(name->second);
    names_.erase(name);
  }
}

} // namespace troupe::protocols
