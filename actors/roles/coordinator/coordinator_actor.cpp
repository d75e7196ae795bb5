// SPDX-License-Identifier: BSD-3-Clause
// The coordinator's handlers: a job from placement to result.
#include "actors/roles/coordinator/coordinator_actor.hpp"

#include <algorithm>
#include <cmath>
#include <random>

#include <fmt/format.h>

#include "actors/errors.hpp"
#include "actors/roles/overloaded.hpp"
#include "protocols/catalog.hpp"
#include "protocols/duration.hpp"

namespace troupe::actors {

namespace {

using namespace std::chrono_literals;

/// How long a round may take before the run says whom it waits for.
constexpr auto stall_after = 5s;
constexpr auto totals_deadline = 3s;

} // namespace

std::uint64_t random_job_key() {
  std::random_device source;
  return (std::uint64_t{source()} << 32U) | source();
}

protocols::coordinator_options coordinator_options_of(const job& what, std::int64_t data_size,
                                                      std::span<const protocols::protocol> added) {
  protocols::coordinator_options options;
  options.workers = what.cluster.workers;
  options.protocol = protocols::initial_protocol(what.protocol, added);
  options.period = protocols::initial_period(options.protocol, added);
  options.learning_rate = [spec = what.optimizer, data_size, workers = what.cluster.workers](std::uint64_t samples) {
    return learning_rate(spec, static_cast<double>(samples) / static_cast<double>(data_size), static_cast<int>(workers));
  };
  options.shards = what.cluster.shards;
  options.batch = what.data.batch;
  options.data_size = data_size;
  options.evaluate_every_samples = what.evaluate.every_samples;
  options.evaluate_every_ns = protocols::duration_of_s(what.evaluate.every_s);
  options.stop_epochs = what.stop.epochs;
  options.stop_steps = what.stop.steps;
  options.stop_samples = what.stop.samples;
  options.stop_ns = protocols::duration_of_s(what.stop.seconds);
  options.target_accuracy = what.stop.target_accuracy;
  return options;
}

coordinator_state::coordinator_state(measured_pointer<coordinator_control> self, coordinator_setup setup)
    : self_(self), setup_(std::move(setup)), activity_(self->doing),
      timers_(clock_, [this](protocols::timer_id timer, protocols::nanoseconds delay) {
        self_->delayed_send(self_, std::chrono::nanoseconds{delay}, protocols::expired{timer});
      }) {
  activity_.enter("prepares");
  self->set_exception_handler([this](std::exception_ptr& thrown) -> caf::error {
    try {
      std::rethrow_exception(thrown);
    } catch (const std::exception& e) {
      result_.failed = true;
      result_.reason = fmt::format("the coordinator failed: {}", e.what());
      tell(stop_job{true, result_.reason});
      setup_.observer->on_finished(result_);
      return failure(e.what());
    }
  });
  self->set_down_handler([this](const caf::down_msg& msg) {
    for (std::size_t i = 0; i < setup_.nodes.size(); ++i)
      if (setup_.nodes[i].actor.address() == msg.source)
        on_node_lost(i, explain(msg.reason));
  });
}

coordinator_control::behavior_type coordinator_state::make_behavior() {
  for (const auto& node : setup_.nodes)
    self_->monitor(node.actor);
  trace_ = std::make_shared<tracer>(setup_.trace);
  prepare();
  return {
      [this](const protocols::report& msg) { on_report(msg); },
      [this](const collected& msg) { on_collected(msg); },
      [this](const evaluation& msg) { on_evaluation(msg); },
      [this](const role_lost& msg) { on_role_lost(msg); },
      [this](const node_back& msg) { on_node_back(msg.node, caf::actor_cast<node_actor>(msg.actor)); },
      [this](const node_leaves& msg) { return on_node_leaves(msg.node); },
      [this](const inspect_query&) { return report(); },
      [this](const actor_order& msg) { return carry_out(msg); },
      [this](const change_order& msg) { return change(msg); },
      [this](const record_order& msg) { return record(msg); },
      [this](const protocols::expired& msg) {
        if (auto due = timers_.fire(msg.timer); due && machine_ && !finishing_)
          perform(machine_->on(*due));
      },
      [this](const stop_job& msg) {
        if (msg.failed)
          finish({true, msg.reason});
        else
          interrupt(msg.reason);
      },
  };
}

std::vector<std::string> coordinator_state::names() const {
  std::vector<std::string> all;
  for (const auto& node : setup_.nodes)
    all.push_back(node.name);
  return all;
}

void coordinator_state::prepare() {
  places_ = place_roles(setup_.what, setup_.nodes);
  for (std::uint32_t i = 0; i < setup_.nodes.size(); ++i)
    awaited_.insert(i);
  answers_missing_ = setup_.nodes.size();
  files_.resize(setup_.nodes.size());
  for (std::uint32_t i = 0; i < setup_.nodes.size(); ++i)
    self_
        ->request(setup_.nodes[i].actor, coordinator_deadlines::prepare,
                  prepare_job{setup_.job_key, i, setup_.what, coordinator_actor{self_}, 0, setup_.trace, names()})
        .then(
            [this, i](const node_prepared& ready) {
              places_.nodes[i].lane_port = ready.lane_port;
              files_[i] = ready.files;
              awaited_.erase(i);
              if (i == 0) {
                data_size_ = ready.data_size;
                result_.scaling = ready.scaling;
              }
              if (--answers_missing_ == 0)
                start();
            },
            [this, i](const caf::error& e) { could_not(i, "prepare", e); });
}

/// A node that is gone may be known by its missing answer first; a job loses nothing by beginning anew without it. What a node
/// that is here says would be so again.
void coordinator_state::could_not(std::size_t node, std::string_view what, const caf::error& why) {
  if (finishing_)
    return;
  const auto is = [&why](auto... codes) { return ((why == codes) || ...); };
  result_.lost_before_start =
      is(caf::sec::broken_promise, caf::sec::request_receiver_down, caf::exit_reason::remote_link_unreachable);
  finish({true, result_.lost_before_start
                    ? fmt::format("node {} was lost before the job started: {}", setup_.nodes[node].name, explain(why))
                    : fmt::format("node {} could not {} the job: {}", setup_.nodes[node].name, what, explain(why))});
}

/// Whatever of a node's data is not what the first node has; empty: nothing. Else all would train, and nobody could say on what.
std::string coordinator_state::wrong_data(std::size_t node) const {
  for (const auto& file : files_[node])
    for (const auto& first : files_.front())
      if (file.path == first.path && file.wrong.empty() && first.wrong.empty() && file.sha256 != first.sha256)
        return difference(file, first, setup_.nodes.front().name);
  return {};
}

void coordinator_state::start() {
  for (std::size_t i = 1; i < setup_.nodes.size(); ++i)
    if (const auto wrong = wrong_data(i); !wrong.empty())
      return finish({true, fmt::format("node {}: {}", setup_.nodes[i].name, wrong)});
  activity_.enter("starts");
  for (std::uint32_t i = 0; i < setup_.nodes.size(); ++i)
    awaited_.insert(i);
  answers_missing_ = setup_.nodes.size();
  for (std::size_t i = 0; i < setup_.nodes.size(); ++i)
    self_->request(setup_.nodes[i].actor, coordinator_deadlines::start, places_)
        .then(
            [this, i] {
              awaited_.erase(static_cast<std::uint32_t>(i));
              if (--answers_missing_ == 0)
                started();
            },
            [this, i](const caf::error& e) { could_not(i, "start", e); });
}

void coordinator_state::started() {
  if (finishing_)
    return;
  auto entry = protocols::find_protocol(setup_.what.protocol.name, setup_.added);
  auto options = coordinator_options_of(setup_.what, data_size_, setup_.added);
  options.decentralized = centreless_ = entry && entry->decentralized;
  machine_ = std::make_unique<protocols::coordinator>(
      options, entry && entry->make_controller ? entry->make_controller(setup_.what.protocol) : nullptr);
  setup_.observer->on_started(data_size_);
  resume_clock();
  last_progress_ = std::chrono::steady_clock::now();
  for (const auto& worker : places_.workers)
    perform(machine_->on(protocols::joined{{protocols::worker_id{worker.index}, {}}}));
  self_->run_delayed(1s, [this] { watch_for_stalls(); });
}

void coordinator_state::perform(const protocols::coordinator_effects& effects) {
  for (const auto& effect : effects)
    std::visit(overloaded{
                   [this](const protocols::send_plan& e) {
                     if (says_all_)
                       setup_.observer->on_event(fmt::format("plan {}: {} workers, {}, period {}, learning rate times {}",
                                                             e.plan.epoch.value, e.plan.workers.size(), e.plan.protocol.name,
                                                             e.plan.period, e.plan.lr_scale));
                     result_.period = e.plan.period;
                     tell(e.plan);
                   },
                   [this](const protocols::send_worker_down& e) { tell(e.notice); },
                   [this](const protocols::send_holder_down& e) { tell(e.notice); },
                   [this](const protocols::hold& e) { self_->send(setup_.nodes[0].actor, e.order); },
                   [this](const protocols::evaluate& e) {
                     if (centreless_)
                       tell(protocols::fetch_order{e.ver});
                     else
                       self_->send(setup_.nodes[0].actor, protocols::fetch_order{e.ver});
                   },
                   [this](const protocols::resume&) {
                     if (says_all_)
                       setup_.observer->on_event(fmt::format("the job goes on at step {}", result_.steps));
                     std::exchange(hold_, {}).end();
                     resume_clock();
                     tell(protocols::resume_order{});
                   },
                   [this](const protocols::say& e) { setup_.observer->on_event(e.text); },
                   [this](const protocols::stop& e) { finish(e); },
                   [this](const protocols::arm_timer& e) { timers_.arm(e); },
               },
               effect);
}

void coordinator_state::resume_clock() {
  activity_.enter("runs");
  last_progress_ = std::chrono::steady_clock::now();
  run(clock_, timers_, true);
}

void coordinator_state::on_report(const protocols::report& msg) {
  using kind = protocols::report::kind;
  if (finishing_ || !machine_)
    return;
  if (interrupt_) {
    if (msg.event == kind::round_closed)
      late_.push_back(msg);
    return;
  }
  switch (msg.event) {
  case kind::round_closed:
    last_progress_ = std::chrono::steady_clock::now();
    stall_said_ = false;
    count(msg);
    perform(machine_->on(msg));
    break;
  case kind::push_discarded:
    ++result_.gradients;
    ++result_.discarded;
    break;
  case kind::push_refused:
    leave_out(msg, fmt::format("a push of {} was refused: {}", describe(msg.worker.value), msg.text),
              "pushes were refused: " + msg.text);
    break;
  case kind::push_not_finite:
    leave_out(msg, fmt::format("the gradient of {} is not finite; it was left out", describe(msg.worker.value)),
              "gradients were not finite");
    perform(machine_->on(msg));
    break;
  case kind::held:
    if (says_all_)
      setup_.observer->on_event(fmt::format("the job is held at step {}, for an evaluation", msg.ver.value));
    clock_.pause();
    hold_ = open_span{trace_, span_kind::hold, 0, {signed_of(msg.ver)}};
    tell(pause_order{});
    activity_.enter("evaluates");
    result_.samples = msg.samples;
    result_.steps = reported_steps_ = msg.ver.value;
    perform(machine_->on(protocols::held{msg.ver, msg.samples, clock_.now()}));
    break;
  case kind::note:
    setup_.observer->on_event(msg.text);
    break;
  }
}

/// The first of a kind is said at once, `all` of them at the end.
void coordinator_state::leave_out(const protocols::report& msg, const std::string& one, const std::string& all) {
  ++result_.gradients;
  ++result_.discarded;
  auto& [count, last] = left_out_[all];
  last = msg.ver.value;
  if (++count == 1)
    setup_.observer->on_event(fmt::format("step {}: {}", last, one));
}

/// A round.
void coordinator_state::count(const protocols::report& msg) {
  result_.steps = reported_steps_ = msg.ver.value;
  result_.samples = msg.samples;
  result_.gradients += msg.contributions;
  result_.staleness[msg.staleness] += msg.contributions;
  result_.residual_max = std::max(result_.residual_max, msg.residual);
  setup_.observer->on_progress({msg.ver.value, msg.samples, static_cast<double>(msg.samples) / static_cast<double>(data_size_),
                                msg.loss, seconds(), msg.worker.value, static_cast<double>(msg.compute) * 1e-6});
}

void coordinator_state::on_evaluation(const evaluation& msg) {
  if (finishing_)
    return;
  auto effects =
      machine_->on(protocols::evaluated{msg.ver, msg.train_loss, msg.test_loss, msg.test_accuracy, clock_.now(), msg.made});
  result_.parameters = msg.parameters;
  if (centreless_) { // steps of which the lead has not heard are in it
    result_.steps = machine_->held_version().value;
    result_.samples = machine_->held_samples();
  }
  result_.weights_step = centreless_ ? result_.steps : msg.ver.value;
  result_.last =
      evaluation_point{*result_.weights_step, result_.samples, seconds(), msg.train_loss, msg.test_loss, msg.test_accuracy};
  auto target = setup_.what.stop.target_accuracy;
  if (target > 0 && msg.test_accuracy >= target && !result_.target_reached) {
    result_.target_reached = true;
    result_.time_to_target_s = seconds();
  }
  setup_.observer->on_evaluation(*result_.last);
  if (result_.resident_bytes_first == 0)
    ask_totals([this](const node_totals& all) { result_.resident_bytes_first = all.resident_bytes; });
  perform(effects);
}

std::string coordinator_state::describe(std::uint32_t worker) const {
  if (worker >= places_.workers.size())
    return fmt::format("worker {}", worker);
  return fmt::format("worker {} ({})", worker, setup_.nodes[places_.workers[worker].node].name);
}

void coordinator_state::on_role_lost(const role_lost& msg) {
  if (msg.node < places_.nodes.size() && msg.incarnation < places_.nodes[msg.node].incarnation)
    return; // of a process that has been replaced
  if (msg.is_worker)
    worker_lost(msg.index, msg.reason);
  else
    holder_lost(msg.index, msg.reason);
}

void coordinator_state::on_node_lost(std::size_t node, const std::string& reason) {
  returning_.erase(node);
  if (finishing_ || !lost_.insert(node).second)
    return;
  auto why = fmt::format("its process is gone ({})", reason);
  if (!machine_) {
    result_.lost_before_start = true;
    finish({true, fmt::format("node {} was lost before the job started: {}", setup_.nodes[node].name, why)});
    return;
  }
  for (const auto& holder : places_.holders)
    if (holder.node == node)
      holder_lost(holder.index, why);
  for (const auto& worker : places_.workers)
    if (worker.node == node)
      worker_lost(worker.index, why);
}

void coordinator_state::worker_lost(std::uint32_t worker, const std::string& reason) {
  if (finishing_ || !lost_workers_.insert(worker).second)
    return;
  if (!machine_) {
    result_.lost_before_start = true;
    finish({true, fmt::format("{} was lost before the job started: {}", describe(worker), reason)});
    return;
  }
  if (interrupt_ && !centreless_)
    return; // what is fetched needs no worker any more
  activity_.failed(fmt::format("{} is lost: {}", describe(worker), reason));
  setup_.observer->on_event(fmt::format("{} is lost: {}; the round closes without it", describe(worker), reason));
  perform(machine_->on(protocols::down{{protocols::worker_id{worker}, protocols::incarnation{lives_[worker]}}, reason}));
}

void coordinator_state::holder_lost(std::uint32_t holder, const std::string& reason) {
  if (finishing_ || !lost_holders_.insert(holder).second)
    return;
  auto role = holder < setup_.what.cluster.shards ? "shard" : "aggregator";
  auto text = fmt::format("{} {} ({}) is lost: {}", role, holder, setup_.nodes[places_.holders[holder].node].name, reason);
  if (!machine_) {
    result_.lost_before_start = true;
    finish({true, text});
    return;
  }
  activity_.failed(text);
  setup_.observer->on_event(text);
  perform(machine_->on(protocols::holder_down{protocols::holder_id{holder}, reason}));
}

actor_report coordinator_state::report() const {
  auto out = self_->report();
  auto waits = [&out](std::string whom, std::string on) {
    out.waits_for.push_back(std::move(whom));
    out.waits_on = std::move(on);
  };
  if (out.state == "runs" && !centreless_)
    waits("shard 0", fmt::format("round {}", result_.steps + 1));
  else if (out.state == "evaluates")
    waits("evaluator 0", fmt::format("the loss of version {}", result_.steps));
  else if (!finishing_ && !machine_)
    for (auto node : awaited_)
      waits("node " + setup_.nodes[node].name, out.state == "starts" ? "its roles and lanes" : "its data");
  out.fields = {
      {"protocol", setup_.what.protocol.name},
      {"step", std::to_string(result_.steps)},
      {"samples", std::to_string(result_.samples)},
      {"no_step_for_s",
       fmt::format("{:.1f}", std::chrono::duration<double>(std::chrono::steady_clock::now() - last_progress_).count())}};
  return out;
}

/// Says whom a round waits for when it takes long; the deadline itself is the connection's.
void coordinator_state::watch_for_stalls() {
  if (finishing_)
    return;
  self_->run_delayed(1s, [this] { watch_for_stalls(); });
  auto waited = std::chrono::steady_clock::now() - last_progress_;
  if (!clock_.running() || waited < stall_after || stall_said_)
    return;
  stall_said_ = true;
  self_->request(setup_.nodes[0].actor, 1s, waiting_query{})
      .then(
          [this, waited](const std::vector<std::uint32_t>& workers) {
            std::vector<std::string> names;
            for (auto worker : workers)
              names.push_back(describe(worker));
            setup_.observer->on_event(fmt::format("no step for {} s: the round waits for {}",
                                                  std::chrono::duration_cast<std::chrono::seconds>(waited).count(),
                                                  names.empty() ? "the shards" : fmt::format("{}", fmt::join(names, ", "))));
          },
          [this](const caf::error&) { setup_.observer->on_event("no step for a while, and the lead shard does not answer"); });
}

void coordinator_state::finish(const protocols::stop& how) {
  if (finishing_)
    return;
  activity_.enter("ends");
  finishing_ = true;
  for (const auto& [what, seen] : left_out_)
    if (seen.count > 1)
      setup_.observer->on_event(fmt::format("{} {}, the last at step {}", seen.count, what, seen.last_step));
  clock_.pause();
  result_.failed = how.failed;
  result_.reason = interrupt_.value_or(how.reason);
  result_.seconds = seconds();
  if (centreless_) // each of a worker's steps is a gradient, also one of which the lead has not heard
    result_.gradients += result_.steps - reported_steps_;
  result_.epochs = static_cast<double>(result_.samples) / static_cast<double>(data_size_);
  ask_totals([this](const node_totals& all) {
    result_.bytes_sent = all.bytes_sent;
    result_.bytes_received = all.bytes_received;
    result_.resident_bytes = all.resident_bytes;
    result_.computed_ns = all.computed_ns;
    result_.emulated_ns = all.emulated_ns;
    if (!setup_.trace)
      return deliver();
    std::exchange(hold_, {}).end();
    collect_traces([this](std::vector<node_trace> traces) {
      result_.trace = std::move(traces);
      deliver();
    });
  });
}

/// Asks every live node. The whole has the sums of what the others counted, and the largest process.
void coordinator_state::ask_totals(std::function<void(node_totals)> take) {
  const join_counter<node_totals> all(std::move(take));
  for (std::size_t i = 0; i < setup_.nodes.size(); ++i) {
    if (lost_.contains(i))
      continue;
    all.one_more();
    self_->request(setup_.nodes[i].actor, totals_deadline, totals_query{})
        .then(
            [all](const node_totals& one) {
              all->bytes_sent += one.bytes_sent;
              all->bytes_received += one.bytes_received;
              all->resident_bytes = std::max(all->resident_bytes, one.resident_bytes);
              all->computed_ns += one.computed_ns;
              all->emulated_ns += one.emulated_ns;
              all.one_less();
            },
            [all](const caf::error&) { all.one_less(); });
  }
  all.one_less();
}

void coordinator_state::deliver() {
  if (result_.emulated_ns > 0 && result_.computed_ns > result_.emulated_ns / 4)
    setup_.observer->on_event(
        fmt::format("steps really took {:.0f} % of their emulated time: the times of this run measure this machine too; "
                    "a larger inject.step_ms would not",
                    100.0 * static_cast<double>(result_.computed_ns) / static_cast<double>(result_.emulated_ns)));
  tell(stop_job{result_.failed, result_.reason});
  setup_.observer->on_finished(std::move(result_));
  self_->quit();
}

} // namespace troupe::actors
