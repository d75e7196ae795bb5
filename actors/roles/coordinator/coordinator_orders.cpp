// SPDX-License-Identifier: BSD-3-Clause
// What a person may ask of a running job: pauses, deaths and new lives of its roles, other settings, a trace.
#include <charconv>
#include <cmath>
#include <optional>

#include <fmt/format.h>

#include "actors/errors.hpp"
#include "actors/job_check.hpp"
#include "actors/roles/coordinator/coordinator_actor.hpp"

namespace troupe::actors {

namespace {

constexpr std::chrono::seconds order_deadline{20};
/// Whoever asked for a trace waits longer (cluster_actor.cpp, the console).
constexpr std::chrono::seconds recording_deadline{20};

template <class Number>
std::optional<Number> number_in(const std::string& text) {
  Number value{};
  const auto end = text.data() + text.size();
  const auto [at, wrong] = std::from_chars(text.data(), end, value);
  return wrong == std::errc{} && at == end ? std::optional{value} : std::nullopt;
}

/// What came of it, for whoever asked and for those who watch.
std::string_view done(role_verb what) {
  switch (what) {
  case role_verb::pause:
    return "stands still";
  case role_verb::resume:
    return "goes on";
  case role_verb::kill:
    return "is killed";
  case role_verb::restart:
    break;
  }
  return "is restarted";
}

} // namespace

caf::result<std::string> coordinator_state::carry_out(const actor_order& msg) {
  const auto blank = msg.actor.find(' ');
  const auto role = msg.actor.substr(0, blank);
  const auto index = number_in<std::uint32_t>(blank == std::string::npos ? "" : msg.actor.substr(blank + 1));
  if (finishing_ || !machine_)
    return failure("the job does not run yet, or is about to end");
  const bool worker = role == "worker", holder = role == "shard" || role == "aggregator";
  const auto& places = worker ? places_.workers : places_.holders;
  if (!index || (role != "evaluator" && !worker && !holder))
    return failure(fmt::format("{} takes no orders; workers, shards, aggregators and the evaluator do", msg.actor));
  const bool shard = *index < setup_.what.cluster.shards;
  if (role == "evaluator" ? *index != 0 : *index >= places.size() || (holder && shard != (role == "shard")))
    return failure(fmt::format("there is no {}: the job has {} workers, {} shards and {} aggregators", msg.actor,
                               places_.workers.size(), setup_.what.cluster.shards,
                               places_.holders.size() - setup_.what.cluster.shards));
  if (msg.verb == role_verb::restart)
    return worker ? restart(*index)
                  : caf::result<std::string>(
                      failure(fmt::format("{} cannot be restarted: no other actor holds its part of the job", msg.actor)));
  if ((worker && lost_workers_.contains(*index)) || (holder && lost_holders_.contains(*index)))
    return failure(fmt::format("{} is dead{}", msg.actor, worker ? "; `restart` starts it again" : ""));
  const auto node = role == "evaluator" ? 0 : places[*index].node;
  auto promise = self_->make_response_promise<std::string>();
  self_->request(setup_.nodes[node].actor, order_deadline, role_order{msg.verb, role, *index, 0})
      .then(
          [this, promise, text = fmt::format("{} {}", msg.actor, done(msg.verb))]() mutable {
            setup_.observer->on_event(text + ", by operator request");
            promise.deliver(text);
          },
          [promise](const caf::error& e) mutable { promise.deliver(e); });
  return promise;
}

/// As a node that comes back does with all of its workers.
caf::result<std::string> coordinator_state::restart(std::uint32_t worker) {
  if (setup_.what.protocol.fan_in != 0)
    return failure("a job with a tree of aggregators takes no worker back");
  const auto node = places_.workers[worker].node;
  if (lost_.contains(node))
    return failure(
        fmt::format("node {} is gone, and worker {} with it; it comes back with its node", setup_.nodes[node].name, worker));
  const auto life = begun_lives_[worker] = next_life_of(worker);
  auto promise = self_->make_response_promise<std::string>();
  self_->request(setup_.nodes[node].actor, order_deadline, role_order{role_verb::restart, "worker", worker, life})
      .then(
          [this, promise, worker, node, life]() mutable {
            if (finishing_ || life <= lives_[worker])
              return promise.deliver(failure("the job ends, or its node has come back meanwhile"));
            setup_.observer->on_event(fmt::format("{} is restarted, by operator request", describe(worker)));
            if (!clock_.running())
              self_->send(setup_.nodes[node].actor, pause_order{});
            take_back(worker, life);
            promise.deliver(fmt::format("worker {} is restarted", worker));
          },
          [this, promise, worker, life](const caf::error& e) mutable {
            if (!finishing_ && life > lives_[worker]) { // the old life has ended for the new one
              worker_lost(worker, "it could not be restarted: " + explain(e));
              lives_[worker] = life; // it may have begun all the same, unheard of: the next is another
            }
            promise.deliver(e);
          });
  return promise;
}

caf::result<std::string> coordinator_state::change(const change_order& msg) {
  if (finishing_ || !machine_)
    return failure("the job does not run yet, or is about to end");
  if (msg.key == "log.level") {
    if (msg.value != "info" && msg.value != "debug")
      return failure(fmt::format("log.level = \"{}\" is neither \"info\" nor \"debug\"", msg.value));
    says_all_ = msg.value == "debug";
    return fmt::format("log.level is {}", msg.value);
  }
  protocols::decision what{.why = fmt::format("{} = {}, by operator request", msg.key, msg.value)};
  auto wanted = setup_.what; // the job as it would be, which is checked as the job was
  wanted.protocol = machine_->current().protocol;
  const auto runs = protocols::find_protocol(wanted.protocol.name, setup_.added);
  const bool keeps_its_period = runs && runs->period && !runs->make_controller;
  if (msg.key == "optimizer.lr") {
    const auto lr = number_in<double>(msg.value);
    if (!lr)
      return failure(fmt::format("optimizer.lr = {} is no number", msg.value));
    what.lr_scale = *lr / setup_.what.optimizer.lr;
    if (!std::isfinite(*what.lr_scale))
      return failure(fmt::format("optimizer.lr = {} is too far from the job's {}", msg.value, setup_.what.optimizer.lr));
    wanted.optimizer.lr = *lr;
    wanted.optimizer.min_lr *= *what.lr_scale; // the whole schedule is scaled
  } else if (keeps_its_period && msg.key == "protocol." + runs->period->name) {
    const auto steps = number_in<std::int64_t>(msg.value);
    if (!steps)
      return failure(fmt::format("{} = {} is no whole number", msg.key, msg.value));
    wanted.protocol.parameters[runs->period->name] = *steps;
    what.period = static_cast<std::uint32_t>(*steps);
  } else if (msg.key == "protocol.steps") {
    return failure(fmt::format("protocol {} has no protocol.steps that can be set", wanted.protocol.name));
  } else {
    return failure(fmt::format("{} cannot change while a job runs; optimizer.lr, protocol.steps and log.level can", msg.key));
  }
  for (const auto& problem : check_job(wanted, {.protocols = setup_.added}))
    if (problem.key == msg.key)
      return failure(problem.what);
  perform(machine_->on(what));
  return fmt::format("{} is {} from the next round on", msg.key, msg.value);
}

caf::result<traces_ptr> coordinator_state::record(const record_order& msg) {
  if (setup_.trace)
    return failure("this job is traced from its beginning to its end, for `run --trace`");
  if (finishing_ || !machine_)
    return failure("the job does not run yet, or is about to end");
  if (msg.on == trace_->records())
    return failure(msg.on ? "a trace is being recorded already" : "no trace is being recorded");
  if (msg.on) {
    trace_->begin();
    tell(msg);
    return traces_ptr{};
  }
  auto promise = self_->make_response_promise<traces_ptr>();
  collect_traces(
      [promise](std::vector<node_trace> all) mutable {
        promise.deliver(std::make_shared<const std::vector<node_trace>>(std::move(all)));
      },
      self_->clock().now() + recording_deadline);
  return promise;
}

} // namespace troupe::actors
