// SPDX-License-Identifier: BSD-3-Clause
// Carrying out what the operator asks.
#include "actors/roles/coordinator/orders/operator_orders.hpp"

#include <chrono>
#include <utility>

#include <caf/expected.hpp>
#include <fmt/format.h>

#include "actors/errors.hpp"
#include "actors/roles/coordinator/nodes/node_questions.hpp"
#include "actors/roles/coordinator/orders/order_target.hpp"
#include "actors/roles/coordinator/orders/requested_change.hpp"

namespace troupe::actors {

namespace {

constexpr std::chrono::seconds order_deadline{20};
/// Whoever asked for a trace waits longer (cluster_actor.cpp, the console).
constexpr std::chrono::seconds recording_deadline{20};

caf::error not_now() {
  return failure("the job does not run yet, or is about to end");
}

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

caf::result<std::string> operator_orders::carry_out(const actor_order& msg) {
  if (!by_.takes_orders())
    return not_now();
  const auto target = target_of(msg.actor, places_, setup_.job.cluster.shards);
  if (!target)
    return target.error();
  const auto& [role, index, node] = *target;
  const bool worker = role == "worker";
  if (msg.verb == role_verb::restart && worker)
    return restart(index);
  if (msg.verb == role_verb::restart)
    return failure(fmt::format("{} cannot be restarted: {}", msg.actor,
                               role == "evaluator" ? "`kill` it, and a new one takes its place"
                                                   : "no other actor holds its part of the job"));
  if (by_.is_lost(role, index))
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

caf::result<std::string> operator_orders::restart(std::uint32_t worker) {
  auto promise = self_->make_response_promise<std::string>();
  restart(worker, "by operator request", [promise, worker](const caf::error& why_not) mutable {
    why_not ? promise.deliver(why_not) : promise.deliver(fmt::format("worker {} is restarted", worker));
  });
  return promise;
}

void operator_orders::restart_as_it_moves(std::uint32_t worker) {
  restart(worker, "as it moves again", [this, worker](const caf::error& why_not) {
    if (why_not)
      setup_.observer->on_event(
          fmt::format("{} moves again, and does not come back: {}", places_.describe(worker), explain(why_not)));
  });
}

/// As a node that comes back does with all of its workers.
void operator_orders::restart(std::uint32_t worker, const std::string& why, outcome tell) {
  const auto node = places_.workers[worker].node;
  if (by_.lost_nodes().contains(node))
    return tell(failure(
        fmt::format("node {} is gone, and worker {} with it; it comes back with its node", setup_.nodes[node].name, worker)));
  const auto life = incarnations_.order(worker);
  by_.decide_incarnation(worker, life, [this, worker, life, why, tell = std::move(tell)]() mutable {
    begin_life(worker, life, why, std::move(tell));
  });
}

void operator_orders::begin_life(std::uint32_t worker, std::uint32_t life, const std::string& why, outcome tell) {
  self_
      ->request(setup_.nodes[places_.workers[worker].node].actor, order_deadline,
                role_order{role_verb::restart, "worker", worker, life})
      .then(
          [this, tell, worker, life, why]() {
            if (!by_.takes_orders() || life <= incarnations_.current(worker))
              return tell(failure("the job ends, or its node has come back meanwhile"));
            setup_.observer->on_event(fmt::format("{} is restarted, {}", places_.describe(worker), why));
            by_.restarted(worker, life);
            tell({});
          },
          [this, tell, worker, life](const caf::error& e) {
            if (by_.takes_orders() && life > incarnations_.current(worker)) { // the old life has ended for the new one
              by_.could_not_restart(worker, "it could not be restarted: " + explain(e));
              incarnations_.begin(worker, life); // it may have begun all the same, unheard of: the next is another
            }
            tell(e);
          });
}

caf::result<std::string> operator_orders::change(const change_order& msg) {
  if (!by_.takes_orders())
    return not_now();
  if (msg.key == "log.level") {
    if (msg.value != "info" && msg.value != "debug")
      return failure(fmt::format("log.level = \"{}\" is neither \"info\" nor \"debug\"", msg.value));
    says_all_ = msg.value == "debug";
    return fmt::format("log.level is {}", msg.value);
  }
  const auto wanted = requested_change(msg, setup_.job, by_.plan().protocol, setup_.added);
  if (!wanted)
    return wanted.error();
  by_.decide(*wanted);
  return fmt::format("{} is {} from the next round on", msg.key, msg.value);
}

caf::result<traces_ptr> operator_orders::record(const record_order& msg) {
  if (setup_.trace)
    return failure("this job is traced from its beginning to its end, for `run --trace`");
  if (!by_.takes_orders())
    return not_now();
  if (msg.on == trace_->records())
    return failure(msg.on ? "a trace is being recorded already" : "no trace is being recorded");
  if (msg.on) {
    trace_->begin();
    by_.record_everywhere(msg);
    return traces_ptr{};
  }
  return collect(self_, asked_nodes(setup_.nodes, by_.lost_nodes()), *trace_, setup_.observer);
}

} // namespace troupe::actors
