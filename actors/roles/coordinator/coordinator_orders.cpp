// SPDX-License-Identifier: BSD-3-Clause
// What a person may ask of a running job: pauses, deaths and new lives of its roles, other settings, a trace.
#include <caf/expected.hpp>
#include <fmt/format.h>

#include "actors/errors.hpp"
#include "actors/roles/coordinator/coordinator_actor.hpp"
#include "actors/roles/coordinator/order_target.hpp"
#include "actors/roles/coordinator/requested_change.hpp"

namespace troupe::actors {

namespace {

constexpr std::chrono::seconds order_deadline{20};
/// Whoever asked for a trace waits longer (cluster_actor.cpp, the console).
constexpr std::chrono::seconds recording_deadline{20};

caf::result<traces_ptr> collect(measured_pointer<coordinator_control> self, const std::vector<asked_node>& nodes, tracer& own,
                                const std::shared_ptr<run_observer>& observer) {
  auto promise = self->make_response_promise<traces_ptr>();
  collect_traces(self, nodes, own.take_all(), observer, self->clock().now() + recording_deadline,
                 [promise](std::vector<node_trace> all) mutable {
                   promise.deliver(std::make_shared<const std::vector<node_trace>>(std::move(all)));
                 });
  return promise;
}

} // namespace

caf::result<std::string> coordinator_state::carry_out(const actor_order& msg) {
  if (finishing_ || !machine_)
    return failure("the job does not run yet, or is about to end");
  const auto target = target_of(msg.actor, places_, setup_.what.cluster.shards);
  if (!target)
    return target.error();
  const auto& [role, index, node] = *target;
  const bool worker = role == "worker", holder = !worker && role != "evaluator";
  if (msg.verb == role_verb::restart)
    return worker ? restart(index)
                  : caf::result<std::string>(
                      failure(fmt::format("{} cannot be restarted: no other actor holds its part of the job", msg.actor)));
  if ((worker && lost_workers_.contains(index)) || (holder && lost_holders_.contains(index)))
    return failure(fmt::format("{} is dead{}", msg.actor, worker ? "; `restart` starts it again" : ""));
  auto promise = self_->make_response_promise<std::string>();
  self_->request(setup_.nodes[node].actor, order_deadline, role_order{msg.verb, role, index, 0})
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
  const auto life = incarnations_.order(worker);
  auto promise = self_->make_response_promise<std::string>();
  self_->request(setup_.nodes[node].actor, order_deadline, role_order{role_verb::restart, "worker", worker, life})
      .then(
          [this, promise, worker, node, life]() mutable {
            if (finishing_ || life <= incarnations_.current(worker))
              return promise.deliver(failure("the job ends, or its node has come back meanwhile"));
            setup_.observer->on_event(fmt::format("{} is restarted, by operator request", places_.describe(worker)));
            if (!clock_.running())
              self_->send(setup_.nodes[node].actor, pause_order{});
            take_back(worker, life);
            promise.deliver(fmt::format("worker {} is restarted", worker));
          },
          [this, promise, worker, life](const caf::error& e) mutable {
            if (!finishing_ && life > incarnations_.current(worker)) { // the old life has ended for the new one
              worker_lost(worker, "it could not be restarted: " + explain(e));
              incarnations_.begin(worker, life); // it may have begun all the same, unheard of: the next is another
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
  const auto wanted = requested_change(msg, setup_.what, machine_->current().protocol, setup_.added);
  if (!wanted)
    return wanted.error();
  perform(machine_->on(*wanted));
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
  return collect(self_, asked_nodes(setup_.nodes, lost_), *trace_, setup_.observer);
}

} // namespace troupe::actors
