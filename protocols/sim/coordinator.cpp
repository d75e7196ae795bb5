// SPDX-License-Identifier: BSD-3-Clause
// What the coordinator and the evaluator of a simulated cluster do.
#include <algorithm>
#include <iterator>
#include <utility>

#include "kernels/assert.hpp"
#include "protocols/sim/cases.hpp"
#include "protocols/sim/holders.hpp"
#include "protocols/sim/roles.hpp"
#include "protocols/takeover.hpp"

namespace troupe::protocols::sim {

namespace {

using role = endpoint::role;

} // namespace

cluster::coordinator_role::coordinator_role(cluster& in, coordinator machine)
    : in(in), machine(std::move(machine)), timers(in.timers_of(the_coordinator)) {
  decide(ledger::submitted{.number = the_job, .roles = 1U << 16U});
  decide(ledger::started{.number = the_job, .life = the_life});
}

void cluster::coordinator_role::die() {
  alive = false;
  const auto is_it = [](endpoint end) { return end == the_coordinator; };
  for (const envelope& lost : in.lose([&](endpoint from) { return is_it(from); }, is_it))
    if (std::holds_alternative<takes_over>(lost.content))
      untold.push_back(lost);
  in.last_progress_ = in.now_;
  in.note("the coordinator is gone");
}

/// What the last one knew beside decisions is lost with it.
void cluster::coordinator_role::replace(cluster& in) {
  // Who is dead hears nothing, and is not obeyed any more.
  std::vector<envelope> on_the_way; // before what was lost of the same way
  const auto forget = [&on_the_way](envelope& mail) {
    if (mail.from != the_coordinator && mail.to != the_coordinator)
      return;
    if (std::holds_alternative<takes_over>(mail.content) && !mail.lost)
      on_the_way.push_back(mail);
    mail.lost = true;
  };
  for (const auto& worker : in.workers_)
    std::ranges::for_each(worker->parked, forget);
  for (event* each : in.queue_.pending())
    if (auto* mail = std::get_if<envelope>(each))
      forget(*mail);
  std::map<worker_id, incarnation> newest;
  for (const auto& worker : in.workers_)
    if (worker->bound)
      newest.emplace(worker->self.worker, worker->self.incarnation);
  const ledger::course& decided = in.coordinator_->course_now();
  std::optional<lead_report> word; // a lead's rather than a backup's
  for (const holder_role* at : in.holders_->here())
    if (auto report = at->alive ? at->bound.report_to_next() : std::nullopt; report && (!word || at->bound.leads_job()))
      word = std::move(report);
  const lead_report said = word.value_or(lead_report{}); // if nobody has the parameters of the lead's shard, the job will fail
  const coordinator_options options = in.coordinator_options_now();
  auto next = std::make_unique<coordinator_role>(
      in, coordinator{options, in.make_controller(), taken_over(options, decided, newest, said)});
  next->decided = std::move(in.coordinator_->decided);
  next->untold = std::move(on_the_way);
  std::ranges::move(in.coordinator_->untold, std::back_inserter(next->untold));
  in.coordinator_ = std::move(next);
  in.coordinator_->take_office(said);
}

void cluster::coordinator_role::take_office(const lead_report& said) {
  in.last_progress_ = in.now_;
  in.note("another coordinator goes on");
  for (const envelope& each : std::exchange(untold, {}))
    if (each.to.kind != role::worker || in.role_of({each.to.index}).self.incarnation == each.life) // a later life knows it
      in.send(the_coordinator, each.to, each.content);
  perform(machine.take_office(said));
  find_copies();
  find_the_dead();
}

/// Backups that came later, and that may have told nobody of themselves.
void cluster::coordinator_role::find_copies() {
  for (const holder_role* at : in.holders_->here()) {
    const ledger::course& course = course_now();
    if (!is_late(at->born) || course.acts(at->born))
      continue;
    if (!course.copies.contains(at->born))
      place(at->born);
    else if (!at->joins)
      hear(caught_up{at->born});
  }
}

/// In the order of their numbers, as a job's own coordinator would have given them: one may be heard of before an earlier one.
void cluster::coordinator_role::place(holder_id newest) {
  for (const holder_role* at : in.holders_->here()) {
    if (!is_late(at->born) || at->born <= course_now().newest_copy || at->born > newest)
      continue;
    const new_backup msg{at->born, shard_of(in.shape_, at->born)};
    decide(ledger::placed{the_job, the_life, msg.holder, msg.shard});
    perform(machine.on(msg));
  }
}

bool cluster::coordinator_role::is_late(holder_id who) const {
  return who.value >= in.tree_.size();
}

void cluster::coordinator_role::find_the_dead() {
  const plan now = machine.current();
  for (const auto& worker : in.workers_)
    if (worker->alive && !now.has(worker->self))
      hear(joined{worker->self});
  for (const member who : now.workers)
    if (const auto& worker = in.workers_.at(who.worker.value); !worker->alive || worker->self.incarnation > who.incarnation)
      hear(down{who, "it died while nobody led"});
  for (const holder_id dead : in.holders_->dead()) { // backups first: none of the dead shall take a place
    const ledger::course& course = course_now();
    if (course.acts(dead))
      continue;
    const holder_down notice{dead, "it died while nobody led"};
    if (is_late(dead) ? !course.copies.contains(dead) : course.gone.contains(dead))
      tell_holders(notice); // the last one may have told nobody
    else
      hear(notice);
  }
}

void cluster::coordinator_role::hear(const message& msg) {
  std::visit(cases{
                 [this](const evaluated& found) { on_evaluated(found); },
                 [this](const expired& msg) {
                   perform(machine.on(expired{msg.timer, in.clock_.now()}));
                 },
                 [this](const new_backup& msg) { place(msg.holder); },
                 [this](const caught_up& msg) {
                   decide(ledger::copied{the_job, the_life, msg.holder});
                   perform(machine.on(msg));
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
  const bool known =
      !in.result_.curve.empty() && machine.held_version() <= in.result_.curve.back().ver; // by the last coordinator
  if (!effects.empty() && !in.ended_ && !known && !machine.has_gone_on(found.ver))
    in.result_.curve.push_back({found.at,
                                machine.held_version(),
                                machine.held_samples(),
                                {.train_loss = found.train_loss,
                                 .test_loss = found.test_loss,
                                 .test_accuracy = found.test_accuracy,
                                 .validation_loss = found.validation_loss}});
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
                     decide(ledger::planned{the_job, the_life, e.plan});
                     const auto shared = std::make_shared<const plan>(e.plan);
                     tell_holders(shared);
                     for (const auto& worker : in.workers_)
                       in.send(the_coordinator, {role::worker, worker->self.worker.value}, shared);
                     in.evaluator_->plan_changes(*shared);
                   },
                   [&](const send_worker_down& e) { tell_holders(e.notice); },
                   [&](const send_holder_down& e) {
                     decide(ledger::holder_lost{the_job, the_life, e.notice.holder});
                     tell_holders(e.notice);
                   },
                   [&](const send_takes_over& e) {
                     decide(ledger::promoted{the_job, the_life, e.notice.shard, e.notice.by, e.notice.view});
                     in.holders_->take_over(e.notice);
                     tell_holders(e.notice);
                     for (const auto& worker : in.workers_)
                       in.send(the_coordinator, {role::worker, worker->self.worker.value}, e.notice);
                   },
                   [&](const send_new_backup& e) { in.send(the_coordinator, the_lead, e.notice); },
                   [&](const hold& e) {
                     in.send(the_coordinator, the_lead, e.order);
                     if (in.protocol_.reduces)
                       for (const auto& worker : in.workers_)
                         in.send(the_coordinator, {role::worker, worker->self.worker.value}, e.order);
                   },
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
  if (found && found->ver == ver && !replicas.collects()) { // another coordinator had asked for it
    found->at = in.clock_.now();
    return in.send(the_evaluator, the_coordinator, *found);
  }
  const fetch_order order{ver};
  const auto done = replicas.on(order);
  // Where one is enough, each of them knows whether it is that one.
  for (const auto& worker : in.workers_)
    if (in.protocol_.reduces ? replicas.collects() : replicas.missing().contains(worker->self))
      in.send(the_coordinator, {role::worker, worker->self.worker.value}, order);
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
  const evaluation by = in.maths_.evaluate(parameters);
  found = evaluated{.ver = ver,
                    .train_loss = by.train_loss,
                    .test_loss = by.test_loss,
                    .test_accuracy = by.test_accuracy,
                    .at = in.clock_.now(),
                    .made = std::move(made),
                    .validation_loss = by.validation_loss};
  in.send(the_evaluator, the_coordinator, *found);
}

} // namespace troupe::protocols::sim
