// SPDX-License-Identifier: BSD-3-Clause
// The holder: keeps pushes until the lead has decided. Every shard and every aggregator runs one.
#pragma once

#include <deque>
#include <map>
#include <optional>
#include <set>
#include <variant>
#include <vector>

#include "protocols/effect.hpp"
#include "protocols/place.hpp"

namespace troupe::protocols {

/// What a holder performs in the lead's order.
using holder_order = std::variant<close, send_order, drop_order, retain, release, report>;

/// The sum of a round whose version is not made yet.
struct summed {
  version ver{};
  std::uint64_t decision = 0;            ///< as in `close`
  ticket sum{};                          ///< 0: no push counted
  bool own = true;                       ///< sent to every backup; else some may lack it: the primary made it, or they came since
  std::optional<squared_norm> squares{}; ///< of the sum, once it is measured
  friend bool operator==(const summed&, const summed&) = default;
};

/// The answer to `measure`.
struct measured {
  version ver{};
  std::uint64_t decision = 0; ///< as in `close`
  squared_norm squares{};
  friend bool operator==(const measured&, const measured&) = default;
};

/// How far a backup is that has begun later than its shard. It is asked to be prepared as any other, and copies the shard piece
/// by piece in between: it asks for some when no round waits here, and is prepared once they have come. So neither of the two is
/// a version ahead, and a piece that comes is of the version that is here.
struct catch_up {
  bool admitted = false;    ///< by the lead: until then it hears nothing
  std::uint64_t view = 0;   ///< of that lead
  std::uint32_t pieces = 1; ///< of the shard, with the last one (copy_request)
  std::set<std::uint32_t> here{};
  std::set<std::uint32_t> asked{}; ///< of this version, and not here yet
  friend bool operator==(const catch_up&, const catch_up&) = default;
};

/// What a child has sent for a round.
struct child_sum {
  std::uint64_t decision = 0; ///< as in `close`
  ticket sum{};               ///< 0: no push counted
  friend bool operator==(const child_sum&, const child_sum&) = default;
};

/// All that a holder remembers between messages.
struct holder_state {
  protocols::plan plan{}; ///< the newest
  std::map<worker_id, push_id>
      newest{}; ///< per worker, the last push taken; the last possible one of an incarnation that is down
  std::map<push_id, push> kept{};
  std::map<version, std::map<holder_id, child_sum>> partials{}; ///< of rounds that are not summed yet
  std::deque<holder_order> orders{};                            ///< the first is a close that waits
  version current{};
  version ordered{}; ///< of the last close heard
  // Where versions are made in two phases:
  std::map<version, summed> sums{};              ///< of versions that are not made yet
  version committed{};                           ///< may be made
  bool announced = false, refused = false;       ///< `prepared` is said of the close that waits; or that it is not possible
  std::uint64_t decided = 0;                     ///< by which decision the current version was made; 0: none was
  std::map<worker_id, send_order> sent{};        ///< the newest that goes to each
  std::uint64_t view = 0;                        ///< of the newest lead heard of
  std::optional<close> doubtful{};               ///< an earlier lead's last, which may have been committed
  std::optional<catch_up> joins{};               ///< of a backup that has not all yet
  std::map<holder_id, std::uint64_t> admitted{}; ///< the other backups of the shard that began later: in which view
  std::map<holder_id, copy_request> asked_for{}; ///< of a shard: by those that catch up
  squared_norm made_of{};                        ///< of this shard's part of the current version's sum, where sums are clipped
  squared_norm committed_of{};                   ///< of the whole sum of the committed version, likewise
  std::map<worker_id, push> dropped{};           ///< each one's last that was kept and then dropped, without its tensor
  friend bool operator==(const holder_state&, const holder_state&) = default;
};

/// Reports arrivals, keeps their tickets, and maps the lead's orders to them. Never decides, never sends on its own. Orders are
/// performed in the lead's order, so a close that waits delays the orders behind it.
///
/// A push is refused here (`discard`) if it is not newer than its worker's last, comes from an incarnation that is down, or from
/// a worker outside the plan. Any other push is kept until a close uses it or a `drop_order` names it. A `worker_down` alone does
/// not drop it: the lead may have counted it already.
///
/// Where shards have backups, and in a tree of aggregators, a version is made in two phases (as in Gray 1978): a close waits here
/// until the round's sum is here, and then until `commit_order`. A shard sums its workers' pushes and its children's sums, and
/// says `prepared`; a backup has its primary's sum; an aggregator sends its own upward. So a version that is made anywhere can be
/// made everywhere, whoever dies. Where sums are clipped, `prepared` carries the squares of a shard's part, and the commit those
/// of the whole: a shard scales its step by them. A backup takes the steps of its shard and sends nothing to workers. When it
/// takes the shard's place, it sends them what the shard may not have sent; a push that it lacks comes again from its worker, and
/// a sum from its child. A backup that begins later catches up (catch_up).
/// An order of a dead lead may still come: its successor is told of what was dropped by it, too. That is decided alike again, for
/// no tensor is needed for it.
///
/// In a tree, a plan without some aggregator moves others (tree.hpp). A round is summed by the places of its own plan: a close
/// ahead of its plan waits, and one whose places are no more cannot be prepared.
///
/// Tickets: a message's ticket belongs to the machine from then on. Each comes back in exactly one `apply_round` or `discard`, or
/// as a child's sum in a `sum_up`; except those that a close keeps for later closes. Ticket 0 (a push without samples) comes back
/// in none.
class holder {
public:
  /// `from`: it goes on where the holder with this state was.
  explicit holder(holder_place place, holder_state from = {});
  ~holder();

