// SPDX-License-Identifier: BSD-3-Clause
// How nodes come back to a running job, how they leave it, and how another coordinator takes it over.
#include <algorithm>

#include <fmt/format.h>

#include "actors/errors.hpp"
#include "actors/roles/coordinator/coordinator_actor.hpp"
#include "protocols/takeover.hpp"

namespace troupe::actors {

namespace {

bool has_the_last_workers(const job_places& places, std::uint32_t node, const std::set<std::uint32_t>& lost) {
  return std::ranges::none_of(places.workers,
                              [&](const role_place& worker) { return worker.node != node && !lost.contains(worker.index); });
}

std::string why_unreachable(const peer_unreachable& msg, const std::vector<member_node>& nodes) {
  const auto &node = nodes[msg.node].name, &peer = nodes[msg.peer].name;
  return msg.silent ? fmt::format("node {} is {}, says node {}", peer, msg.reason, node)
                    : fmt::format("nodes {} and {} have no lane: {}", node, peer, msg.reason);
}

std::vector<node_actor> others_than(std::uint32_t node, const std::vector<member_node>& nodes,
                                    const std::set<std::uint32_t>& lost) {
  std::vector<node_actor> here;
  for (std::uint32_t i = 0; i < nodes.size(); ++i)
    if (i != node && !lost.contains(i))
      here.push_back(nodes[i].actor);
  return here;
}

} // namespace

/// Of two nodes that cannot reach each other, the one goes without which the job can go on. If it needs both, the end of their
/// lane ends the job. A silent node that it needs, or with the last workers, is waited for: it may be alive.
void coordinator_state::on_peer_unreachable(const peer_unreachable& msg) {
  const auto known = [this](std::uint32_t node) { return node < places_.nodes.size() && !lost_.contains(node); };
  if (finishing_ || !known(msg.node) || !known(msg.peer) || msg.incarnation < places_.nodes[msg.peer].incarnation)
    return; // one of them is out already, or the news is of a process that was replaced
  const auto why = why_unreachable(msg, setup_.nodes);
  if (!machine_) {
    if (!msg.silent)
      lost_before_start(why);
  } else if (msg.silent && (places_.needs(msg.peer) || has_the_last_workers(places_, msg.peer, lost_workers_))) {
    activity_.failed(why);
  } else if (!places_.needs(msg.peer)) {
    put_out(msg.peer, why);
  } else if (!places_.needs(msg.node)) {
    put_out(msg.node, why);
  } else {
    on_node_lost(msg.peer, why);
  }
}

/// Whatever holds it up, a process that begins anew has not heard of. Where a node with a backup is needed, nothing takes that
/// one's place. An aggregator goes alone, for its workers are well.
void coordinator_state::holder_does_not_progress(std::uint32_t holder, const std::string& reason) {
  const auto at = places_.holders[holder];
  if (at.node == nowhere || lost_.contains(at.node))
    return; // it went with another one's, or goes as soon as that is decided
  const bool needed = places_.needs(at.node);
  if (at.aggregates || (needed && at.backup_of))
    holder_lost(holder, reason);
  else if (!needed)
    put_out(at.node, reason);
  else
    fail(reason + ", and no copy of it can take its place; cluster.progress_s sets the deadline");
}

/// It may be alive all the same, so it is asked back.
void coordinator_state::put_out(std::uint32_t node, const std::string& reason) {
  on_node_lost(node, reason);
  if (!finishing_)
    ask_back(node);
}

/// A node that was lost, or is about to be missed, prepares and starts as the others did; then its workers join the running job.
/// An aggregator that it had does not come back: those below it have other parents.
void coordinator_state::on_node_back(std::uint32_t node, const node_actor& actor) {
  if (finishing_ || node >= setup_.nodes.size())
    return;
  if (!lost_.contains(node))
    on_node_lost(node, "a new process has taken its place");
  if (!machine_ && places_.nodes[node].absent)
    early_[node] = actor; // training will begin
  if (finishing_ || !machine_)
    return;
  self_->monitor(actor);
  setup_.nodes[node].actor = actor;
  ask_back(node);
}

/// The answer comes when the node can give it: a process that was stopped has its data still, and begins at once.
void coordinator_state::ask_back(std::uint32_t node) {
  if (std::exchange(places_.nodes[node].absent, false))
    new_.insert(node);
  places_.nodes[node].incarnation = incarnations_.next_of(places_, node);
  returning_.insert(node);
  const auto incarnation = places_.nodes[node].incarnation;
  effects_.decide(protocols::ledger::incarnated{setup_.decided.number, setup_.decided.life, false, node, incarnation},
                  [this, node, incarnation] {
                    if (incarnation == places_.nodes[node].incarnation) // else it has been asked once more
                      start_.begin_again(node, others_than(node, setup_.nodes, lost_), [this, node] { takes_part_again(node); });
                  });
}

void coordinator_state::takes_part_again(std::uint32_t node) {
  if (finishing_ || returning_.erase(node) == 0)
    return;
  lost_.erase(node);
  const bool joins = new_.erase(node) != 0;
  setup_.observer->on_event(fmt::format("node {} {}", setup_.nodes[node].name, joins ? "joins the job" : "is back"));
  if (!clock_.running())
    self_->send(setup_.nodes[node].actor, pause_order{});
  for (const auto worker : places_.workers_on({node}))
    if (lost_workers_.contains(worker))
      take_back(worker, places_.nodes[node].incarnation, joins);
  late_backups_.begin_on(node);
}

/// A copy is lost, and the node where it was may not come back, or may live and not have it any more.
void coordinator_state::replace_copies_soon() {
  self_->run_delayed(late_backups_.pause(), [this] {
    if (!finishing_)
      late_backups_.begin_anywhere();
  });
}

/// It has no part in the round that is under way, but in the next plan.
void coordinator_state::take_back(std::uint32_t worker, std::uint32_t life, bool joins) {
  incarnations_.begin(worker, life);
  lost_workers_.erase(worker);
  record_.result.restarts += joins ? 0 : 1;
  perform(machine_->on(protocols::joined{{protocols::worker_id{worker}, protocols::incarnation{life}}}));
}

void coordinator_state::restarted(std::uint32_t worker, std::uint32_t incarnation) {
  if (!clock_.running())
    self_->send(setup_.nodes[places_.workers[worker].node].actor, pause_order{});
  take_back(worker, incarnation);
}

/// Its workers leave the job; a node that holds a part of the parameters, or the last workers, stays until the job's end.
bool coordinator_state::on_node_leaves(std::uint32_t node) {
  if (finishing_ || lost_.contains(node))
    return true;
  if (!machine_ || places_.holds_parameters(node) || places_.evaluator == node
      || has_the_last_workers(places_, node, lost_workers_))
    return false;
  setup_.observer->on_event(fmt::format("node {} leaves", setup_.nodes[node].name));
  for (const auto worker : places_.workers_on({node}))
    worker_lost(worker, "its node leaves");
  self_->send(setup_.nodes[node].actor, stop_job{false, "its node leaves"});
  self_->demonitor(setup_.nodes[node].actor);
  lost_.insert(node);
  return true;
}

/// What the last coordinator had told nobody, or not all, is told again, under the next plan. Who died meanwhile is found then.
void coordinator_state::take_over() {
  takes_over_ = false;
  if (finishing_)
    return;
  if (const auto why = takeover_.lacks(); !why.empty())
    return lost_before_start(why);
  const auto& [said, tally, leads] = takeover_.lead();
  const auto& plan = takeover_.decided().plan;
  const auto newest = takeover_.newest();
  lost_ = takeover_.recall(start_);
  find_blocks();
  for (const auto& [worker, incarnation] : newest) {
    incarnations_.begin(worker.value, incarnation.value);
    if (!plan.has({worker, incarnation}))
      lost_workers_.insert(worker.value);
  }
  setup_.job.checkpoint.resume.clear(); // where it began does not matter any more
  clock_ = training_clock{steady_ns, said.trained};
  const auto& facts = takeover_.facts();
  make_machine(facts.data_size, protocols::taken_over(coordinator_options_of(setup_.job, facts.data_size, setup_.added),
                                                      takeover_.decided(), newest, said));
  record_.take_over(said, tally, plan);
  record_.result.scaling = facts.scaling;
  setup_.observer->on_started(facts.data_size);
  setup_.observer->on_event(fmt::format("the job is at step {}, with another coordinator", said.made.value));
  for (const auto& [found, held] : takeover_.evaluations()) {
    setup_.observer->on_evaluation(record_.evaluated_before(found, held));
    if (machine_->recall({.ver = found.ver, .test_loss = found.test_loss, .validation_loss = found.validation_loss}))
      record_.is_best();
  }
  checkpoints_.take_over(takeover_.decided().checkpoints, {said.made.value, said.samples}, clock_.now(), facts);
  takeover_.tell_what_they_missed();
  progress_.begin(reduces_);
  if (said.held) {
    tell(pause_order{});
    activity_.enter("evaluates");
  } else {
    resume_clock();
  }
  perform(machine_->take_office(said));
  for (const auto copy : takeover_.given_up())
    perform(machine_->on(protocols::holder_down{copy, "not all nodes have heard of it"}));
  for (const auto& each : takeover_.lost_roles())
    on_role_lost(each);
  evaluator_.move();
  for (const auto& each : takeover_.unreachable())
    on_peer_unreachable(each);
  for (const auto& each : takeover_.saved_files())
    checkpoints_.on(each);
  for (const auto node : takeover_.left_out())
    if (!lost_.contains(node) && !places_.holds_parameters(node))
      put_out(node, "its workers have no part in the plan");
  for (std::uint32_t node = 0; node < setup_.nodes.size(); ++node)
    if (places_.nodes[node].incarnation > 0 && !lost_.contains(node)) // the last coordinator may not have come to that
      late_backups_.begin_on(node);
  replace_copies_soon();
  for (const auto& each : std::exchange(parked_, {}))
    each();
}

} // namespace troupe::actors
