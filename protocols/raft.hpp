// SPDX-License-Identifier: BSD-3-Clause
// Raft: a few members agree on one log of decisions, though a minority of them, or of their links, is lost.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <variant>
#include <vector>

#include "protocols/raft_log.hpp"
#include "protocols/raft_message.hpp"

/// Ongaro and Ousterhout 2014, figure 2; Ongaro's thesis (2014), sections 3.6 (no-op), 4.2.3 and 9.6 (pre-vote), 6.2 (a leader
/// without a majority steps down), 5 (a snapshot is the whole ledger, in one message). Left out: changes of membership, leases
/// and reads.
namespace troupe::protocols::raft {

// -- other input

struct tick {};
/// Decide these, in this order.
struct proposal {
  std::vector<payload> entries{}; ///< none is empty
};
/// What came of the entries up to `index`, all committed: they are not kept any more.
struct compaction {
  log_index index{};
  payload words{};
};

// -- effects

/// To `message.to`, as it is carried.
struct send {
  raft::message message{};
  friend bool operator==(const send&, const send&) = default;
};
/// Decided, for good, and in this order at every member: the entries after the last that this said, or after the snapshot.
struct committed {
  std::vector<entry> entries{};
  friend bool operator==(const committed&, const committed&) = default;
};
/// Stands for `committed` of all entries up to its index.
struct installed {
  raft::snapshot snapshot{};
  friend bool operator==(const installed&, const installed&) = default;
};
/// This member is the leader of the term, the only one ever. It does not know yet what is committed: its first own entry,
/// an empty one, says that all before it is.
struct leads {
  raft::term term{};
  friend bool operator==(const leads&, const leads&) = default;
};
/// This member does not lead (any more); who does, if it knows.
struct follows {
  std::optional<member_id> who{};
  friend bool operator==(const follows&, const follows&) = default;
};
using effect = std::variant<persist, send, committed, installed, leads, follows>;
using effects = std::vector<effect>;

// -- the machine

enum class role : std::uint8_t { follower, pre_candidate, candidate, leader };
/// What a leader knows of another member.
struct progress {
  log_index next{};      ///< to be sent; follows `match`, or what is tried
  log_index match{};     ///< up to which the log is known to be the same
  bool waits = false;    ///< something is on its way, and nothing more is sent before an answer
  nanoseconds heard = 0; ///< the last answer
  friend bool operator==(const progress&, const progress&) = default;
};
/// All that a member remembers between calls.
struct state {
  raft::stored stored{};
  raft::role role = role::follower;
  std::optional<member_id> leader{}; ///< of this term, if it is known and alive
  log_index commit{};
  std::set<member_id> votes{};            ///< pre_candidate, candidate: of whom
  std::map<member_id, progress> others{}; ///< leader: each of them
  nanoseconds heard = 0;                  ///< when the leader spoke last
  nanoseconds deadline = 0;               ///< leader: of the next heartbeat. Others: of an election
  friend bool operator==(const state&, const state&) = default;
};

struct options {
  member_id self{};
  std::vector<member_id> members{}; ///< self among them, each once, the same at all
  std::uint64_t seed = 0;           ///< of the election timeouts
  nanoseconds heartbeat = 100'000'000;
  nanoseconds election = 500'000'000; ///< timeouts are drawn from here to twice as much
};

/// Decides and never acts: its effects are to be carried out in the order in which they were returned, over all calls. Then a
/// crash at any moment is survived, as long as a disk keeps what it says it has. A member alone is elected by its first tick, and
/// commits what is persisted.
///
/// Input that is late, repeated, foreign or malformed has no effects, or those of an answer. Times are of one monotonic clock.
class member {
public:
  /// Begins, or begins again, with what its disk has, which must be sound. The snapshot counts as installed.
  member(const options& about, stored disk, nanoseconds now);
  /// Goes on where the member with this state was.
  member(const options& about, raft::state from);

  effects on(const message& msg, nanoseconds now);
  /// To be called often: whatever is due waits for it. Every tenth of `heartbeat` will do.
  effects on(const tick& msg, nanoseconds now);
  /// Ignored unless it leads. Its entries get the indices after that of the last in its log. They may be lost if it ceases to
  /// lead before they are committed, and may still be committed then: who repeats a proposal must see in the ledger that it was
  /// there.
  effects on(const proposal& msg, nanoseconds now);
  /// Ignored beyond what is committed, and before the snapshot.
  effects on(const compaction& msg, nanoseconds now);

  const raft::state& state() const { return state_; }
  bool leads() const { return state_.role == role::leader; }
  /// Ends the process if an invariant of its state is broken. To be called between calls.
  void check() const;

private:
  struct step; // a call: what it was before, and its effects
  void take(step& now, const message& msg, const vote_request& body);
  void take(step& now, const message& msg, const vote_reply& body);
  void take(step& now, const message& msg, const append_request& body);
  void take(step& now, const message& msg, const append_reply& body);
  void take(step& now, const message& msg, const install_request& body);
  void follow(step& now, raft::term in, std::optional<member_id> leader);
  void ask(step& now, raft::role as);
  void win(step& now);
  void write(step& now, entry fresh);
  void heartbeat(step& now, member_id to);
  void replicate(step& now, member_id to);
  void count_copies(step& now);
  void commit(step& now, log_index upto);
  void compact(step& now, raft::snapshot upto);
  void say(step& now, member_id to, decltype(message::body) body, std::optional<raft::term> in = {}) const;
  void arm(nanoseconds now);
  effects finish(step& now) const;

  bool majority(std::size_t count) const { return 2 * count > options_.members.size(); }
  std::vector<member_id> others() const;

  options options_;
  raft::state state_;
};

} // namespace troupe::protocols::raft
