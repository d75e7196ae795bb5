// SPDX-License-Identifier: BSD-3-Clause
// Asking the nodes, and putting together what they say.
#include "actors/roles/coordinator/job_takeover.hpp"

#include <algorithm>
#include <chrono>
#include <functional>
#include <iterator>
#include <utility>

#include <fmt/format.h>

#include "actors/errors.hpp"
#include "actors/roles/join_counter.hpp"
#include "protocols/takeover.hpp"

namespace troupe::actors {

namespace {

/// A node waits for its roles, which may compute (adoption_answer.cpp).
constexpr std::chrono::seconds node_deadline{7};

/// A backup takes its shard's place once, whoever says so.
void move(job_places& places, const protocols::takes_over& change) {
  if (change.by.value < places.holders.size() && places.holders[change.by.value].node != nowhere)
    places.take_over(change);
}

role_place place_of(protocols::holder_id number, const protocols::ledger::late_copy& copy) {
  return {.index = number.value, .node = copy.node, .backup_of = copy.shard.value, .catches_up = !copy.whole};
}

/// Of the backup, or that it is the shard.
bool have_heard_of(protocols::holder_id number, const protocols::ledger::late_copy& copy, const job_places& places) {
  const auto& all = places.holders;
  return number.value < all.size() && (all[number.value].node == copy.node || all[copy.shard.value].node == copy.node);
}

} // namespace

void job_takeover::begin(std::function<void()> then) {
  struct nothing {};
  const join_counter<nothing> all([this, then = std::move(then)](nothing) {
    if (!parts_.empty())
      find_places();
    then();
  });
  for (std::uint32_t i = 0; i < setup_.nodes.size(); ++i) {
    const auto& node = setup_.nodes[i];
    if (!node.actor)
      continue;
    all.one_more();
    self_->request(node.actor, node_deadline, adopt_job{setup_.decided.term, setup_.job_key, coordinator_actor{self_}})
        .then(
            [this, all, i](adopted_part& part) {
              parts_.insert_or_assign(i, std::move(part));
              all.one_less();
            },
            [this, all, name = node.name](const caf::error& e) {
              setup_.observer->on_event(fmt::format("node {} has no part in the job any more: {}", name, explain(e)));
              all.one_less();
            });
  }
  all.one_less();
}

/// Of what the nodes know the newest counts; each knows best where itself is.
void job_takeover::find_places() {
  const auto newest = std::ranges::max_element(parts_, {}, [](const auto& each) { return each.second.standing.epoch; });
  places_ = newest->second.places;
  for (const auto& [number, part] : parts_)
    for (auto& node : places_.nodes)
      if (const auto& known = part.places.nodes[node.node];
          node.node == number || (!parts_.contains(node.node) && known.incarnation > node.incarnation))
        node = known;
  for (const auto& [number, incarnation] : decided().nodes)
    if (number < places_.nodes.size())
      places_.nodes[number].incarnation = std::max(places_.nodes[number].incarnation, incarnation.value);
  find_copies();
  for (const auto& change : protocols::promotions(setup_.job.shape(), decided()))
    move(places_, change);
  for (const auto& gone : {decided().gone, decided().plan.gone})
    for (const auto holder : gone)
      places_.lose(holder);
  for (const auto& [number, part] : parts_) {
    if (part.standing.evaluates) {
      places_.evaluator = number;
      has_evaluator_ = true;
    }
    if (part.lead && (lead_ == nullptr || part.lead->leads)) {
      lead_ = &*part.lead;
      lead_node_ = number;
    }
  }
}

/// Backups that came later. Nobody has heard of all that are lost.
void job_takeover::find_copies() {
  decided_ = *setup_.decided.taken_over;
  if (decided_.newest_copy.value >= places_.holders.size())
    places_.add({.index = decided_.newest_copy.value, .node = nowhere}); // no other one ever gets a number that was given
  for (const auto& holder : std::vector{places_.holders})
    if (decided_.is_late({holder.index}))
      places_.lose({holder.index});
  for (const auto& [number, copy] : setup_.decided.taken_over->copies)
    if (copy.whole || std::ranges::all_of(parts_, [&, number = number, copy = copy](const auto& each) {
          return have_heard_of(number, copy, each.second.places);
        })) {
      places_.add(place_of(number, copy));
    } else {
      decided_.copies.erase(number);
      given_up_.push_back(number);
    }
}

bool job_takeover::is_given_up(std::uint32_t holder) const {
  return std::ranges::find(given_up_, protocols::holder_id{holder}) != given_up_.end();
}

std::string job_takeover::lacks() const {
  if (parts_.empty())
    return "no node has a part in it any more";
  const auto lives = [&](const role_place& holder) {
    const auto on = parts_.find(holder.node);
    if (on == parts_.end())
      return false;
    const auto& lost = on->second.lost;
    return std::ranges::none_of(
        lost, [&](const role_lost& each) { return each.role == role_lost::kind::holder && each.index == holder.index; });
  };
  for (std::uint32_t shard = 0; shard < setup_.job.cluster.shards; ++shard)
    if (std::ranges::none_of(places_.holders, [&](const role_place& holder) {
          return (holder.index == shard || holder.backup_of == shard) && !holder.catches_up && lives(holder);
        }))
      return fmt::format("shard {} is on no node that has come back", shard);
  if (lead_ == nullptr)
    return "its lead does not say where it is";
  return living_workers().empty() ? "none of its workers has come back" : "";
}

std::map<protocols::worker_id, protocols::incarnation> job_takeover::newest() const {
  const auto& given = decided();
  std::map<protocols::worker_id, protocols::incarnation> out;
  for (const auto& worker : places_.workers) {
    auto& its = out[{worker.index}];
    if (const auto node = given.nodes.find(worker.node); node != given.nodes.end())
      its = node->second;
    if (const auto own = given.workers.find({worker.index}); own != given.workers.end())
      its = std::max(its, own->second);
  }
  for (const auto member : given.plan.workers)
    out[member.worker] = std::max(out[member.worker], member.incarnation);
  for (const auto& [number, part] : parts_)
    for (const auto member : part.standing.workers)
      out[member.worker] = std::max(out[member.worker], member.incarnation);
  return out;
}

std::set<std::uint32_t> job_takeover::living_workers() const {
  std::set<std::uint32_t> out;
  for (const auto& [number, part] : parts_) {
    for (const auto member : part.standing.workers)
      out.insert(member.worker.value);
    for (const auto& lost : part.lost)
      if (lost.role == role_lost::kind::worker)
        out.erase(lost.index);
  }
  return out;
}

std::set<std::uint32_t> job_takeover::recall(job_start& start) const {
  std::set<std::uint32_t> missing;
  for (std::uint32_t i = 0; i < setup_.nodes.size(); ++i)
    if (const auto part = parts_.find(i); part != parts_.end())
      start.was_prepared(i, part->second.prepared, i == lead_node_);
    else
      missing.insert(i);
  return missing;
}

std::vector<role_lost> job_takeover::lost_roles() const {
  std::vector<role_lost> out;
  const auto add = [&](role_lost::kind role, const role_place& at) {
    if (at.node == nowhere || parts_.contains(at.node) || places_.nodes[at.node].absent)
      return;
    const auto& node = places_.nodes[at.node];
    out.push_back({at.node, role, at.index, fmt::format("node {} has not come back to the coordinator that leads now", node.name),
                   node.incarnation});
  };
  for (const auto& holder : places_.holders)
    add(role_lost::kind::holder, holder);
  for (const auto& worker : places_.workers)
    add(role_lost::kind::worker, worker);
  for (const auto& [number, part] : parts_)
    out.insert(out.end(), part.lost.begin(), part.lost.end());
  std::ranges::stable_sort(out, std::greater<>{}, &role_lost::index);
  return out;
}

std::vector<peer_unreachable> job_takeover::unreachable() const {
  std::vector<peer_unreachable> out;
  for (const auto& [number, part] : parts_)
    std::ranges::copy_if(part.unreachable, std::back_inserter(out),
                         [this](const auto& each) { return parts_.contains(each.peer); });
  return out;
}

std::vector<file_saved> job_takeover::saved_files() const {
  std::vector<file_saved> out;
  for (const auto& [number, part] : parts_)
    out.insert(out.end(), part.saved.begin(), part.saved.end());
  return out;
}

std::vector<std::uint32_t> job_takeover::left_out() const {
  std::vector<std::uint32_t> out;
  for (const auto& [number, part] : parts_)
    if (const auto& workers = part.standing.workers;
        !workers.empty() && std::ranges::none_of(workers, [this](auto who) { return decided().plan.has(who); }))
      out.push_back(number);
  return out;
}

std::vector<std::pair<evaluation, held_point>> job_takeover::evaluations() const {
  std::vector<std::pair<evaluation, held_point>> out;
  const auto at = has_evaluator_ ? parts_.find(places_.evaluator) : parts_.end();
  if (at == parts_.end() || lead_ == nullptr)
    return out;
  for (const auto& found : at->second.evaluations)
    if (const auto held = std::ranges::find(lead_->tally.held, found.ver, &held_point::ver); held != lead_->tally.held.end())
      out.emplace_back(found, *held);
  return out;
}

void job_takeover::tell_what_they_missed() const {
  const auto changes = protocols::promotions(setup_.job.shape(), decided());
  for (const auto& [number, part] : parts_) {
    const auto& node = setup_.nodes[number].actor;
    auto known = part.places;
    for (const auto& [copy, its] : decided().copies)
      if (!have_heard_of(copy, its, known)) {
        known.add(place_of(copy, its));
        self_->send(node, backup_place{known.holders[copy.value]});
      }
    for (const auto& change : changes)
      if (known.holders[change.by.value].node != nowhere) {
        known.take_over(change);
        self_->send(node, change);
      }
    for (const auto& holder : known.holders)
      if (holder.backup_of && holder.node != nowhere && places_.holders[holder.index].node == nowhere
          && !is_given_up(holder.index))
        self_->send(node, protocols::holder_down{{holder.index}, "its loss is decided"});
    if (has_evaluator_ && part.places.evaluator != places_.evaluator)
      self_->send(node, evaluator_place{places_.evaluator});
  }
}

} // namespace troupe::actors
