// SPDX-License-Identifier: BSD-3-Clause
// The holder: keeps pushes until the lead has decided. Every shard and every aggregator runs one.
#pragma once

#include <deque>
#include <map>
#include <optional>
#include <set>
#include <variant>

#include "protocols/effect.hpp"

namespace troupe::protocols {

/// Where a holder stands in the tree of aggregators. Without aggregators: a shard that takes every worker's pushes.
struct holder_place {
  holder_id self{};
  bool is_shard = true;
  std::vector<holder_id> children{}; ///< aggregators whose partial sums come here, in the order of summing
  std::vector<holder_id> parents{};  ///< where an aggregator forwards: one aggregator, or every shard
  std::set<worker_id> workers{};     ///< whose pushes come here directly
  // Where shards have backups:
  bool commits = false;                 ///< a version is made in two phases
  std::optional<holder_id> backup_of{}; ///< it is a backup of this shard
  std::vector<holder_id> backups{};     ///< of the shard, in the order in which they take over
  friend bool operator==(const holder_place&, const holder_place&) = default;
};

/// What a holder performs in the lead's order.
using holder_order = std::variant<close, send_order, drop_order, retain, release, report>;

/// The sum of a round whose version is not made yet.
struct summed {
  version ver{};
  std::uint64_t decision = 0; ///< as in `close`
  ticket sum{};               ///< 0: no push counted
  bool own = true;            ///< made here; else it is from the primary, and the other backups may lack it
  friend bool operator==(const summed&, const summed&) = default;
};

/// All that a holder remembers between messages.
struct holder_state {
  protocols::plan plan{}; ///< the newest
  std::map<worker_id, push_id>
      newest{}; ///< per worker, the last push taken; the last possible one of an incarnation that is down
  std::map<push_id, push> kept{};
  std::map<version, std::map<holder_id, ticket>> partials{}; ///< of closes not yet performed
  std::set<holder_id> gone{};                                ///< children that are gone
  std::deque<holder_order> orders{};                         ///< the first is a close that waits
  version current{};
  version ordered{}; ///< of the last close heard
  // Where shards have backups:
  std::map<version, summed> sums{};        ///< of versions that are not made yet
  version committed{};                     ///< may be made
  bool announced = false, refused = false; ///< `prepared` is said of the close that waits; or that it is not possible
  std::uint64_t decided = 0;               ///< by which decision the current version was made; 0: none was
  std::map<worker_id, send_order> sent{};  ///< the newest that goes to each
  friend bool operator==(const holder_state&, const holder_state&) = default;
};

/// Reports arrivals, keeps their tickets, and maps the lead's orders to them. Never decides, never sends on its own. Orders are
/// performed in the lead's order, so a close that waits for children's partial sums delays the orders behind it.
///
/// A push is refused here (`discard`) if it is not newer than its worker's last, comes from an incarnation that is down, or from
/// a worker outside the plan. Any other push is kept until a close uses it or a `drop_order` names it. A `worker_down` alone does
/// not drop it: the lead may have counted it already. Every child contributes to every close, with an empty partial sum if none
/// of its workers counted, until `holder_down` says that it is gone: what it had sent still counts. In its last round, a child
/// that dies between two parents may reach the range of one parent and not of the other; versions stay in step.
///
/// Where shards have backups, a version is made in two phases (as in Gray 1978): a close waits here until the round's sum is
/// here, from its pushes or, at a backup, from its primary, which says `prepared`; then until `commit_order`. So a version that
/// is made anywhere can be made everywhere, whoever dies. A backup takes the steps of its shard and sends nothing to workers.
/// When it takes the shard's place, it sends them what the shard may not have sent; a push that it lacks comes again from its
/// worker.
///
/// Tickets: a message's ticket belongs to the machine from then on, and each comes back in exactly one `apply_round`, `forward`
/// or `discard`, except those that a close keeps for later closes. Ticket 0 (a push without samples) comes back in none.
class holder {
public:
  /// `from`: it goes on where the holder with this state was.
  explicit holder(holder_place place, holder_state from = {});
  ~holder();

  holder_effects on(const plan& msg);
  holder_effects on(const push& msg);
  holder_effects on(const partial& msg);
  holder_effects on(const close& msg);
  holder_effects on(const send_order& msg);
  holder_effects on(const drop_order& msg);
  holder_effects on(const retain& msg);
  holder_effects on(const release& msg);
  /// Comes back once the orders before it are performed, so that it is true here too. A lead's `held` goes this way.
  holder_effects on(const report& msg);
  holder_effects on(const worker_down& msg);
  holder_effects on(const holder_down& msg);
  holder_effects on(const summed& msg); ///< the answer to `sum_up`
  holder_effects on(const commit_order& msg);
  holder_effects on(const takes_over& msg);

  const holder_place& place() const { return place_; }
  const holder_state& state() const { return state_; }
  /// Ends the process if an invariant of its state is broken. To be called between messages.
  void check() const;
  /// The newest version whose close was performed here.
  version current() const { return state_.current; }
  std::size_t kept() const { return state_.kept.size(); } ///< pushes held now
  /// Children whose partial sum the next close waits for; empty when no close waits.
  std::vector<holder_id> waiting_for() const;
  /// What the next version still lacks, whether its close has come or not: sums of live children, pushes of the plan's workers.
  std::vector<holder_id> children_missing() const;
  std::vector<worker_id> workers_missing() const;

private:
  holder_effects enqueue(holder_order msg);
  void prepare(holder_effects& out, const close& round);
  void say_prepared(holder_effects& out, const close& round, bool possible = true) const;
  bool ready(holder_effects& out, const close& round);
  void sum_up_kept(holder_effects& out, const close& round);
  bool is_gone(const push_id& id) const;
  void forget_sums(holder_effects& out, version upto);
  void make(holder_effects& out, const close& round);
  template <class Predicate>
  void forget_close_if(Predicate is_void);
  /// Performs orders up to the first close that must wait.
  holder_effects advance();
  /// Live children whose partial sum for this version has not come.
  std::vector<holder_id> missing(version ver) const;
  void perform(holder_effects& out, const close& round);
  void perform(holder_effects& out, const send_order& order);
  void perform(holder_effects& out, const drop_order& order);

  holder_place place_;
  holder_state state_;
};

} // namespace troupe::protocols
