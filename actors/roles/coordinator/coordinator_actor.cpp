// SPDX-License-Identifier: BSD-3-Clause
// The coordinator's handlers: a job from placement to result.
#include "actors/roles/coordinator/coordinator_actor.hpp"

#include <algorithm>

#include <fmt/format.h>

#include "actors/errors.hpp"
#include "protocols/catalog.hpp"
#include "protocols/overloaded.hpp"

namespace troupe::actors {

namespace {

using namespace std::chrono_literals;

/// Before a node that could not take part again is asked once more.
constexpr auto pause_between_returns = 5s;

bool is_gone(const caf::error& why) {
  return why == caf::sec::broken_promise || why == caf::sec::request_receiver_down
         || why == caf::exit_reason::remote_link_unreachable;
}

std::string text_of(const std::exception_ptr& thrown) {
  try {
    std::rethrow_exception(thrown);
  } catch (const std::exception& e) {
    return e.what();
  }
}

std::string text_of(const protocols::plan& plan) {
  return fmt::format("plan {}: {} workers, {}, period {}, learning rate times {}{}", plan.epoch.value, plan.workers.size(),
                     plan.protocol.name, plan.period, plan.lr_scale,
                     plan.partition_kib > 0 ? fmt::format(", partitions of {} KiB", plan.partition_kib) : "");
}

/// `starting`: the nodes that have not answered yet, before training begins.
void say_whom_it_waits_for(actor_report& out, const coordinator_setup& setup, std::uint64_t steps, bool decentralized,
                           const std::set<std::uint32_t>& starting) {
  const auto waits = [&out](std::string whom, std::string on) {
    out.waits_for.push_back(std::move(whom));
    out.waits_on = std::move(on);
  };
  if (out.state == "runs" && !decentralized)
    waits("shard 0", fmt::format("round {}", steps + 1));
  else if (out.state == "evaluates")
    waits("evaluator 0", fmt::format("the loss of version {}", steps));
  if (!starting.empty())
    out.wait_deadline_s = std::chrono::duration<double>(job_start::deadline).count();
  for (const auto node : starting)
    waits("node " + setup.nodes[node].name, out.state == "starts" ? "its roles and lanes" : "its data");
}

void add_fields(actor_report& out, const coordinator_setup& setup, const job_result& result, double waited_s,
                const std::set<std::uint32_t>& returning) {
  out.fields = {{"protocol", setup.job.protocol.name},
                {"step", std::to_string(result.steps)},
                {"samples", std::to_string(result.samples)},
                {"no_step_for_s", fmt::format("{:.1f}", waited_s)}};
  for (const auto node : returning)
    out.fields["asked_back"] += (out.fields["asked_back"].empty() ? "" : ", ") + setup.nodes[node].name;
}

} // namespace

coordinator_state::coordinator_state(measured_pointer<coordinator_control> self, coordinator_setup setup)
    : self_(self), setup_(std::move(setup)),
      places_(setup_.decided.taken_over ? job_places{} : place_roles(setup_.job, setup_.nodes)),
      start_(
          self, setup_, places_,
          [this](std::uint32_t node, std::string_view step, const caf::error& why) { could_not_start(node, step, why); },
          [this](std::uint32_t node, const std::string& text) { data_differ(node, text); }),
      late_backups_(self, setup_, places_, lost_, machine_, clock_, effects_), activity_(self->doing),
      timers_(clock_,
              [this](protocols::timer_id timer, protocols::nanoseconds delay) {
                self_->delayed_send(self_, std::chrono::nanoseconds{delay}, protocols::expired{timer});
              }),
      progress_(self, setup_, places_, *this), evaluator_(self, setup_, places_, lost_, *this),
      checkpoints_(self, setup_, places_, machine_), orders_(self, setup_, places_, incarnations_, trace_, *this),
      interruption_(self, setup_, record_, *this), ending_(self, setup_, lost_, start_, record_, checkpoints_, evaluator_),
      effects_(
          self, setup_.decided, [this](const protocols::coordinator_effects& all) { carry_out(all); },
          [this](const std::string& why) {
            finish({true, why});
          }),
      takeover_(self, setup_, places_) {
  activity_.enter("prepares");
  find_blocks();
  lost_ = places_.absent();
  lost_workers_ = places_.workers_on(lost_);
  self->set_exception_handler([this](std::exception_ptr& thrown) -> caf::error {
    const auto why = text_of(thrown);
    record_.result.failed = true;
    record_.result.reason = fmt::format("the coordinator failed: {}", why);
    tell(stop_job{true, record_.result.reason});
    setup_.observer->on_finished(record_.result);
    return failure(why);
  });
  // CAF sends back the refusal of what was only sent, and ends whoever does not handle it.
  self->set_error_handler([this](const caf::error& why) { activity_.failed(explain(why)); });
  self->set_down_handler([this](const caf::down_msg& msg) {
    for (std::uint32_t i = 0; i < setup_.nodes.size(); ++i)
      if (setup_.nodes[i].actor.address() == msg.source)
        once_known([this, i, why = explain(msg.reason)] { on_node_lost(i, fmt::format("its process is gone ({})", why)); });
  });
}

coordinator_control::behavior_type coordinator_state::make_behavior() {
  for (const auto& node : setup_.nodes)
    if (node.actor)
      self_->monitor(node.actor);
  trace_ = std::make_shared<tracer>(setup_.trace);
  if (setup_.decided.taken_over)
    takeover_.begin([this] { take_over(); });
  else
    start_.begin([this] { activity_.enter("starts"); }, [this] { started(); });
  return {
      [this](const protocols::report& msg) { takes_over_ ? on_early_report(msg) : on_report(msg); },
      [this](const collected& msg) { interruption_.on(msg); },
      [this](const evaluation& msg) { once_known([this, msg] { on_evaluation(msg); }); },
      [this](const role_lost& msg) { once_known([this, msg] { on_role_lost(msg); }); },
      [this](const peer_unreachable& msg) { once_known([this, msg] { on_peer_unreachable(msg); }); },
      [this](const file_saved& msg) { once_known([this, msg] { checkpoints_.on(msg); }); },
      [this](const protocols::caught_up& msg) { once_known([this, msg] { late_backups_.on(msg); }); },
      [this](const manifest_written& msg) {
        if (!msg.error.empty())
          return checkpoints_.on(msg);
        effects_.decide(protocols::ledger::checkpointed{setup_.decided.number, setup_.decided.life, msg.ver},
                        [this, msg] { checkpoints_.on(msg); });
      },
      [this](const node_back& msg) {
        once_known([this, msg] { on_node_back(msg.node, caf::actor_cast<node_actor>(msg.actor)); });
      },
      [this](const node_leaves& msg) { return on_node_leaves(msg.node); },
      [this](end_decided) {
        if (end_)
          tell(*end_);
        self_->quit();
      },
      [this](const inspect_query&) { return report(); },
      [this](const actor_order& msg) { return orders_.carry_out(msg); },
      [this](const change_order& msg) { return orders_.change(msg); },
      [this](const save_order&) -> caf::result<std::string> {
        return finishing_ || !machine_ ? failure("the job does not run yet, or is about to end") : checkpoints_.asked();
      },
      [this](const record_order& msg) { return orders_.record(msg); },
      [this](const protocols::expired& msg) {
        if (auto due = timers_.fire(msg.timer); due && machine_ && !finishing_)
          perform(machine_->on(*due));
      },
      [this](const stop_job& msg) {
        if (msg.failed)
          finish({true, msg.reason});
        else
          interruption_.begin(msg.reason);
      },
  };
}

/// A node that is gone may be known by its missing answer first; a job loses nothing by beginning anew without it. What a node
/// that is here says would be so again.
void coordinator_state::could_not_start(std::uint32_t node, std::string_view step, const caf::error& why) {
  if (finishing_)
    return;
  const auto& name = setup_.nodes[node].name;
  const bool gone = is_gone(why);
  if (machine_) {
    if (gone || !returning_.contains(node))
      return; // whoever watches it has said so, perhaps long ago: CAF fails such a request when it is late
    setup_.observer->on_event(fmt::format("node {} is back and could not {} the job: {}", name, step, explain(why)));
    if (step == "prepare" && why != caf::sec::request_timeout)
      return void(returning_.erase(node));
    self_->run_delayed(pause_between_returns, [this, node, process = setup_.nodes[node].actor] {
      if (returning_.contains(node) && process == setup_.nodes[node].actor)
        ask_back(node);
    });
    return;
  }
  if (gone)
    return lost_before_start(fmt::format("node {} was lost before the job started: {}", name, explain(why)));
  finish({true, fmt::format("node {} could not {} the job: {}", name, step, explain(why))});
}

/// A node that comes back with other data stays out of this job, and may serve the next.
void coordinator_state::data_differ(std::uint32_t node, const std::string& text) {
  const auto& member = setup_.nodes[node];
  if (!machine_)
    return finish({true, fmt::format("node {}: {}", member.name, text)});
  returning_.erase(node);
  self_->send(member.actor, stop_job{true, text});
  setup_.observer->on_event(fmt::format("node {} is back and the job goes on without it: {}", member.name, text));
}

void coordinator_state::lost_before_start(const std::string& reason) {
  record_.result.lost_before_start = true;
  finish({true, reason});
}

void coordinator_state::started() {
  if (finishing_)
    return;
  make_machine(start_.first().data_size);
  record_.result.scaling = start_.first().scaling;
  setup_.observer->on_started(start_.first().data_size);
  resume_clock();
  for (const auto& worker : places_.workers)
    if (!lost_workers_.contains(worker.index))
      perform(machine_->on(protocols::joined{{protocols::worker_id{worker.index}, {}}}));
  progress_.begin(reduces_);
  checkpoints_.begin({record_.result.steps, record_.result.samples}, clock_.now(), start_.first());
  for (const auto& [node, actor] : std::exchange(early_, {}))
    on_node_back(node, actor);
}

/// Nodes are told before they make roles.
void coordinator_state::find_blocks() {
  if (const auto runs = protocols::find_protocol(setup_.job.protocol.name, setup_.added))
    setup_.job.cluster.blocks = worker_blocks(setup_.job, *runs, places_);
}

/// `from`: of the last coordinator, and then the clock is set by whoever knows the time.
void coordinator_state::make_machine(std::int64_t data_size, const std::optional<protocols::coordinator_state>& from) {
  auto entry = protocols::find_protocol(setup_.job.protocol.name, setup_.added);
  auto options = coordinator_options_of(setup_.job, data_size, setup_.added);
  options.decentralized = decentralized_ = entry && entry->decentralized;
  options.same_replicas = reduces_ = entry && entry->reduces;
  auto controls = entry && entry->make_controller ? entry->make_controller(setup_.job.protocol) : nullptr;
  if (from) {
    machine_ = std::make_unique<protocols::coordinator>(options, std::move(controls), *from);
  } else {
    machine_ = std::make_unique<protocols::coordinator>(options, std::move(controls));
    clock_ = training_clock{steady_ns, options.from.trained};
  }
  record_.start({data_size, decentralized_, setup_.rounds}, options.from);
}

void coordinator_state::carry_out(const protocols::coordinator_effects& effects) {
  for (const auto& effect : effects)
    std::visit(overloaded{
                   [this](const protocols::send_plan& e) {
                     if (orders_.says_all())
                       setup_.observer->on_event(text_of(e.plan));
                     record_.planned(e.plan);
                     std::ranges::for_each(e.plan.gone, [this](auto aggregator) { places_.lose(aggregator); });
                     tell(e.plan);
                     checkpoints_.plan_changed();
                   },
                   [this](const protocols::send_worker_down& e) { tell(e.notice); },
                   [this](const protocols::send_holder_down& e) { copy_lost(e.notice); },
                   [this](const protocols::send_takes_over& e) { promote(e.notice); },
                   [this](const protocols::send_new_backup& e) { self_->send(lead_node(), e.notice); },
                   [this](const protocols::hold& e) {
                     checkpoints_.hold_ordered(e.order);
                     reduces_ ? tell(e.order) : self_->send(lead_node(), e.order);
                   },
                   [this](const protocols::evaluate& e) { fetch({e.ver}); },
                   [this](const protocols::resume& e) {
                     if (!clock_.running()) { // else it is repeated
                       if (orders_.says_all())
                         setup_.observer->on_event(fmt::format("the job goes on at step {}", record_.result.steps));
                       std::exchange(hold_, {}).end();
                       resume_clock();
                     }
                     tell(e.order);
                   },
                   [this](const protocols::say& e) { setup_.observer->on_event(e.text); },
                   [this](const protocols::stop& e) { finish(e); },
                   [this](const protocols::arm_timer& e) { timers_.arm(e); },
               },
               effect);
}

/// The job's clock goes on.
void coordinator_state::promote(const protocols::takes_over& who) {
  const auto node = places_.holders[who.by.value].node;
  setup_.observer->on_event(
      fmt::format("its backup on node {} is shard {} from now on", setup_.nodes[node].name, who.shard.value));
  places_.take_over(who);
  lost_holders_.erase(who.shard.value);
  tell(who);
  if (!clock_.running())
    self_->send(setup_.nodes[node].actor, pause_order{}); // as all others were told
  checkpoints_.shard_lost(who.shard.value);
  evaluator_.move();
  replace_copies_soon();
}

void coordinator_state::copy_lost(const protocols::holder_down& who) {
  late_backups_.lost(who.holder);
  places_.lose(who.holder);
  tell(who);
  replace_copies_soon();
}

void coordinator_state::resume_clock() {
  activity_.enter("runs");
  progress_.goes_on();
  run(clock_, timers_, true);
}

void coordinator_state::on_report(const protocols::report& msg) {
  using kind = protocols::report::kind;
  if (finishing_ || !machine_)
    return;
  if (interruption_.begun())
    return interruption_.on(msg);
  switch (msg.event) {
  case kind::round_closed:
    if (setup_.job.cluster.replicas > 1 && msg.ver.value <= record_.result.steps)
      break; // likewise
    progress_.round_closed();
    setup_.observer->on_progress(record_.round_closed(msg, seconds()));
    perform(machine_->on(msg));
    checkpoints_.round_closed(msg.ver, msg.samples, clock_.now());
    break;
  case kind::push_discarded:
    record_.discarded();
    break;
  case kind::push_refused:
  case kind::push_not_finite:
    if (const auto first = record_.left_out(msg, places_.describe(msg.worker.value)))
      setup_.observer->on_event(*first);
    perform(machine_->on(msg));
    break;
  case kind::lost:
    perform(machine_->on(msg));
    break;
  case kind::held:
    job_held(msg);
    break;
  case kind::note:
    setup_.observer->on_event(msg.text);
    break;
  }
}

/// Of what the lead says of itself when it is asked nothing is counted twice.
void coordinator_state::on_early_report(const protocols::report& msg) {
  using kind = protocols::report::kind;
  if (msg.event == kind::round_closed || msg.event == kind::held)
    parked_.push_back([this, msg] {
      if (machine_ && msg.ver > takeover_.lead().report.made)
        on_report(msg);
    });
}

void coordinator_state::job_held(const protocols::report& msg) {
  if (!decentralized_ && msg.ver <= machine_->held_version())
    return; // a lead that has taken over holds again where the last one held
  if (orders_.says_all())
    setup_.observer->on_event(fmt::format("the job is held at step {}, for an evaluation", msg.ver.value));
  clock_.pause();
  hold_ = open_span{trace_, span_kind::hold, 0, {signed_of(msg.ver)}};
  tell(pause_order{});
  progress_.goes_on();
  activity_.enter("evaluates");
  record_.held(msg);
  checkpoints_.held(msg.ver, msg.samples);
  perform(machine_->on(protocols::held{msg.ver, msg.samples, clock_.now()}));
}

void coordinator_state::on_evaluation(const evaluation& msg) {
  // A lead that has taken over holds again where the last one held; an evaluator that was replaced may have sent its last.
  const bool asked = interruption_.begun() || msg.ver == machine_->held_version();
  const bool later = !asked && machine_->has_gone_on(msg.ver);
  if (finishing_ || clock_.running() || (!asked && !later))
    return;
  auto effects = machine_->on(protocols::evaluated{msg.ver, msg.train_loss, msg.test_loss, msg.test_accuracy, clock_.now(),
                                                   msg.made, msg.validation_loss});
  progress_.evaluated();
  evaluator_.evaluated();
  if (later)
    return perform(effects);
  std::optional<protocols::step_count> heard; // steps of which the lead has not heard are in it
  if (decentralized_)
    heard = {machine_->held_version().value, machine_->held_samples()};
  setup_.observer->on_evaluation(record_.evaluated(msg, heard, machine_->target_reached(), seconds()));
  if (machine_->is_at_best())
    record_.is_best();
  if (record_.result.resident_bytes_first == 0)
    ask_totals(self_, asked_nodes(setup_.nodes, lost_),
               [this](const node_totals& all) { record_.result.resident_bytes_first = all.resident_bytes; });
  perform(effects);
}

void coordinator_state::on_role_lost(const role_lost& msg) {
  if (msg.node < places_.nodes.size() && msg.incarnation < places_.nodes[msg.node].incarnation)
    return; // of a process that has been replaced
  const bool elsewhere = msg.role == role_lost::kind::holder      ? places_.holders[msg.index].node != msg.node
                         : msg.role == role_lost::kind::evaluator ? places_.evaluator != msg.node
                                                                  : false;
  if (elsewhere)
    return; // another one is in its place
  switch (msg.role) {
  case role_lost::kind::worker:
    return worker_lost(msg.index, msg.reason);
  case role_lost::kind::holder:
    return holder_lost(msg.index, msg.reason);
  case role_lost::kind::evaluator:
    return evaluator_lost(msg.reason);
  }
}

void coordinator_state::evaluator_lost(const std::string& reason) {
  if (!machine_)
    lost_before_start(fmt::format("{} was lost before the job started: {}", evaluator_.name(), reason));
  else if (!finishing_)
    evaluator_.lost(reason);
}

/// Nothing happens while the job trains.
void coordinator_state::evaluate_again() {
  progress_.goes_on();
  if (now() == course::evaluates)
    perform({protocols::evaluate{{step()}}});
}

void coordinator_state::on_node_lost(std::uint32_t node, const std::string& reason) {
  const bool was_returning = returning_.erase(node) != 0;
  if (finishing_)
    return roles_lost(node, reason);
  if (!lost_.insert(node).second) {
    if (was_returning)
      setup_.observer->on_event(fmt::format("node {} does not come back: {}", setup_.nodes[node].name, reason));
    return;
  }
  if (!machine_)
    return lost_before_start(fmt::format("node {} was lost before the job started: {}", setup_.nodes[node].name, reason));
  roles_lost(node, reason);
  evaluator_.move();
}

void coordinator_state::roles_lost(std::uint32_t node, const std::string& reason) {
  for (const auto& holder : std::vector{places_.holders}) // they move
    if (holder.node == node)
      holder_lost(holder.index, reason);
  for (const auto worker : places_.workers_on({node}))
    worker_lost(worker, reason);
}

void coordinator_state::worker_lost(std::uint32_t worker, const std::string& reason) {
  if (finishing_) // nobody takes its place, and its part of a checkpoint does not come
    return checkpoints_.worker_lost(protocols::worker_id{worker});
  if (!lost_workers_.insert(worker).second)
    return;
  if (!machine_)
    return lost_before_start(fmt::format("{} was lost before the job started: {}", places_.describe(worker), reason));
  if (interruption_.begun() && !decentralized_)
    return; // what is fetched needs no worker any more
  activity_.failed(fmt::format("{} is lost: {}", places_.describe(worker), reason));
  setup_.observer->on_event(fmt::format("{} is lost: {}; the round closes without it", places_.describe(worker), reason));
  perform(machine_->on(
      protocols::down{{protocols::worker_id{worker}, protocols::incarnation{incarnations_.current(worker)}}, reason}));
}

void coordinator_state::holder_lost(std::uint32_t holder, const std::string& reason) {
  const bool is_shard = holder < setup_.job.cluster.shards;
  if (finishing_)
    return is_shard ? checkpoints_.shard_lost(holder) : void();
  if (places_.holders[holder].node == nowhere || !lost_holders_.insert(holder).second)
    return;
  const auto text =
      fmt::format("{} is lost: {}", places_.describe(protocols::holder_id{holder}, setup_.job.cluster.shards), reason);
  if (!machine_)
    return lost_before_start(text);
  activity_.failed(text);
  setup_.observer->on_event(text);
  perform(machine_->on(protocols::holder_down{protocols::holder_id{holder}, reason}));
}

actor_report coordinator_state::report() const {
  auto out = self_->report();
  say_whom_it_waits_for(out, setup_, record_.result.steps, decentralized_,
                        finishing_ || machine_ ? std::set<std::uint32_t>{} : start_.awaited());
  if (machine_)
    out.wait_deadline_s = progress_.deadline_s();
  add_fields(out, setup_, record_.result, progress_.waited_s(), returning_);
  return out;
}

/// For an interruption.
void coordinator_state::fetch_newest() {
  perform({protocols::evaluate{{record_.result.steps}}});
  clock_.pause();
  activity_.enter("ends");
}

void coordinator_state::finish(const protocols::stop& how) {
  if (finishing_)
    return;
  activity_.enter("ends");
  finishing_ = true;
  for (const auto& text : record_.repeated_faults())
    setup_.observer->on_event(text);
  clock_.pause();
  record_.ended({how.failed, interruption_.reason_or(how.reason)}, seconds());
  std::exchange(hold_, {}).end();
  ending_.begin(*trace_, [this] { deliver(); });
}

void coordinator_state::deliver() {
  if (const auto warning = record_.real_time_warning())
    setup_.observer->on_event(*warning);
  end_ = stop_job{record_.result.failed, record_.result.reason};
  setup_.observer->on_finished(std::move(record_.result));
  if (setup_.decided.ledger)
    return; // nobody is told before that is decided
  tell(*end_);
  self_->quit();
}

} // namespace troupe::actors
