// SPDX-License-Identifier: BSD-3-Clause
// What the coordinator and the evaluator of a simulated cluster do.
#include <utility>

#include "protocols/sim/cases.hpp"
#include "protocols/sim/seats.hpp"

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
  if (checks_)
    coordinator_.check();
  const endpoint the_lead{role::lead, 0};
  for (const coordinator_effect& effect : effects)
    std::visit(cases{
                   [&](const send_plan& e) {
                     const auto shared = std::make_shared<const plan>(e.plan);
                     tell_holders(shared);
                     for (const auto& at : workers_)
                       send(the_coordinator, {role::worker, at->self.worker.value}, shared);
                     if (protocol_.decentralized)
                       evaluate_average(collection_.on(*shared));
                   },
                   [&](const send_worker_down& e) { tell_holders(e.notice); },
                   [&](const send_holder_down& e) { tell_holders(e.notice); },
                   [&](const hold& e) { send(the_coordinator, the_lead, e.order); },
                   [&](const evaluate& e) {
                     if (protocol_.decentralized)
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
    evaluate_average(collection_.on(replica->what, replica->what.weight > 0 ? std::optional{replica->data} : std::nullopt));
}

/// Puts together what all shards have sent.
void cluster::on_fetched(const params_parcel& what) {
  if (what.what.key <= evaluated_)
    return;
  incoming& set = fetched_[what.what.key];
  set.parts.try_emplace(what.from, what);
  if (set.parts.size() < options_.job.shards)
    return;
  std::vector<tensor> ranges;
  for (const auto& [shard, part] : set.parts)
    ranges.push_back(part.range);
  const tensor whole = maths_.join(ranges);
  const version ver = set.parts.begin()->second.what.ver; // the lead shard's
  evaluated_ = what.what.key;
  fetched_.erase(fetched_.begin(), fetched_.upper_bound(evaluated_));
  evaluate_whole(ver, whole);
}

/// Where there is no centre. Asked again when somebody has died: who has answered need not.
void cluster::collect_replicas(version ver) {
  const fetch_order order{ver};
  const auto done = collection_.on(order);
  for (const member who : collection_.missing())
    send(the_coordinator, {role::worker, who.worker.value}, order);
  evaluate_average(done);
}

/// Where nobody has a replica yet, all are at the first parameters.
void cluster::evaluate_average(const std::optional<replica_collection<tensor>::average>& whole) {
  if (!whole)
    return;
  if (!whole->terms.empty())
    return evaluate_whole(whole->ver, maths_.sum(whole->terms), whole->made);
  std::vector<tensor> ranges;
  for (std::uint32_t shard = 0; shard < options_.job.shards; ++shard)
    ranges.push_back(holders_.at(shard)->parameters());
  evaluate_whole(whole->ver, maths_.join(ranges), whole->made);
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