  holder_effects on(const plan& msg);
  holder_effects on(const push& msg);
  holder_effects on(const partial& msg);
  holder_effects on(const close& msg);
  holder_effects on(const send_order& msg) { return enqueue(msg); }
  holder_effects on(const drop_order& msg) { return enqueue(msg); }
  holder_effects on(const retain& msg) { return enqueue(msg); }
  holder_effects on(const release& msg) { return enqueue(msg); }
  /// Comes back once the orders before it are performed, so that it is true here too. A lead's `held` goes this way.
  holder_effects on(const report& msg) { return enqueue(msg); }
  holder_effects on(const worker_down& msg);
  holder_effects on(const holder_down& msg);
  holder_effects on(const summed& msg); ///< the answer to `sum_up`
  holder_effects on(const measured& msg);
  holder_effects on(const commit_order& msg);
  holder_effects on(const takes_over& msg);
  holder_effects on(const admit_order& msg);
  holder_effects on(const copy_request& msg);
  holder_effects on(const shard_piece& msg);

  const holder_place& place() const { return place_; }
  const holder_state& state() const { return state_; }
  /// Ends the process if an invariant of its state is broken. To be called between messages.
  void check() const;
  /// The newest version whose close was performed here.
  version current() const { return state_.current; }
  std::size_t kept() const { return state_.kept.size(); } ///< pushes held now
  /// Children whose sum the next close waits for; empty when no close waits.
  std::vector<holder_id> waiting_for() const;
  /// What the next version still lacks, whether its close has come or not: sums of children, pushes of the plan's workers.
  std::vector<holder_id> children_missing() const;
  std::vector<worker_id> workers_missing() const;

private:
  void take_place(const plan& in);
  holder_effects enqueue(holder_order msg);
  void prepare(holder_effects& out, const close& round);
  void say_prepared(holder_effects& out, const close& round, bool possible = true) const;
  squared_norm squares_of(version ver) const;
  squared_norm squares_to_say(version ver) const;
  void commit(version ver, const squared_norm& of);
  bool ready(holder_effects& out, const close& round);
  void sum_up_if_complete(holder_effects& out, const close& round);
  bool has_places_of(const close& round) const;
  void forward_again(holder_effects& out, holder_id to) const;
  bool is_outside() const { return state_.joins && !state_.joins->admitted; }
  bool add_backup(holder_id who);
  bool is_gone(const push_id& id) const;
  void forget_sums(holder_effects& out, version upto);
  void make(holder_effects& out, const close& round);
  std::optional<close> take_back_uncommitted();
  void settle_doubt(version proposed);
  /// Performs orders up to the first close that must wait.
  holder_effects advance();
  /// Children whose sum for this round has not come.
  std::vector<holder_id> missing(const close& round) const;
  void perform(holder_effects& out, const close& round);
  void perform(holder_effects& out, const send_order& order);
  void perform(holder_effects& out, const drop_order& order);

  holder_place place_;
  holder_state state_;
};

} // namespace troupe::protocols
