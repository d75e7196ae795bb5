// SPDX-License-Identifier: BSD-3-Clause
// How messages get from one role to another.
#include <algorithm>
#include <array>
#include <utility>

#include "kernels/assert.hpp"
#include "protocols/duration.hpp"
#include "protocols/sim/holders.hpp"
#include "protocols/sim/roles.hpp"

namespace troupe::protocols::sim {

namespace {

using role = endpoint::role;

/// Whether it is made to carry a tensor, even an empty one.
bool carries_tensor(const message& msg) {
  return std::holds_alternative<push_envelope>(msg) || std::holds_alternative<params_envelope>(msg)
         || std::holds_alternative<partial_envelope>(msg);
}

/// Of sums by partitions those of the first layers go first, but none before the last round's.
std::uint32_t order_on_links(const message& msg, bool by_layers, std::uint32_t partitions) {
  const auto* chunk = std::get_if<peer_envelope>(&msg);
  if (chunk == nullptr || !by_layers || chunk->head.part.of <= 1)
    return 0;
  const auto place = std::uint64_t{chunk->head.part.first} * partitions / chunk->head.part.of;
  return static_cast<std::uint32_t>(chunk->head.round * partitions + place);
}

/// Part of an evaluation, which takes no training time: what travels for it must not let others go on meanwhile.
bool evaluates(const message& msg, endpoint to) {
  if (const auto* order = std::get_if<send_order>(&msg))
    return order->to == std::vector{evaluator};
  return to.kind == role::evaluator || std::holds_alternative<fetch_order>(msg);
}

} // namespace

/// A shard's lead and its holder are one actor, and so is a backup in its place: what they send, and are sent, comes in one
/// order.
endpoint cluster::actor_of(endpoint who) const {
  const bool holds = who.kind == role::lead || who.kind == role::holder;
  return holds ? endpoint{role::holder, holders_->at(who.index).born.value} : who;
}

host_id cluster::host_of(endpoint who) const {
  switch (who.kind) {
  case role::coordinator:
  case role::evaluator:
    return host_of_coordinator_;
  case role::lead:
  case role::holder:
    return holders_->at(who.index).host;
  case role::worker:
    return workers_.at(who.index)->host;
  }
  return {};
}

/// `left`: when its sender sent it, where that is not now. `along`: more workers of the receiver's host; it crosses the link
/// once.
void cluster::send(endpoint from, endpoint to, message msg, std::uint64_t bytes, std::optional<nanoseconds> left,
                   const std::vector<worker_id>& along) {
  envelope out{.from = from, .to = to, .content = std::move(msg)};
  if (to.kind == role::worker) {
    const worker_role& receiver = role_of({to.index});
    if (!receiver.alive)
      return;
    out.life = receiver.self.incarnation;
  }
  const bool to_holder = to.kind == role::lead || to.kind == role::holder;
  if (to_holder && from.kind == role::coordinator && !holders_->at(to.index).alive)
    return; // whoever takes its place lives elsewhere
  nanoseconds at = left.value_or(now_);
  const host_id here = host_of(from), there = host_of(to);
  const bool control = from.kind == role::coordinator || to.kind == role::coordinator;
  if (carries_tensor(out.content) && to.kind != role::evaluator)
    at += options_.measured.message;
  if (here != there && bytes > 0) {
    result_.bytes += bytes;
    out.bytes = bytes;
    out.leaves = network_.limited();
    if (!out.leaves)
      at += network_.latency();
  } else if (here != there && !evaluates(out.content, to)) {
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
  if (from != to && (disordered || from.kind == role::lead || from.kind == role::coordinator)) {
    nanoseconds& last = last_on_link_[{actor_of(from), actor_of(to)}];
    at = last = std::max(last, at);
  }
  if (auto* part = std::get_if<params_envelope>(&out.content); part != nullptr && out.leaves)
    part->since = at + network_.latency();
  for (const worker_id other : along)
    if (out.leaves)
      out.others.push_back({from, {role::worker, other.value}, out.content, 0, role_of(other).self.incarnation});
    else
      send(from, {role::worker, other.value}, out.content, 0, left);
  queue_.push(at, std::move(out));
}

void cluster::arrive(envelope&& mail) {
  if (mail.lost && std::ranges::all_of(mail.others, &envelope::lost))
    return;
  if (std::exchange(mail.leaves, false))
    return transmit(std::move(mail));
  if (waits_at_worker(mail))
    return;
  if (auto* done = std::get_if<computed>(&mail.content))
    if (worker_role& at = *workers_.at(mail.to.index); mail.generation == at.computation)
      at.end_step(*done);
  if (loss_ > 0 && std::holds_alternative<peer_envelope>(mail.content) && dice_.hit(loss_))
    return;
  const bool on_a_lane = mail.from != mail.to && std::ranges::none_of(std::array{mail.from, mail.to}, [](endpoint end) {
                           return end.kind == role::coordinator || end.kind == role::evaluator;
                         });
  if (on_a_lane && repeat_ > 0 && dice_.hit(repeat_))
    repeat(mail);
  hear(mail);
}

void cluster::transmit(envelope&& mail) {
  TROUPE_ASSERT(mail.bytes > 0);
  const host_id from = host_of(mail.from), to = host_of(mail.to);
  std::uint64_t id = 0;
  if (const auto begun = begun_.take(mail.from, mail.to, mail.content)) {
    id = begun->transmission;
    network_.extend(id, from, to, mail.bytes - std::min(mail.bytes, begun->bytes), now_);
  } else {
    id = network_.start(from, to, mail.bytes, now_,
                        order_on_links(mail.content, options_.by_layers, cuts_.of(coordinator_->machine.current()).partitions));
  }
  transmitted_.emplace(id, std::move(mail));
  look_at({from, true});
  look_at({to, false});
}

/// What is through a link has its latency before it.
void cluster::look_at(host_link which) {
  for (const std::uint64_t id : network_.through(which, now_)) {
    auto found = transmitted_.extract(id);
    if (!found)
      continue; // all there is of a push so far
    envelope mail = std::move(found.mapped());
    auto others = std::exchange(mail.others, {});
    queue_.push(now_ + network_.latency(), std::move(mail));
    for (envelope& other : others)
      queue_.push(now_ + network_.latency(), std::move(other));
  }
  if (const auto next = network_.next_look(which))
    queue_.push(*next, which);
}

/// At a worker that is paused, or on one side or the other of a partition. Workers that wait for nobody stop while the job is
/// held.
bool cluster::waits_at_worker(const envelope& mail) {
  const auto park_at = [&mail](worker_role& worker) {
    worker.parked.push_back(mail);
    return true;
  };
  if (mail.from != mail.to)
    for (const endpoint end : {mail.from, mail.to})
      if (end.kind == role::worker && workers_.at(end.index)->partitions > 0)
        return park_at(*workers_.at(end.index));
  if (mail.to.kind == role::worker && workers_.at(mail.to.index)->paused_until > now_)
    return park_at(*workers_.at(mail.to.index));
  if (protocol_.decentralized && !clock_.running() && std::holds_alternative<computed>(mail.content))
    return park_at(*workers_.at(mail.to.index));
  return false;
}

/// By how much what is late comes later.
nanoseconds cluster::late() const {
  return 10 * std::min(longest_duration / 10, std::max(options_.tests.jitter, network_.latency()));
}

/// A lane that is opened anew may carry again what it had carried: at once, or later, behind what was sent since.
void cluster::repeat(const envelope& mail) {
  const bool may_be_late = std::holds_alternative<push_envelope>(mail.content) || std::holds_alternative<arrival>(mail.content)
                           || std::holds_alternative<params_envelope>(mail.content);
  if (may_be_late && dice_.hit(0.5))
    queue_.push(now_ + static_cast<nanoseconds>(dice_.below(static_cast<std::uint64_t>(late()) + 1)), mail);
  else
    hear(mail);
}

void cluster::tell_listeners(endpoint from, endpoint to, const message& msg) {
  for (listener* each : listeners_)
    each->heard(now_, from, to, msg);
}

void cluster::hear(const envelope& mail) {
  if (const auto* timer = std::get_if<expired>(&mail.content)) {
    auto& timers = mail.to == the_coordinator ? coordinator_->timers : holders_->at(mail.to.index).timers;
    if (!timers.fire(timer->timer))
      return;
  } else if (mail.to.kind == role::worker) {
    const worker_role& at = *workers_.at(mail.to.index);
    const bool stale = mail.generation != 0 && mail.generation != at.computation;
    if (!at.alive || at.self.incarnation != mail.life || stale)
      return;
  } else if ((mail.to.kind == role::holder || mail.to.kind == role::lead) && !holders_->at(mail.to.index).alive) {
    return;
  } else if (mail.to.kind == role::coordinator && !coordinator_->alive) {
    return;
  }
  ++result_.events;
  digest_.add(static_cast<std::uint64_t>(now_));
  digest_.add(static_cast<std::uint64_t>(mail.from.kind) << 56 | std::uint64_t{mail.from.index} << 28 | mail.to.index);
  digest_.add(mail.content);
  tell_listeners(mail.from, mail.to, mail.content);
  switch (mail.to.kind) {
  case role::coordinator:
    return coordinator_->hear(mail.content);
  case role::lead:
    return holders_->at(mail.to.index).hear_as_lead(mail.content);
  case role::holder:
    return holders_->at(mail.to.index).hear(mail.content);
  case role::worker:
    return workers_.at(mail.to.index)->hear(mail.content);
  case role::evaluator:
    return evaluator_->hear(mail.content);
  }
}

/// Of what was under way from a dead role: all arrives, or, in tests, all but a random tail of each link. What was under way to
/// it is lost: who comes back has a new address. Returns what does not arrive of what it had sent.
std::vector<cluster::envelope> cluster::lose(const std::function<bool(endpoint)>& from, const std::function<bool(endpoint)>& to) {
  std::map<endpoint, std::vector<envelope*>> sent;
  const auto concerns = [&](envelope& one) {
    if (to(one.to))
      one.lost = true;
    else if (from(one.from))
      sent[actor_of(one.to)].push_back(&one);
  };
  const auto concern_all = [&](envelope& under_way) {
    concerns(under_way);
    std::ranges::for_each(under_way.others, concerns);
  };
  for (event* each : queue_.pending())
    if (auto* under_way = std::get_if<envelope>(each))
      concern_all(*under_way);
  for (auto& [id, under_way] : transmitted_) // behind what has left the links already
    concern_all(under_way);
  std::vector<envelope> out;
  if (!options_.tests.tail_loss)
    return out;
  for (auto& [receiver, envelopes] : sent)
    for (std::size_t i = dice_.below(envelopes.size() + 1); i < envelopes.size(); ++i) {
      envelopes[i]->lost = true;
      out.push_back(*envelopes[i]);
    }
  return out;
}

} // namespace troupe::protocols::sim
