// SPDX-License-Identifier: BSD-3-Clause
// How nodes come back to a running job, and how they leave it.
#include <algorithm>

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
  places_.nodes[node].incarnation = incarnations_.next_of(places_, node);
  returning_.insert(node);
  std::vector<node_actor> here;
  for (std::uint32_t i = 0; i < setup_.nodes.size(); ++i)
    if (i != node && !lost_.contains(i))
      here.push_back(setup_.nodes[i].actor);
  start_.begin_again(node, here, [this, node] { takes_part_again(node); });
}

void coordinator_state::takes_part_again(std::uint32_t node) {
  if (finishing_ || returning_.erase(node) == 0)
    return;
  lost_.erase(node);
  setup_.observer->on_event(fmt::format("node {} is back", setup_.nodes[node].name));
  if (!clock_.running())
    self_->send(setup_.nodes[node].actor, pause_order{});
  for (const auto& worker : places_.workers)
    if (worker.node == node && lost_workers_.contains(worker.index))
      take_back(worker.index, places_.nodes[node].incarnation);
}

/// It has no part in the round that is under way, but in the next plan.
void coordinator_state::take_back(std::uint32_t worker, std::uint32_t life) {
  incarnations_.begin(worker, life);
  lost_workers_.erase(worker);
  ++record_.result.restarts;
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
