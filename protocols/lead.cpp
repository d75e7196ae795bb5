// SPDX-License-Identifier: BSD-3-Clause
// The lead: collecting arrivals, translating a rule's effects, holding.
#include "protocols/lead.hpp"

#include <algorithm>
#include <iterator>
#include <limits>
#include <optional>
#include <type_traits>
#include <utility>

#include "kernels/assert.hpp"
#include "protocols/tree.hpp"

namespace troupe::protocols {

namespace {

/// Not older than any push of this incarnation.
push_id last_push_of(const worker_down& msg) {
  return {msg.worker, msg.incarnation, clock_tick{std::numeric_limits<clock_tick::rep>::max()}};
}

} // namespace

namespace {

plan at_rest(plan last) {
  last.epoch = last.rooted = {};
  last.workers.clear();
  last.gone.clear();
  return last;
}

} // namespace

lead_state at_rest(plan newest, version made, const worker_course& course) {
  return {.plan = at_rest(std::move(newest)),
          .samples_applied = course.samples,
          .made = made,
          .rule = allreduce_rule_state{.made = made, .samples = course.samples, .position = course.position}};
}

lead_state at_rest(plan newest, const step_count& made) {
  return {.plan = at_rest(std::move(newest)),
          .samples_applied = made.samples,
          .made = {made.steps},
          .rule = gossip_rule_state{.made = {made.steps}, .samples = made.samples}};
}

lead_state at_rest(lead_state state) {
  rule_state rule;
  if (const auto* rounds = std::get_if<round_rule_state>(&state.rule))
    rule = round_rule_state{.round = {.plan = rounds->round.plan, .base = rounds->round.base, .position = rounds->round.position},
                            .memory = rounds->memory};
  else if (const auto* pushes = std::get_if<push_rule_state>(&state.rule))
    rule = push_rule_state{.made = pushes->made, .position = pushes->position};
  else if (const auto* consensus = std::get_if<admm_state>(&state.rule)) {
    admm_state rest{.z = consensus->z};
    for (const auto& [who, known] : consensus->members) // each begins again with what it was sent last
      rest.members[{who.worker, {}}] = {.position = known.sent, .sent = known.sent};
    rule = std::move(rest);
  }
  return {.plan = at_rest(std::move(state.plan)),
          .samples_applied = state.samples_applied,
          .made = state.made,
          .rule = std::move(rule)};
}

lead::lead(std::unique_ptr<rule> decides, const tree_shape& tree, bool per_push, lead_state from)
    : rule_(std::move(decides)), tree_(tree), per_push_(per_push), state_(std::move(from)) {
  for (const auto& [id, entry] : state_.open)
    if (entry.known_as != ticket{})
      names_.emplace(entry.known_as, id);
  rule_->restore(std::exchange(state_.rule, {}));
  learn_places();
}

lead::~lead() = default;

lead_effects lead::on(const plan& msg) {
  if (msg.epoch > state_.plan.epoch) {
    state_.plan = msg;
    // Pushes of workers forgotten here are refused as foreign from now on.
    std::erase_if(state_.newest, [this](const auto& seen) { return state_.plan.rank_of(seen.first) < 0; });
    learn_places();
  }
  return translate(rule_->on(msg));
}

void lead::learn_places() {
  shard_ = holder_tree(tree_, state_.plan.gone).front();
}

bool lead::is_complete(const push_id& id, const open_push& entry) const {
  const bool every_shard = !per_push_ && takes(shard_, id.worker);
  return entry.reported.size() >= (every_shard ? tree_.shards : 1);
}

lead_effects lead::on(const arrival& msg) {
  if (state_.held) {
    state_.parked.push_back(msg);
    return {};
  }
  const push_id id = msg.push.id;
  auto known = state_.open.find(id);
  if (known == state_.open.end()) {
    const auto seen = state_.newest.find(id.worker);
    const bool decided = seen != state_.newest.end() && id <= seen->second;
    const bool foreign = msg.push.epoch <= state_.plan.epoch && !state_.plan.has({id.worker, id.incarnation});
    // Its holder need not keep it: the push is decided, or can never be complete.
    if (decided || foreign)
      return {drop_order{id}};
    known = state_.open.try_emplace(id).first;
  }
  open_push& entry = known->second;
  if (entry.known_as != ticket{} || !entry.reported.insert(msg.holder).second || !is_complete(id, entry))
    return {};

  entry.known_as = ticket{++state_.last_ticket.value};
  names_.emplace(entry.known_as, id);
  state_.newest.insert_or_assign(id.worker, id);
  push complete = msg.push;
  complete.gradient = entry.known_as;
  lead_effects out = drop_older(id);
  for (lead_effect& effect : translate(rule_->on(complete)))
    out.emplace_back(std::move(effect));
  return out;
}

/// Its worker has pushed again, so it was answered: a lead before this one decided about what is not complete.
lead_effects lead::drop_older(const push_id& than) {
  lead_effects out;
  for (auto older = state_.open.lower_bound({than.worker, {}, {}}); older != state_.open.end() && older->first < than;)
    if (older->second.known_as == ticket{}) {
      out.emplace_back(drop_order{older->first});
      older = state_.open.erase(older);
    } else {
      ++older;
    }
  return out;
}

lead_effects lead::on(const worker_down& msg) {
  push_id& seen = state_.newest[msg.worker];
  seen = std::max(seen, last_push_of(msg));
  lead_effects out;
  // A holder that has not reported a push yet never will: it drops what is incomplete.
  std::erase_if(state_.open, [&](const auto& entry) {
    const auto& [id, state] = entry;
    const bool never_complete = id.worker == msg.worker && id.incarnation == msg.incarnation && state.known_as == ticket{};
    if (never_complete)
      out.emplace_back(drop_order{id});
    return never_complete;
  });
  const auto do_not_send = [&](send_params& waiting) {
    if (state_.plan.has({msg.worker, msg.incarnation}))
      std::erase(waiting.to, msg.worker);
  };
  std::ranges::for_each(state_.held_back, do_not_send);
  for (rule_effects& effects : state_.deferred)
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
  state_.limit = msg;
  return {};
}

lead_effects lead::on(const resume_order& msg) {
  if (state_.held && state_.made > msg.held) // the last lead's report of it was lost
    return {report{.event = report::kind::held, .ver = state_.made, .samples = state_.samples_applied}};
  if (!std::exchange(state_.held, false))
    return {};
  lead_effects out;
  for (const send_params& sending : std::exchange(state_.held_back, {}))
    send(out, sending);
  for (rule_effects& decided : std::exchange(state_.deferred, {}))
    for (lead_effect& effect : translate(std::move(decided)))
      out.emplace_back(std::move(effect));
  for (const arrival& msg : std::exchange(state_.parked, {}))
    for (lead_effect& effect : on(msg))
      out.emplace_back(std::move(effect));
  return out;
}

lead_effects lead::on(const fetch_order&) {
  return {send_order{.epoch = state_.plan.epoch, .ver = current(), .key = ++state_.sends, .to = {evaluator}}};
}

lead_effects lead::on(const checkpoint_order& msg) {
  state_.checkpoint_at = msg.at;
  return {};
}

version lead::current() const {
  return state_.made;
}

lead_state lead::state() const {
  lead_state out = state_;
  out.rule = rule_->state();
  return out;
}

void lead::check() const {
  std::size_t known = 0;
  for (const auto& [id, entry] : state_.open) {
    TROUPE_ASSERT(!entry.reported.empty());
    const bool is_known = entry.known_as != ticket{};
    // Whom an aggregator that is gone had reported pushes to more holders now.
    TROUPE_ASSERT(is_complete(id, entry) ? is_known : !is_known || !state_.plan.gone.empty());
    TROUPE_ASSERT(!is_known || names_.at(entry.known_as) == id);
    known += is_known ? 1 : 0;
  }
  TROUPE_ASSERT(names_.size() == known);
  TROUPE_ASSERT(state_.held || (state_.held_back.empty() && state_.parked.empty() && state_.deferred.empty()));
  TROUPE_ASSERT(state_.deferred.empty() ? state_.made == rule_->current() : state_.made < rule_->current());
  rule_->check();
}

std::vector<worker_id> lead::waiting_for() const {
  return state_.held ? std::vector<worker_id>{} : rule_->waiting_for();
}

lead_effects lead::translate(rule_effects decided) {
  const auto makes_version = [](const rule_effect& effect) { return std::holds_alternative<apply>(effect); };
  lead_effects out;
  if (state_.held && (!state_.deferred.empty() || std::ranges::any_of(decided, makes_version))) {
    for (const rule_effect& effect : decided) // of the parameters that it holds for, too, so nobody will end the hold
      if (const auto* fact = std::get_if<report>(&effect); fact != nullptr && fact->event == report::kind::lost)
        out.emplace_back(*fact);
    state_.deferred.push_back(std::move(decided));
    return out;
  }
  std::optional<report> holds;
  std::optional<round_record> made;
  bool marks = false;
  for (auto next = decided.begin(); next != decided.end(); ++next) {
    if (state_.held && makes_version(*next)) { // it holds at one before
      state_.deferred.emplace_back(std::move_iterator(next), std::move_iterator(decided.end()));
      break;
    }
    std::visit(
        [&]<class Effect>(Effect& e) {
          if constexpr (std::is_same_v<Effect, apply>) {
            close round = as_close(e);
            if (records_)
              made = round_record{e.ver, e.epoch, e.position, round.samples_before, round.step.lr_scale, round.contributions};
            if (!state_.held && limit_reached(e.ver)) {
              state_.held = true;
              if (!per_push_ && state_.limit.saves_at(e.ver))
                state_.checkpoint_at = std::min(state_.checkpoint_at, e.ver);
              state_.limit = {};
              holds = report{.event = report::kind::held, .ver = e.ver, .samples = state_.samples_applied};
            }
            // A rule that decided during a hold may be further than this version.
            round.checkpoint = marks = e.ver >= state_.checkpoint_at && rule_->current() == e.ver;
            if (marks)
              state_.checkpoint_at = no_checkpoint;
            out.emplace_back(std::move(round));
          } else if constexpr (std::is_same_v<Effect, send_params>) {
            send(out, e);
          } else if constexpr (std::is_same_v<Effect, discard>) {
            if (const auto name = names_.find(e.tensor); name != names_.end())
              out.emplace_back(drop_order{name->second});
            forget(e.tensor);
          } else if constexpr (std::is_same_v<Effect, report>) {
            e.samples = state_.samples_applied;
            if (e.event == report::kind::round_closed)
              e.made = std::exchange(made, {});
            out.emplace_back(std::move(e));
          } else {
            out.emplace_back(std::move(e));
          }
        },
        *next);
  }
  if (marks)
    marked_ = at_rest(state());
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
            .samples_before = state_.samples_applied,
            .workers = step.workers,
            .send_epoch = step.epoch,
            .compensate = step.compensate};
  out.step.lr_scale *= state_.plan.lr_scale;
  for (const term& part : step.sum)
    if (const auto name = names_.find(part.tensor); name != names_.end())
      out.contributions.push_back({name->second, part.weight});
  for (const term& part : step.sum)
    if (!step.keep)
      forget(part.tensor);
  state_.samples_applied += static_cast<std::uint64_t>(step.samples);
  state_.made = step.ver;
  return out;
}

/// Sends with the close that has just made this version, if nothing travels with it yet; else in an order of its own.
void lead::send(lead_effects& out, const send_params& sending) {
  if (sending.to.empty())
    return;
  if (state_.held) {
    state_.held_back.push_back(sending);
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
  return state_.limit.now || (state_.limit.at_samples != 0 && state_.samples_applied >= state_.limit.at_samples)
         || (state_.limit.at_version != 0 && made.value >= state_.limit.at_version);
}

void lead::forget(ticket known_as) {
  if (const auto name = names_.find(known_as); name != names_.end()) {
    state_.open.erase(name->second);
    names_.erase(name);
  }
}

} // namespace troupe::protocols
