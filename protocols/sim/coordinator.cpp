// SPDX-License-Identifier: BSD-3-Clause
// What the coordinator and the evaluator of a simulated cluster do.
#include "protocols/sim/cluster.hpp"

#include <utility>

#include "protocols/sim/cases.hpp"

namespace troupe::protocols::sim {

namespace {

using role = endpoint::role;

} // namespace

void cluster::on_coordinator(const message& what) {
  std::visit(cases{
                 [this](const joined& m) { perform(coordinator_.on(m)); },
                 [this](const down& m) { perform(coordinator_.on(m)); },
                 [this](const holder_down& m) { perform(coordinator_.on(m)); },
                 [this](const held& m) { perform(coordinator_.on(m)); },
                 [this](const evaluated& m) { on_evaluated(m); },
                 [this](const report& m) { perform(coordinator_.on(m)); },
                 [this](const expired& m) {
                   perform(coordinator_.on(expired{m.timer, clock_.at(now_)}));
                 },
                 [](const auto&) {},
             },
             what);
}

void cluster::tell_holders(const message& what) {
  for (const auto& at : holders_)
    send(the_coordinator, {role::holder, at->place.self.value}, what);
}

void cluster::perform(const coordinator_effects& effects) {
  const endpoint the_lead{role::lead, 0};
  for (const coordinator_effect& effect : effects)
    std::visit(cases{
                   [&](const send_plan& e) {
                     const auto shared = std::make_shared<const plan>(e.what);
                     plans_[e.what.epoch] = shared;
                     tell_holders(shared);
                     for (const auto& at : workers_)
                       send(the_coordinator, {role::worker, at->self.worker.value}, shared);
                   },
                   [&](const send_worker_down& e) {
                     tell_holders(e.what);
                     for (const auto& at : workers_)
                       if (protocol_.centreless)
                         send(the_coordinator, {role::worker, at->self.worker.value}, peer_down{e.what.worker});
                   },
                   [&](const send_holder_down& e) { tell_holders(e.what); },
                   [&](const hold& e) { send(the_coordinator, the_lead, e.what); },
                   [&](const evaluate& e) {
                     if (protocol_.centreless)
                       collect_replicas(e.ver);
                     else
                       send(the_coordinator, the_lead, fetch_order{e.ver});
                   },
                   [&](const resume&) { send(the_coordinator, the_lead, resume_order{}); },
                   [&](const say& e) { note(e.text); },
                   [&](const stop& e) {
                     ended_ = true;
                     result_.failed = e.failed;
                     result_.reason = e.reason;
                     for (listener* each : listeners_)
                       each->stopped(now_, e);
                   },
                   [&](const arm_timer& e) { timers_.arm(the_coordinator, e, now_); },
               },
               effect);
}

void cluster::on_evaluator(const message& what) {
  if (const auto* part = std::get_if<params_parcel>(&what))
    on_fetched(*part);
  else if (const auto* replica = std::get_if<peer_parcel>(&what))
    on_collected(*replica);
}

/// Puts together what all shards have sent.
void cluster::on_fetched(const params_parcel& what) {
  if (what.what.key <= evaluated_)
    return;
  incoming& set = fetched_[what.what.key];
  set.ranges.resize(options_.job.shards);
  set.ranges.at(what.from.value) = what.range;
  if (what.from.value == 0)
    set.head = what.what;
  if (!set.shards.insert(what.from.value).second || set.shards.size() < options_.job.shards)
    return;
  const tensor whole = maths_.join(set.ranges);
  const version ver = set.head.ver;
  evaluated_ = what.what.key;
  fetched_.erase(fetched_.begin(), fetched_.upper_bound(evaluated_));
  evaluate_whole(ver, whole);
}

/// In no time.
void cluster::evaluate_whole(version ver, const tensor& whole, std::vector<std::pair<member, step_count>> made) {
  const evaluation found = maths_.evaluate(whole);
  send(the_evaluator, the_coordinator,
       evaluated{.ver = ver,
                 .train_loss = found.train_loss,
                 .test_loss = found.test_loss,
                 .test_accuracy = found.test_accuracy,
                 .at = clock_.at(now_),
                 .made = std::move(made)});
}

void cluster::on_evaluated(const evaluated& what) {
  const coordinator_effects effects = coordinator_.on(what);
  if (!effects.empty() && !ended_)
    result_.curve.push_back({what.at,
                             coordinator_.held_version(),
                             coordinator_.held_samples(),
                             {.train_loss = what.train_loss, .test_loss = what.test_loss, .test_accuracy = what.test_accuracy}});
  perform(effects);
}

} // namespace troupe::protocols::sim
