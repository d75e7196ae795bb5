// SPDX-License-Identifier: BSD-3-Clause
// How nodes come back to a running job, and how they leave it.
#include <algorithm>
#include <memory>

#include <fmt/format.h>

#include "actors/errors.hpp"
#include "actors/roles/coordinator/coordinator_actor.hpp"

namespace troupe::actors {

/// A node that was lost, or is about to be missed, prepares and starts as the others did; then its workers join the running job.
void coordinator_state::on_node_back(std::uint32_t node, const node_actor& actor) {
  if (finishing_ || node >= setup_.nodes.size())
    return;
  if (!lost_.contains(node))
    on_node_lost(node, "a new process has taken its place");
  if (finishing_ || !machine_)
    return;
  auto& at = setup_.nodes[node];
  if (setup_.what.protocol.fan_in != 0) {
    setup_.observer->on_event(fmt::format("node {} is back; a job with a tree of aggregators goes on without it", at.name));
    return;
  }
  self_->monitor(actor);
  at.actor = actor;
  places_.nodes[node].incarnation = next_life(node);
  returning_.insert(node);
  self_
      ->request(actor, coordinator_deadlines::prepare,
                prepare_job{setup_.job_key, node, setup_.what, coordinator_actor{self_}, places_.nodes[node].incarnation,
                            setup_.trace, names()})
      .then(
          [this, node](const node_prepared& ready) {
            places_.nodes[node].lane_port = ready.lane_port;
            files_[node] = ready.files;
            if (const auto wrong = wrong_data(node); wrong.empty())
              tell_of_return(node);
            else
              turn_away(node, wrong);
          },
          [this, node](const caf::error& e) {
            returning_.erase(node);
            setup_.observer->on_event(
                fmt::format("node {} is back and could not prepare the job: {}", setup_.nodes[node].name, explain(e)));
          });
}

/// It stays out of this job, and may serve the next.
void coordinator_state::turn_away(std::uint32_t node, const std::string& why) {
  returning_.erase(node);
  self_->send(setup_.nodes[node].actor, stop_job{true, why});
  setup_.observer->on_event(fmt::format("node {} is back and the job goes on without it: {}", setup_.nodes[node].name, why));
}

/// Of the next process of a node: later than every life of its workers.
std::uint32_t coordinator_state::next_life(std::uint32_t node) const {
  auto next = places_.nodes[node].incarnation + 1;
  for (const auto& worker : places_.workers)
    if (worker.node == node)
      next = std::max(next, next_life_of(worker.index));
  return next;
}

/// No two are the same, though the answer to the order that began one is still to come.
std::uint32_t coordinator_state::next_life_of(std::uint32_t worker) const {
  const auto last = [worker](const auto& lives) {
    const auto at = lives.find(worker);
    return at == lives.end() ? 0U : at->second;
  };
  return std::max(last(lives_), last(begun_lives_)) + 1;
}

/// Everybody has let go of the old lanes before the new process opens its own.
void coordinator_state::tell_of_return(std::uint32_t node) {
  struct nothing {};
  const join_counter<nothing> all([this, node](nothing) { start_again(node); });
  for (std::size_t i = 0; i < setup_.nodes.size(); ++i)
    if (i != node && !lost_.contains(i)) {
      all.one_more();
      self_->request(setup_.nodes[i].actor, coordinator_deadlines::start, places_.nodes[node])
          .then([all] { all.one_less(); }, [all](const caf::error&) { all.one_less(); });
    }
  all.one_less();
}

void coordinator_state::start_again(std::uint32_t node) {
  if (finishing_ || !returning_.contains(node))
    return;
  self_->request(setup_.nodes[node].actor, coordinator_deadlines::start, places_)
      .then(
          [this, node] {
            if (finishing_ || returning_.erase(node) == 0)
              return;
            lost_.erase(node);
            setup_.observer->on_event(fmt::format("node {} is back", setup_.nodes[node].name));
            if (!clock_.running())
              self_->send(setup_.nodes[node].actor, pause_order{});
            for (const auto& worker : places_.workers)
              if (worker.node == node && lost_workers_.contains(worker.index))
                take_back(worker.index, places_.nodes[node].incarnation);
          },
          [this, node](const caf::error& e) {
            returning_.erase(node);
            setup_.observer->on_event(
                fmt::format("node {} is back and could not start: {}", setup_.nodes[node].name, explain(e)));
          });
}

/// It has no part in the round that is under way, but in the next plan.
void coordinator_state::take_back(std::uint32_t worker, std::uint32_t life) {
  lives_[worker] = life;
  lost_workers_.erase(worker);
  ++result_.restarts;
  perform(machine_->on(protocols::joined{{protocols::worker_id{worker}, protocols::incarnation{life}}}));
}

/// Its workers leave the job; a node that holds a part of the parameters, or the last workers, stays until the job's end.
bool coordinator_state::on_node_leaves(std::uint32_t node) {
  if (finishing_ || lost_.contains(node))
    return true;
  auto holds = [node](const role_place& role) { return role.node == node; };
  auto works_elsewhere = [&](const role_place& role) { return role.node != node && !lost_workers_.contains(role.index); };
  if (!machine_ || std::ranges::any_of(places_.holders, holds) || std::ranges::none_of(places_.workers, works_elsewhere))
    return false;
  setup_.observer->on_event(fmt::format("node {} leaves", setup_.nodes[node].name));
  for (const auto& worker : places_.workers)
    if (worker.node == node)
      worker_lost(worker.index, "its node leaves");
  self_->send(setup_.nodes[node].actor, stop_job{false, "its node leaves"});
  self_->demonitor(setup_.nodes[node].actor);
  lost_.insert(node);
  return true;
}

} // namespace troupe::actors
