// SPDX-License-Identifier: BSD-3-Clause
// Elections, replication, commitment, snapshots.
#include "protocols/raft.hpp"

#include <algorithm>
#include <functional>
#include <iterator>
#include <utility>

#include "kernels/assert.hpp"
#include "protocols/random_stream.hpp"

namespace troupe::protocols::raft {

namespace {

constexpr std::size_t most_words = 64U << 10U; // of one append_request

} // namespace

struct member::step {
  step(const raft::state& before, nanoseconds at)
      : now(at), term(before.stored.term), vote(before.stored.vote), leader(before.leader) {}

  nanoseconds now;
  // before
  raft::term term;
  std::optional<member_id> vote, leader;
  // since then
  std::optional<log_index> written{}; // the first new entry
  bool replaced = false;              // the snapshot
  effects out{};
};

member::member(const options& about, stored disk, nanoseconds now) : options_(about) {
  state_.stored = std::move(disk);
  state_.commit = state_.stored.snapshot.index;
  arm(now);
  if (options_.members.size() == 1)
    state_.deadline = now;
}

member::member(const options& about, raft::state from) : options_(about), state_(std::move(from)) {}

effects member::on(const message& msg, nanoseconds now) {
  const auto peers = others();
  if (msg.to != options_.self || std::ranges::find(peers, msg.from) == peers.end())
    return {};
  step current{state_, now};
  const auto* const request = std::get_if<vote_request>(&msg.body);
  const auto* const reply = std::get_if<vote_reply>(&msg.body);
  const bool only_if = (request != nullptr && request->pre) || (reply != nullptr && reply->pre && reply->granted);
  if (msg.term > state_.stored.term && !only_if)
    follow(current, msg.term, {});
  std::visit([&](const auto& body) { take(current, msg, body); }, msg.body);
  return finish(current);
}

effects member::on(const tick&, nanoseconds now) {
  step current{state_, now};
  if (leads()) {
    const auto in_touch = [&](const auto& other) { return now - other.second.heard < 2 * options_.election; };
    const auto count = static_cast<std::size_t>(std::ranges::count_if(state_.others, in_touch));
    if (!majority(count + 1)) {
      follow(current, state_.stored.term, {});
    } else if (now >= state_.deadline) {
      state_.deadline = now + options_.heartbeat;
      for (const member_id other : others())
        heartbeat(current, other);
    }
  } else if (now >= state_.deadline) {
    ask(current, role::pre_candidate);
  }
  return finish(current);
}

effects member::on(const proposal& msg, nanoseconds now) {
  step current{state_, now};
  if (!leads())
    return {};
  for (const payload& words : msg.entries)
    write(current, {next(state_.stored.last()), state_.stored.term, words});
  for (const auto& [other, known] : state_.others)
    if (!known.waits)
      replicate(current, other);
  count_copies(current);
  return finish(current);
}

effects member::on(const compaction& msg, nanoseconds now) {
  step current{state_, now};
  if (msg.index > state_.commit || msg.index <= state_.stored.snapshot.index)
    return {};
  state_.stored.compact({msg.index, *state_.stored.term_at(msg.index), msg.words});
  current.replaced = true;
  return finish(current);
}

// -- elections

void member::take(step& now, const message& msg, const vote_request& body) {
  const stored& own = state_.stored;
  const bool complete = std::pair(body.last_term, body.last) >= std::pair(own.last_term(), own.last());
  bool granted = false;
  if (body.pre) {
    const bool led = leads() || (state_.leader && now.now - state_.heard < options_.election);
    granted = msg.term > own.term && complete && !led;
  } else {
    granted = msg.term == own.term && complete && (!own.vote || own.vote == msg.from);
  }
  if (granted && !body.pre)
    state_.stored.vote = msg.from;
  say(now, msg.from, vote_reply{body.pre, granted}, body.pre && granted ? msg.term : own.term);
}

void member::take(step& now, const message& msg, const vote_reply& body) {
  const auto asked = body.pre ? role::pre_candidate : role::candidate;
  const raft::term in{state_.stored.term.value + (body.pre ? 1 : 0)};
  if (!body.granted || state_.role != asked || msg.term != in)
    return;
  state_.votes.insert(msg.from);
  if (majority(state_.votes.size()))
    win(now);
}

/// For votes, its own first.
void member::ask(step& now, raft::role as) {
  const bool pre = as == role::pre_candidate;
  if (!pre) {
    ++state_.stored.term.value;
    state_.stored.vote = options_.self;
  }
  state_.role = as;
  state_.leader.reset();
  state_.votes = {options_.self};
  arm(now.now);
  if (majority(1)) {
    win(now);
    return;
  }
  const raft::term in{state_.stored.term.value + (pre ? 1 : 0)};
  for (const member_id other : others())
    say(now, other, vote_request{pre, state_.stored.last(), state_.stored.last_term()}, in);
}

void member::win(step& now) {
  if (state_.role == role::pre_candidate) {
    ask(now, role::candidate);
    return;
  }
  state_.role = role::leader;
  state_.leader = options_.self;
  state_.votes.clear();
  state_.deadline = now.now + options_.heartbeat;
  const log_index first = next(state_.stored.last());
  for (const member_id other : others())
    state_.others[other] = {.next = first, .heard = now.now};
  write(now, {first, state_.stored.term, {}}); // entries of older terms are committed with it, never by their copies
  for (const member_id other : others())
    replicate(now, other);
  count_copies(now);
}

void member::follow(step& now, raft::term in, std::optional<member_id> leader) {
  if (in != state_.stored.term)
    state_.stored.vote.reset();
  state_.stored.term = in;
  state_.role = role::follower;
  state_.leader = leader;
  state_.votes.clear();
  state_.others.clear();
  if (leader)
    state_.heard = now.now;
  arm(now.now);
}

void member::arm(nanoseconds now) {
  const auto longest = static_cast<std::uint64_t>(options_.election);
  auto draw = random_stream::keyed(options_.seed, options_.self.value, now);
  state_.deadline = now + options_.election + static_cast<nanoseconds>(draw.below(longest));
}

// -- replication, as a follower

void member::take(step& now, const message& msg, const append_request& body) {
  if (msg.term < state_.stored.term) { // whose term is old hears so, or would lead a part for ever
    say(now, msg.from, append_reply{});
    return;
  }
  if (leads() || !well_formed(body.entries, body.previous, body.previous_term, msg.term))
    return;
  follow(now, msg.term, msg.from);
  if (body.previous < state_.commit) { // the same there: it is committed
    say(now, msg.from, append_reply{true, state_.commit, {}});
    return;
  }
  if (state_.stored.term_at(body.previous) != body.previous_term) {
    const log_index same = state_.stored.last_not_after(body.previous, body.previous_term);
    say(now, msg.from, append_reply{false, same, state_.stored.term_at(same).value_or(raft::term{})});
    return;
  }
  for (const entry& each : body.entries)
    if (state_.stored.term_at(each.index) != each.term) // else it is there; it may be an old message, and what follows newer
      write(now, each);
  const log_index known{body.previous.value + body.entries.size()};
  commit(now, std::min(body.commit, known));
  say(now, msg.from, append_reply{true, known, {}});
}

void member::take(step& now, const message& msg, const install_request& body) {
  if (msg.term < state_.stored.term) {
    say(now, msg.from, append_reply{});
    return;
  }
  if (leads() || body.snapshot.term > msg.term)
    return;
  follow(now, msg.term, msg.from);
  if (body.snapshot.index > state_.commit) {
    state_.stored.compact(body.snapshot);
    now.replaced = true;
    state_.commit = body.snapshot.index;
    now.out.emplace_back(installed{body.snapshot});
  }
  say(now, msg.from, append_reply{true, state_.commit, {}});
}

void member::write(step& now, entry fresh) {
  now.written = std::min(now.written.value_or(fresh.index), fresh.index);
  state_.stored.write(std::move(fresh));
}

void member::commit(step& now, log_index upto) {
  if (upto <= state_.commit)
    return;
  now.out.emplace_back(committed{state_.stored.between(state_.commit, upto)});
  state_.commit = upto;
}

// -- replication, as the leader

void member::heartbeat(step& now, member_id to) {
  const log_index previous{std::max(state_.others[to].next.value - 1, state_.stored.snapshot.index.value)};
  say(now, to, append_request{previous, *state_.stored.term_at(previous), {}, state_.commit});
}

/// Only to who has answered what went before: to the dead go heartbeats alone.
void member::replicate(step& now, member_id to) {
  const stored& own = state_.stored;
  progress& other = state_.others[to];
  other.waits = true;
  if (other.next <= own.snapshot.index) {
    say(now, to, install_request{own.snapshot});
    return;
  }
  const log_index previous{other.next.value - 1};
  auto entries = own.between(previous, own.last());
  std::size_t words = 0;
  const auto too_many = [&](const entry& each) { return (words += each.words.size()) > most_words && each.index != other.next; };
  entries.erase(std::ranges::find_if(entries, too_many), entries.end());
  say(now, to, append_request{previous, *own.term_at(previous), std::move(entries), state_.commit});
}

void member::take(step& now, const message& msg, const append_reply& body) {
  if (!leads() || msg.term != state_.stored.term || body.index > state_.stored.last())
    return;
  progress& other = state_.others[msg.from];
  other.heard = now.now;
  other.waits = false;
  if (body.taken) {
    other.match = std::max(other.match, body.index);
    other.next = next(other.match);
    count_copies(now);
  } else {
    const log_index same = state_.stored.last_not_after(body.index, body.at);
    if (same < other.match) // an old answer
      return;
    other.next = std::min(other.next, next(same));
  }
  if (other.next <= state_.stored.last())
    replicate(now, msg.from);
}

/// What a majority has is committed, if it ends with an entry of this term (figure 8 of the paper). Its own copy counts: the
/// effect waits for the disk.
void member::count_copies(step& now) {
  std::vector<log_index> copies{state_.stored.last()};
  for (const auto& [id, other] : state_.others)
    copies.push_back(other.match);
  std::ranges::sort(copies, std::greater<>{});
  const log_index upto = copies[options_.members.size() / 2];
  if (state_.stored.term_at(upto) == state_.stored.term)
    commit(now, upto);
}

// -- both

std::vector<member_id> member::others() const {
  auto out = options_.members;
  std::erase(out, options_.self);
  return out;
}

void member::say(step& now, member_id to, decltype(message::body) body, std::optional<raft::term> in) const {
  now.out.emplace_back(send{{options_.self, to, in.value_or(state_.stored.term), std::move(body)}});
}

effects member::finish(step& now) const {
  const stored& own = state_.stored;
  effects out;
  if (now.replaced || now.written || own.term != now.term || own.vote != now.vote) {
    persist changed{own.term, own.vote, {}, {}};
    if (now.replaced)
      changed.snapshot = own.snapshot;
    if (now.replaced || now.written)
      changed.entries = own.between(now.replaced ? own.snapshot.index : log_index{now.written->value - 1}, own.last());
    out.emplace_back(std::move(changed));
  }
  if (state_.leader != now.leader) {
    if (leads())
      out.emplace_back(raft::leads{own.term});
    else
      out.emplace_back(follows{state_.leader});
  }
  std::ranges::move(now.out, std::back_inserter(out));
  return out;
}

void member::check() const {
  const auto peers = others();
  TROUPE_ASSERT(peers.size() + 1 == options_.members.size());
  TROUPE_ASSERT(sound(state_.stored));
  TROUPE_ASSERT(state_.commit >= state_.stored.snapshot.index && state_.commit <= state_.stored.last());
  TROUPE_ASSERT(leads() == (state_.leader == options_.self));
  TROUPE_ASSERT(leads() ? state_.others.size() == peers.size() : state_.others.empty());
  TROUPE_ASSERT((state_.role == role::pre_candidate || state_.role == role::candidate) == !state_.votes.empty());
  TROUPE_ASSERT(state_.role == role::follower || leads() || !state_.leader);
  TROUPE_ASSERT((state_.role != role::candidate && !leads()) || state_.stored.vote == options_.self);
  for (const auto& [id, other] : state_.others) {
    TROUPE_ASSERT(std::ranges::find(peers, id) != peers.end());
    TROUPE_ASSERT(other.match < other.next && other.next <= next(state_.stored.last()));
  }
}

} // namespace troupe::protocols::raft
