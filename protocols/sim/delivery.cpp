// SPDX-License-Identifier: BSD-3-Clause
// How messages get from one role to another.
#include <algorithm>
#include <array>
#include <utility>

#include "kernels/assert.hpp"
#include "protocols/sim/seats.hpp"

namespace troupe::protocols::sim {

namespace {

using role = endpoint::role;

/// A shard's lead and its holder are one actor: what they send, and are sent, comes in one order.
endpoint actor_of(endpoint who) {
  return who.what == role::lead ? endpoint{role::holder, who.index} : who;
}

/// Whether it is made to carry a tensor, even an empty one.
bool carries_tensor(const message& what) {
  return std::holds_alternative<push_parcel>(what) || std::holds_alternative<params_parcel>(what)
         || std::holds_alternative<partial_parcel>(what);
}

/// Part of an evaluation, which takes no training time: what travels for it must not let others go on meanwhile.
bool evaluates(const message& what, endpoint to) {
  if (const auto* order = std::get_if<send_order>(&what))
    return order->to == std::vector{evaluator};
  return to.what == role::evaluator || std::holds_alternative<fetch_order>(what);
}

} // namespace

host_id cluster::host_of(endpoint who) const {
  switch (who.what) {
  case role::coordinator:
  case role::evaluator:
    return holders_.front()->host;
  case role::lead:
  case role::holder:
    return holders_.at(who.index)->host;
  case role::worker:
    return workers_.at(who.index)->host;
  }
  return {};
}

/// `left`: when its sender sent it, where that is not now.
void cluster::send(endpoint from, endpoint to, message what, std::uint64_t bytes, std::optional<nanoseconds> left) {
  parcel out{.from = from, .to = to, .what = std::move(what)};
  if (to.what == role::worker) {
    const worker_seat& at = seat({to.index});
    if (!at.alive)
      return;
    out.life = at.self.incarnation;
  }
  nanoseconds at = left.value_or(now_);
  const host_id here = host_of(from), there = host_of(to);
  const bool control = from.what == role::coordinator || to.what == role::coordinator;
  if (carries_tensor(out.what) && to.what != role::evaluator)
    at += options_.measured.message;
  if (here != there && bytes > 0) {
    result_.bytes += bytes;
    out.bytes = bytes;
    out.leaves = network_.limited();
    if (!out.leaves)
      at += network_.latency();
  } else if (here != there && !evaluates(out.what, to)) {
    at += control ? control_latency_ : network_.latency();
  }
  at = std::max(at, now_);
  const bool disordered = options_.tests.jitter > 0 || reorder_ > 0;
  if (disordered && from != to) {
    at += static_cast<nanoseconds>(dice_.below(static_cast<std::uint64_t>(options_.tests.jitter) + 1));
    if (reorder_ > 0 && dice_.hit(reorder_))
      at += late();
  }
  // Of these two, not all that goes the same way takes the same time.
  if (from != to && (disordered || from.what == role::lead || from.what == role::coordinator)) {
    nanoseconds& last = last_on_link_[{actor_of(from), actor_of(to)}];
    at = last = std::max(last, at);
  }
  queue_.push(at, std::move(out));
}

void cluster::arrive(parcel&& what) {
  if (what.lost)
    return;
  if (std::exchange(what.leaves, false))
    return transmit(std::move(what));
  if (waits_at_worker(what))
    return;
  if (auto* done = std::get_if<computed>(&what.what))
    if (worker_seat& at = *workers_.at(what.to.index); what.generation == at.computation)
      at.end_step(*done);
  if (loss_ > 0 && std::holds_alternative<peer_parcel>(what.what) && dice_.hit(loss_))
    return;
  const bool on_a_lane = what.from != what.to && std::ranges::none_of(std::array{what.from, what.to}, [](endpoint end) {
                           return end.what == role::coordinator || end.what == role::evaluator;
                         });
  if (on_a_lane && repeat_ > 0 && dice_.hit(repeat_))
    repeat(what);
  hear(what);
}

void cluster::transmit(parcel&& what) {
  TROUPE_ASSERT(what.bytes > 0);
  const host_id from = host_of(what.from), to = host_of(what.to);
  network_.start(++last_transmission_, from, to, what.bytes, now_);
  transmitted_.emplace(last_transmission_, std::move(what));
  look_at({from, true});
  look_at({to, false});
}

/// What is through a link has its latency before it.
void cluster::look_at(host_link which) {
  for (const std::uint64_t id : network_.through(which, now_)) {
    TROUPE_ASSERT(transmitted_.contains(id));
    queue_.push(now_ + network_.latency(), std::move(transmitted_.extract(id).mapped()));
  }
  if (const auto next = network_.next_look(which))
    queue_.push(*next, which);
}

/// At a worker that is paused, or on one side or the other of a partition. Workers that wait for nobody stop while the job is
/// held.
bool cluster::waits_at_worker(const parcel& what) {
  const auto park_at = [&what](worker_seat& at) {
    at.parked.push_back(what);
    return true;
  };
  if (what.from != what.to)
    for (const endpoint end : {what.from, what.to})
      if (end.what == role::worker && workers_.at(end.index)->partitions > 0)
        return park_at(*workers_.at(end.index));
  if (what.to.what == role::worker && workers_.at(what.to.index)->paused_until > now_)
    return park_at(*workers_.at(what.to.index));
  if (protocol_.decentralized && !clock_.running() && std::holds_alternative<computed>(what.what))
    return park_at(*workers_.at(what.to.index));
  return false;
}

/// By how much what is late comes later.
nanoseconds cluster::late() const {
  return 10 * std::max(options_.tests.jitter, network_.latency());
}

/// A lane that is opened anew may carry again what it had carried: at once, or later, behind what was sent since.
void cluster::repeat(const parcel& what) {
  const bool may_be_late = std::holds_alternative<push_parcel>(what.what) || std::holds_alternative<arrival>(what.what)
                           || std::holds_alternative<params_parcel>(what.what);
  if (may_be_late && dice_.hit(0.5))
    queue_.push(now_ + static_cast<nanoseconds>(dice_.below(static_cast<std::uint64_t>(late()) + 1)), what);
  else
    hear(what);
}

void cluster::tell_listeners(endpoint from, endpoint to, const message& what) {
  for (listener* each : listeners_)
    each->heard(now_, from, to, what);
}

void cluster::hear(const parcel& what) {
  if (const auto* timer = std::get_if<expired>(&what.what)) {
    if (!timers_.fire(what.to, timer->timer, what.generation))
      return;
  } else if (what.to.what == role::worker) {
    const worker_seat& at = *workers_.at(what.to.index);
    const bool stale = std::holds_alternative<computed>(what.what) && what.generation != at.computation;
    if (!at.alive || at.self.incarnation != what.life || stale)
      return;
  } else if (what.to.what == role::holder && !holders_.at(what.to.index)->alive) {
    return;
  }
  ++result_.events;
  digest_.add(static_cast<std::uint64_t>(now_));
  digest_.add(static_cast<std::uint64_t>(what.from.what) << 56 | std::uint64_t{what.from.index} << 28 | what.to.index);
  digest_.add(what.what);
  tell_listeners(what.from, what.to, what.what);
  switch (what.to.what) {
  case role::coordinator:
    return on_coordinator(what.what);
  case role::lead:
    return holders_.at(what.to.index)->hear_as_lead(what.what);
  case role::holder:
    return holders_.at(what.to.index)->hear(what.what);
  case role::worker:
    return workers_.at(what.to.index)->hear(what.what);
  case role::evaluator:
    return on_evaluator(what.what);
  }
}

/// Of what was under way from a dead role: all arrives, or, in tests, all but a random tail of each link. What was under way to
/// it is lost: who comes back has a new address.
void cluster::lose(const std::function<bool(endpoint)>& from, const std::function<bool(endpoint)>& to) {
  std::map<endpoint, std::vector<parcel*>> sent;
  const auto concerns = [&](parcel& under_way) {
    if (to(under_way.to))
      under_way.lost = true;
    else if (from(under_way.from))
      sent[actor_of(under_way.to)].push_back(&under_way);
  };
  for (event* each : queue_.pending())
    if (auto* under_way = std::get_if<parcel>(each))
      concerns(*under_way);
  for (auto& [id, under_way] : transmitted_) // behind what has left the links already
    concerns(under_way);
  if (!options_.tests.tail_loss)
    return;
  for (auto& [receiver, parcels] : sent)
    for (std::size_t i = dice_.below(parcels.size() + 1); i < parcels.size(); ++i)
      parcels[i]->lost = true;
}

} // namespace troupe::protocols::sim
