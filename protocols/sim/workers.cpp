// SPDX-License-Identifier: BSD-3-Clause
// What workers of a simulated cluster do.
#include "protocols/sim/cluster.hpp"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "protocols/sim/cases.hpp"

namespace troupe::protocols::sim {

namespace {

using role = endpoint::role;

std::int64_t samples_in(const batch& of) {
  std::int64_t out = 0;
  for (const batch_part& part : of.parts)
    out += static_cast<std::int64_t>(part.end - part.begin);
  return out;
}

} // namespace

void cluster::on_worker(worker_seat& at, const message& what) {
  std::visit(cases{
                 [&](const plan_parcel& m) {
                   perform(at, at.machine->on(*m));
                   if (at.first_plan == plan_epoch{} && m->has(at.self)) {
                     at.first_plan = m->epoch;
                     for (const params_parcel& each : std::exchange(at.early, {}))
                       on_params(at, each);
                   }
                 },
                 [&](const params_parcel& m) { on_params(at, m); },
                 [&](const peer_parcel& m) { on_peer(at, m); },
                 [&](const fetch_order& m) { perform(at, at.machine->on(m)); },
                 [&](const computed& m) {
                   at.done_at = 0;
                   at.idle_since = now_;
                   perform(at, at.machine->on(m));
                 },
                 [&](const peer_down& m) { perform(at, at.machine->on(m)); },
                 [&](const expired& m) {
                   perform(at, at.machine->on(expired{m.timer, clock_.at(now_)}));
                 },
                 [](const auto&) {},
             },
             what);
}

/// A set is complete when every shard's part has come; its head is shard 0's.
void cluster::on_params(worker_seat& at, const params_parcel& what) {
  if (at.first_plan == plan_epoch{}) {
    at.early.push_back(what);
    return;
  }
  // A shard may not have heard yet that this worker's older life is gone: its parts must not be mixed with those of this one.
  if (what.what.epoch < at.first_plan)
    return;
  const std::uint32_t shards = options_.job.shards;
  incoming& set = at.incomplete[what.what.key];
  set.ranges.resize(shards);
  set.ranges.at(what.from.value) = what.range;
  if (what.from.value == 0)
    set.head = what.what;
  if (!set.shards.insert(what.from.value).second || set.shards.size() < shards)
    return;
  params head = set.head;
  head.parameters = {++at.last_ticket};
  at.parameters.emplace(head.parameters, kept_parameters{head, maths_.join(set.ranges)});
  at.incomplete.erase(at.incomplete.begin(), at.incomplete.upper_bound(head.key));
  perform(at, at.machine->on(head));
}

void cluster::perform(worker_seat& at, const worker_effects& effects) {
  for (const worker_effect& effect : effects)
    std::visit(cases{
                   [&](const compute& e) { begin(at, batch_of(at, e), nullptr); },
                   [&](const local_step& e) {
                     const local_step_rule how{e.proximal, e.dual, e.momentum};
                     begin(at, batch_of(at, e.what), &how);
                   },
                   [&](const adopt& e) { adopt_parameters(at, e); },
                   [&](const mix& e) {
                     at.maths->mix(operands_of(at, e.terms));
                     at.pushed = nullptr;
                   },
                   [&](const dual& e) { at.maths->dual(e.rho); },
                   [&](const send_push& e) { push_to_holders(at, e); },
                   [&](const send_peer& e) { send_replica(at, e); },
                   [&](const discard& e) {
                     if (at.replicas.erase(e.what) == 0)
                       broken(fmt::format("worker {} discards a ticket that it does not have", at.self.worker.value));
                   },
                   [&](const arm_timer& e) {
                     timers_.arm({role::worker, at.self.worker.value}, e, now_);
                   },
                   [&](const report& e) { note(e.text); },
               },
               effect);
}

void cluster::adopt_parameters(worker_seat& at, const adopt& what) {
  at.adopted = what.parameters;
  at.parameters.erase(at.parameters.begin(), at.parameters.lower_bound(what.parameters));
  const auto kept = at.parameters.find(what.parameters);
  if (kept == at.parameters.end())
    return broken(fmt::format("worker {} adopts parameters that it does not have", at.self.worker.value));
  const protocol_spec& protocol = plans_.at(kept->second.head.epoch)->protocol;
  if (!at.protocol.name.empty() && at.protocol != protocol)
    at.maths->forget_momentum();
  at.protocol = protocol;
  at.maths->adopt(kept->second.what);
}

/// Where the samples of a computation are.
batch cluster::batch_of(const worker_seat& at, const compute& what) const {
  const plan& with = *plans_.at(at.parameters.at(at.adopted).head.epoch);
  const std::uint64_t end = with.after(what.position, what.batches);
  batch out{.step = what.step,
            .position = what.position,
            .samples = end - what.position,
            .cuts = what.cuts,
            .workers = protocol_.centreless ? what.batches : static_cast<std::uint32_t>(with.workers.size())};
  for (const auto& [index, weight] : what.parts) {
    const std::uint64_t begin =
        what.position + out.samples / what.cuts * index + std::min<std::uint64_t>(index, out.samples % what.cuts);
    out.parts.push_back(
        {begin, begin + static_cast<std::uint64_t>(plan::cut_size(out.samples, what.cuts, index)), index, weight});
  }
  return out;
}

nanoseconds cluster::time_of(worker_seat& at, const batch& of) {
  const double share = static_cast<double>(samples_in(of)) / static_cast<double>(options_.job.batch);
  ++at.steps;
  const auto& measured = options_.measured.compute;
  if (measured.empty())
    return emulated_step(options_.inject, options_.seed, at.self.worker, of.step, share);
  const auto& own = measured[at.self.worker.value % measured.size()];
  return own.empty() ? 0 : static_cast<nanoseconds>(share * static_cast<double>(own[(at.steps - 1) % own.size()]) + 0.5);
}

/// Begins a gradient at the adopted parameters or, with `own_step`, a step on the worker's own: see `end`.
void cluster::begin(worker_seat& at, const batch& of, const local_step_rule* own_step) {
  worker_totals& totals = result_.workers[at.self.worker];
  if (const nanoseconds since = std::exchange(at.idle_since, -1); since >= 0)
    totals.waiting += now_ - since;
  computed done{.step = of.step, .samples = samples_in(of)};
  at.own_step.reset();
  if (done.samples > 0) {
    done.compute = time_of(at, of);
    if (own_step != nullptr) {
      at.own_step.emplace(of, *own_step);
    } else {
      const gradient found = at.maths->gradient_at(at.parameters.at(at.adopted).what, of);
      outcome_is(at, done, found);
      done.gradient = {++at.last_ticket};
      at.gradients.emplace(done.gradient, found.what);
    }
  }
  totals.computing += done.compute;
  at.outcome = done;
  at.done_at = std::max(now_, at.paused_until) + done.compute;
  for (listener* each : listeners_)
    each->computing(now_, at.done_at, at.self, of);
  const endpoint self{role::worker, at.self.worker.value};
  queue_.push(at.done_at, parcel{.from = self, .to = self, .what = done, .life = at.self.life, .generation = ++at.computation});
}

/// A step on the worker's own parameters is taken as it ends: who asks for them before gets them without it.
void cluster::end(worker_seat& at, computed& done) {
  if (const auto own = std::exchange(at.own_step, std::nullopt))
    outcome_is(at, done, at.maths->local_step(own->first, own->second));
}

void cluster::outcome_is(const worker_seat& at, computed& done, const gradient& found) const {
  const double chance = options_.tests.not_finite;
  done.loss = found.loss;
  done.finite = found.finite
                && !(chance > 0 && dice::keyed(options_.seed, at.self.worker.value, at.self.life.value, done.step).hit(chance));
}

std::vector<operand> cluster::operands_of(worker_seat& at, const std::vector<term>& sum) {
  std::vector<operand> out;
  for (const term& part : sum)
    if (part.what == own_parameters) {
      out.push_back({.from = operand::source::own, .weight = part.weight});
    } else if (part.what == dual_variable) {
      out.push_back({.from = operand::source::dual, .weight = part.weight});
    } else if (part.what == pushed_sum) {
      out.push_back({.what = at.pushed, .weight = part.weight});
    } else if (const auto kept = at.parameters.find(part.what); kept != at.parameters.end()) {
      out.push_back({.what = kept->second.what, .weight = part.weight});
    } else if (const auto other = at.replicas.find(part.what); other != at.replicas.end()) {
      out.push_back({.what = other->second, .weight = part.weight});
    } else {
      broken(fmt::format("worker {} uses a ticket that it does not have", at.self.worker.value));
    }
  return out;
}

void cluster::push_to_holders(worker_seat& at, const send_push& what) {
  tensor whole;
  const bool empty = what.what.samples == 0 || (what.sum.empty() && what.what.gradient == ticket{}); // a trailer alone
  if (!what.sum.empty() && !empty)
    whole = at.maths->sum(operands_of(at, what.sum));
  else if (const auto kept = at.gradients.extract(what.what.gradient))
    whole = kept.mapped();
  at.pushed = what.keep ? whole : nullptr;
  ++result_.workers[at.self.worker].pushes;
  push out = what.what;
  out.gradient = {};
  for (listener* each : listeners_)
    each->pushed(now_, out);
  const std::uint32_t shards = options_.job.shards;
  for (const holder_id target : at.targets) {
    const bool shard = holders_.at(target.value)->place.is_shard;
    const std::uint64_t bytes = empty ? 0 : shard ? options_.model_bytes / shards : options_.model_bytes;
    send({role::worker, at.self.worker.value}, {role::holder, target.value},
         push_parcel{out, whole && shard ? maths_.slice(whole, target.value, shards) : whole}, bytes);
  }
}

} // namespace troupe::protocols::sim
