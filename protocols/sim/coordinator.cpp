// SPDX-License-Identifier: BSD-3-Clause
// What the coordinator and the evaluator of a simulated cluster do.
#include <utility>

#include "kernels/assert.hpp"
#include "protocols/sim/cases.hpp"
#include "protocols/sim/holders.hpp"
#include "protocols/sim/roles.hpp"

namespace troupe::protocols::sim {

namespace {

using role = endpoint::role;

} // namespace

void cluster::coordinator_role::hear(const message& msg) {
  std::visit(cases{
                 [this](const evaluated& found) { on_evaluated(found); },
                 [this](const expired& msg) {
                   perform(machine.on(expired{msg.timer, in.clock_.now()}));
                 },
                 [this](const auto& other) {
                   if constexpr (requires { machine.on(other); })
                     perform(machine.on(other));
                 },
             },
             msg);
}

void cluster::coordinator_role::on_evaluated(const evaluated& found) {
  TROUPE_ASSERT(found.at <= in.clock_.now());
  const coordinator_effects effects = machine.on(found);
  if (!effects.empty() && !in.ended_)
    in.result_.curve.push_back(
        {found.at,
         machine.held_version(),
         machine.held_samples(),
         {.train_loss = found.train_loss, .test_loss = found.test_loss, .test_accuracy = found.test_accuracy}});
  perform(effects);
}

void cluster::coordinator_role::tell_holders(const message& msg) {
  for (const holder_role* holder : in.holders_->here())
    in.send(the_coordinator, {role::holder, holder->place.self.value}, msg);
}

void cluster::coordinator_role::perform(const coordinator_effects& effects) {
  if (in.checks_)
    machine.check();
  const endpoint the_lead{role::lead, 0};
  for (const coordinator_effect& effect : effects)
    std::visit(cases{
                   [&](const send_plan& e) {
                     const auto shared = std::make_shared<const plan>(e.plan);
                     tell_holders(shared);
                     for (const auto& worker : in.workers_)
                       in.send(the_coordinator, {role::worker, worker->self.worker.value}, shared);
                     in.evaluator_->plan_changes(*shared);
                   },
                   [&](const send_worker_down& e) { tell_holders(e.notice); },
                   [&](const send_holder_down& e) { tell_holders(e.notice); },
                   [&](const send_takes_over& e) {
                     in.holders_->take_over(e.notice);
                     tell_holders(e.notice);
                     for (const auto& worker : in.workers_)
                       in.send(the_coordinator, {role::worker, worker->self.worker.value}, e.notice);
                   },
                   [&](const send_new_backup& e) { in.send(the_coordinator, the_lead, e.notice); },
                   [&](const hold& e) { in.send(the_coordinator, the_lead, e.order); },
                   [&](const evaluate& e) {
                     if (in.protocol_.decentralized)
                       in.evaluator_->collect_replicas(e.ver);
                     else
                       in.send(the_coordinator, the_lead, fetch_order{e.ver});
                   },
                   [&](const resume& e) { in.send(the_coordinator, the_lead, e.order); },
                   [&](const say& e) { in.note(e.text); },
                   [&](const stop& e) {
                     in.ended_ = true;
                     in.result_.failed = e.failed;
                     in.result_.reason = e.reason;
                     for (listener* each : in.listeners_)
                       each->stopped(in.now_, e);
                   },
                   [&](const arm_timer& e) { timers.arm(e); },
               },
               effect);
}

void cluster::evaluator_role::hear(const message& msg) {
  if (const auto* part = std::get_if<params_envelope>(&msg))
    on_part(*part);
  else if (const auto* replica = std::get_if<peer_envelope>(&msg))
    evaluate_average(replicas.on(replica->head, replica->head.weight > 0 ? std::optional{replica->data} : std::nullopt));
}

void cluster::evaluator_role::on_part(const params_envelope& part) {
  if (part.head.key <= newest)
    return;
  const auto parts = incoming.add(part, in.options_.job.shards);
  if (!parts)
    return;
  TROUPE_ASSERT(parts->size() == in.options_.job.shards);
  newest = part.head.key;
  evaluate(parts->front().head.ver, in.maths_.join(ranges_of(*parts))); // the lead shard's version
}

void cluster::evaluator_role::plan_changes(const plan& next) {
  if (in.protocol_.decentralized)
    evaluate_average(replicas.on(next));
}

void cluster::evaluator_role::collect_replicas(version ver) {
  TROUPE_ASSERT(in.protocol_.decentralized);
  const fetch_order order{ver};
  const auto done = replicas.on(order);
  for (const member who : replicas.missing())
    in.send(the_coordinator, {role::worker, who.worker.value}, order);
  evaluate_average(done);
}

/// Before any worker has a replica, all are at the first parameters.
void cluster::evaluator_role::evaluate_average(const std::optional<replica_collection<tensor>::average>& average) {
  if (!average)
    return;
  if (!average->terms.empty())
    return evaluate(average->ver, in.maths_.sum(average->terms), average->made);
  std::vector<tensor> ranges;
  for (std::uint32_t shard = 0; shard < in.options_.job.shards; ++shard)
    ranges.push_back(in.holders_->at(shard).parameters());
  evaluate(average->ver, in.maths_.join(ranges), average->made);
}

/// Takes no time.
void cluster::evaluator_role::evaluate(version ver, const tensor& parameters, std::vector<std::pair<member, step_count>> made) {
  const evaluation found = in.maths_.evaluate(parameters);
  in.send(the_evaluator, the_coordinator,
          evaluated{.ver = ver,
                    .train_loss = found.train_loss,
                    .test_loss = found.test_loss,
                    .test_accuracy = found.test_accuracy,
                    .at = in.clock_.now(),
                    .made = std::move(made)});
}

} // namespace troupe::protocols::sim
