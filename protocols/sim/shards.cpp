// SPDX-License-Identifier: BSD-3-Clause
// What shards, aggregators and leads of a simulated cluster do.
#include "protocols/sim/cluster.hpp"

#include <algorithm>
#include <type_traits>
#include <utility>

#include <fmt/format.h>

#include "kernels/assert.hpp"
#include "protocols/sim/cases.hpp"
#include "protocols/sim/text.hpp"

namespace troupe::protocols::sim {

namespace {

using role = endpoint::role;

} // namespace

void cluster::on_holder(holder_seat& at, const message& what) {
  // What the coordinator tells a shard, its lead hears after its holder.
  const auto both = [&](const auto& m) {
    perform(at, at.machine.on(m));
    if (at.decides)
      perform_as_lead(at, at.decides->on(m));
  };
  std::visit(cases{
                 [&](const plan_parcel& m) { both(*m); },
                 [&](const worker_down& m) { both(m); },
                 [&](const holder_down& m) { perform(at, at.machine.on(m)); },
                 [&](const close& m) { perform(at, at.machine.on(m)); },
                 [&](const send_order& m) { perform(at, at.machine.on(m)); },
                 [&](const drop_order& m) { perform(at, at.machine.on(m)); },
                 [&](const push_parcel& m) {
                   push here = m.what;
                   here.gradient = here.samples > 0 ? keep(at, here.id, m.gradient) : ticket{};
                   here.at = clock_.at(now_);
                   perform(at, at.machine.on(here));
                 },
                 [&](const partial_parcel& m) {
                   partial here = m.what;
                   if (here.sum != ticket{})
                     here.sum = keep(at, {}, m.sum);
                   perform(at, at.machine.on(here));
                 },
                 [](const auto&) {},
             },
             what);
}

void cluster::on_lead(holder_seat& at, const message& what) {
  TROUPE_ASSERT(at.decides);
  std::visit(cases{
                 [&](const arrival& m) {
                   arrival here = m;
                   here.what.at = clock_.at(now_);
                   if (at.decides->held())
                     parked_at_lead_.insert(m.what.id);
                   perform_as_lead(at, at.decides->on(here));
                 },
                 [&](const hold_order& m) { perform_as_lead(at, at.decides->on(m)); },
                 [&](const resume_order& m) {
                   const lead_effects effects = at.decides->on(m);
                   still_parked(*at.decides, effects);
                   head_start_ = clock_.at(now_) - decided_at_;
                   perform_as_lead(at, effects);
                   head_start_ = 0;
                 },
                 [&](const fetch_order& m) { perform_as_lead(at, at.decides->on(m)); },
                 [&](const expired& m) {
                   perform_as_lead(at, at.decides->on(expired{m.timer, clock_.at(now_)}));
                 },
                 [](const auto&) {},
             },
             what);
}

/// What came while the lead held is decided now, unless it holds again before it has come to that.
void cluster::still_parked(const lead& at, const lead_effects& effects) {
  if (!at.held())
    parked_at_lead_.clear();
  for (const lead_effect& effect : effects)
    if (const auto* round = std::get_if<close>(&effect))
      for (const contribution& part : round->contributions)
        parked_at_lead_.erase(part.id);
    else if (const auto* drop = std::get_if<drop_order>(&effect))
      parked_at_lead_.erase(drop->id);
}

ticket cluster::keep(holder_seat& at, const push_id& id, tensor what) {
  const ticket name{++at.last_ticket};
  at.kept.emplace(name, kept_push{id, std::move(what)});
  return name;
}

/// The terms of a sum, in their order; the tickets go, unless they are named again.
std::vector<operand> cluster::take(holder_seat& at, const std::vector<term>& sum, bool keep) {
  std::vector<operand> out;
  for (const term& part : sum) {
    const auto found = at.kept.find(part.what);
    if (found == at.kept.end()) {
      broken(fmt::format("holder {} uses a ticket that it does not have", at.place.self.value));
      continue;
    }
    out.push_back({.what = found->second.what, .weight = part.weight});
    if (!keep || found->second.id == push_id{})
      at.kept.erase(found);
  }
  return out;
}

void cluster::perform(holder_seat& at, const holder_effects& effects) {
  const endpoint self{role::holder, at.place.self.value};
  for (const holder_effect& effect : effects)
    std::visit(cases{
                   [&](const send_arrival& e) {
                     if (e.what.what.gradient != ticket{})
                       broken("a ticket leaves its holder");
                     if (!at.decides)
                       return send(self, {role::lead, 0}, e.what);
                     const endpoint own_lead{role::lead, at.place.self.value};
                     tell_listeners(self, own_lead, e.what);
                     on_lead(at, e.what);
                   },
                   [&](const apply_round& e) { apply(at, e); },
                   [&](const forward& e) { forward_sum(at, e); },
                   [&](const serve& e) {
                     send_parameters(at, e.what.to,
                                     {.epoch = e.what.epoch,
                                      .ver = e.what.ver,
                                      .key = e.what.key,
                                      .position = e.what.position,
                                      .period = e.what.period});
                   },
                   [&](const discard& e) {
                     if (at.kept.erase(e.what) == 0)
                       broken(fmt::format("holder {} discards a ticket that it does not have", at.place.self.value));
                   },
                   [&](const retain& e) {
                     at.retained[e.as] = at.maths->parameters();
                     for (listener* each : listeners_)
                       each->retaining(at.place.self, at.retained.size());
                   },
                   [&](const release& e) {
                     if (at.retained.erase(e.what) == 0)
                       broken(fmt::format("holder {} releases a ticket that it does not have", at.place.self.value));
                   },
                   [&](const report& e) {
                     if (e.what == report::kind::note)
                       broken(e.text);
                     if (e.what != report::kind::held)
                       return;
                     clock_.stand_still(now_);
                     on_report(at, e);
                   },
               },
               effect);
}

void cluster::apply(holder_seat& at, const apply_round& what) {
  const std::vector<operand> sum = take(at, what.sum, what.round.keep);
  at.free_at = std::max(at.free_at, now_) + (sum.empty() ? 0 : options_.measured.apply);
  for (listener* each : listeners_)
    each->applying(now_, at.free_at, at.place.self, what.round, sum);
  tensor backup;
  if (const ticket name = what.round.compensate.backup; name != ticket{}) {
    if (const auto kept = at.retained.find(name); kept != at.retained.end())
      backup = kept->second;
    else
      broken(fmt::format("holder {} compensates with parameters that it does not keep", at.place.self.value));
  }
  // Without a term the version advances, and the parameters stay as they are.
  if (!sum.empty())
    at.maths->step(sum, what.round, backup);
  send_parameters(at, what.round.send_to,
                  {.epoch = what.round.send_epoch,
                   .ver = what.round.ver,
                   .key = what.round.key,
                   .position = what.round.position,
                   .period = what.round.period});
}

void cluster::forward_sum(holder_seat& at, const forward& what) {
  const std::vector<operand> sum = take(at, what.sum, what.round.keep);
  const tensor whole = sum.empty() ? tensor{} : maths_.sum(sum);
  for (const holder_id parent : at.place.parents) {
    const bool shard = holders_.at(parent.value)->place.is_shard;
    const std::uint32_t shards = options_.job.shards;
    const std::uint64_t bytes = sum.empty() ? 0 : shard ? options_.model_bytes / shards : options_.model_bytes;
    send({role::holder, at.place.self.value}, {role::holder, parent.value},
         partial_parcel{{at.place.self, what.round.ver, ticket{sum.empty() ? 0U : 1U}},
                        whole && shard ? maths_.slice(whole, parent.value, shards) : whole},
         bytes);
  }
}

void cluster::send_parameters(holder_seat& at, const std::vector<worker_id>& to, const params& head) {
  if (to.empty())
    return;
  const tensor range = at.maths->parameters();
  const endpoint self{role::holder, at.place.self.value};
  const params_parcel part{at.place.self, head, range};
  for (const worker_id who : to)
    if (who == evaluator)
      send(self, the_evaluator, part, 0, std::max(now_, at.free_at));
    else if (who.value < workers_.size())
      send(self, {role::worker, who.value}, part, options_.model_bytes / options_.job.shards, std::max(now_, at.free_at));
}

/// Everyone else first: they work while this shard does. Parameters that were held back are ordered as if the close had done so.
template <class Order>
void cluster::order(holder_seat& at, const Order& what, bool everywhere) {
  const endpoint lead_here{role::lead, at.place.self.value};
  const nanoseconds left = now_ - (std::is_same_v<Order, send_order> ? head_start_ : 0);
  if (everywhere)
    for (const auto& other : holders_)
      if (other.get() != &at)
        send(lead_here, {role::holder, other->place.self.value}, what, 0, left);
  tell_listeners(lead_here, {role::holder, at.place.self.value}, what);
  perform(at, at.machine.on(what));
}

void cluster::perform_as_lead(holder_seat& at, const lead_effects& effects) {
  const bool of_the_job = at.place.self.value == 0;
  if (of_the_job && !at.decides->held() && !clock_.running()) {
    last_progress_ = now_;
    clock_.go_on(now_);
    timers_.resume(now_);
    for (const auto& each : workers_)
      if (protocol_.centreless)
        unpark(*each);
  }
  for (listener* each : listeners_)
    each->decided(now_, at.place.self, *at.decides, effects);
  const bool rounds = !protocol_.per_push;
  for (const lead_effect& effect : effects)
    std::visit(cases{
                   [&](const close& e) {
                     if (of_the_job)
                       last_progress_ = now_;
                     order(at, e, rounds);
                   },
                   [&](const send_order& e) {
                     // An evaluation takes every shard's parameters, whoever decides about them.
                     order(at, e, rounds || std::ranges::count(e.to, evaluator) > 0);
                   },
                   [&](const drop_order& e) { order(at, e, rounds); },
                   [&](const retain& e) { perform(at, at.machine.on(e)); },
                   [&](const release& e) { perform(at, at.machine.on(e)); },
                   [&](const arm_timer& e) {
                     timers_.arm({role::lead, at.place.self.value}, e, now_);
                   },
                   [&](const report& e) {
                     if (e.what != report::kind::held)
                       return on_report(at, e);
                     decided_at_ = clock_.at(now_);
                     perform(at, at.machine.on(e));
                   },
               },
               effect);
}

/// Reports are the lead shard's.
void cluster::on_report(holder_seat& at, report what) {
  if (at.place.self.value != 0)
    return;
  using kind = report::kind;
  const endpoint self{role::lead, 0};
  switch (what.what) {
  case kind::round_closed:
    result_.gradients += what.contributions;
    if (what.contributions > 0)
      result_.staleness[what.staleness] += what.contributions;
    break;
  case kind::push_discarded:
  case kind::push_refused:
  case kind::push_not_finite:
    ++result_.gradients;
    ++result_.discarded;
    break;
  case kind::held:
    return send(self, {role::coordinator}, held{.ver = what.ver, .samples = what.samples, .at = clock_.at(now_)});
  case kind::note:
    note(what.text);
    break;
  }
  send(self, {role::coordinator}, std::move(what));
}

} // namespace troupe::protocols::sim
