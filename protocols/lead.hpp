// SPDX-License-Identifier: BSD-3-Clause
// The lead: collects arrivals from every holder, lets a rule decide once, and translates the decision into orders for every
// holder.
#pragma once

#include <algorithm>
#include <limits>
#include <map>
#include <memory>
#include <set>

#include "protocols/place.hpp"
#include "protocols/rule.hpp"

namespace troupe::protocols {

/// A push that is not decided yet. The rule knows it once `known_as` is set.
struct open_push {
  std::set<holder_id> reported{};
  ticket known_as{};
  friend bool operator==(const open_push&, const open_push&) = default;
};

inline constexpr version no_checkpoint{std::numeric_limits<version::rep>::max()};

/// All that a lead and its rule remember between messages.
struct lead_state {
  protocols::plan plan{}; ///< the newest
  std::map<push_id, open_push> open{};
  /// Per worker, the last push that the rule saw; the last possible one of an incarnation that is down.
  std::map<worker_id, push_id> newest{};
  ticket last_ticket{};
  std::uint64_t samples_applied = 0;
  std::uint64_t sends = 0; ///< keys given out: one per sending, the same at all shards
  hold_order limit{};
  bool held = false;
  std::vector<send_params> held_back{}; ///< sent by `resume_order`
  std::vector<arrival> parked{};        ///< came while held, when no version is made
  std::vector<rule_effects> deferred{}; ///< while held: from the first that makes a version on
  version made{};                       ///< the last
  rule_state rule{};
  version checkpoint_at = no_checkpoint; ///< the first version from this one on is for one
  friend bool operator==(const lead_state&, const lead_state&) = default;
};

/// What a lead goes on from in another job with the same parameters, without this one's workers, losses, pushes and times: the
/// version, the place in the data, and what the protocol remembers of rounds. Only rules with rounds, those that apply each push
/// alone, and admm's can.
lead_state at_rest(lead_state state);
/// Likewise where all workers take the same steps and one of them, at version `made`, says it: the lead may not have heard of
/// that.
lead_state at_rest(plan newest, version made, const worker_course& course);
/// Likewise where every worker has parameters of its own, and the lead counts their steps.
lead_state at_rest(plan newest, const step_count& made);

/// Several shards must not close one round over different workers, so the rule runs once, here.
///
/// A push counts once every holder that takes it has reported it: an aggregator, or every shard. The rule sees it under a ticket
/// of the lead's own. `apply{terms}` becomes a `close` that names pushes, and the first `send_params` of the new version that
/// follows travels in the `close`. Every push ends in one close or in a `drop_order`.
///
/// Holding: at the close that reaches the limit, `send_to` stays empty, the workers that would have got parameters are
/// remembered, and `report{held}` says so; `resume_order` sends to them. The driver gives the report to its own holder, which
/// hands it on once the version is made there: until then partial sums are on their way, and training goes on. The lead can hold
/// only when a version is made. An order whose limit is already reached (or `now`) takes effect at the next version, and one that
/// comes while the lead holds takes effect after `resume_order`. Arrivals that come while it holds wait until then. So does a
/// version that the rule makes because of a death meanwhile: the dead worker may have been the last that a round waited for.
class lead {
public:
  /// `tree`: of whose arrivals make a push complete. `per_push`: the rule runs at every shard, this lead's orders are for its own
  /// shard alone, and what it sends answers one push.
  /// `from`: it goes on where the lead with this state was; `decides` is new.
  lead(std::unique_ptr<rule> decides, const tree_shape& tree, bool per_push = false, lead_state from = {});
  ~lead();

  lead_effects on(const plan& msg);
  lead_effects on(const arrival& msg);
  lead_effects on(const worker_down& msg);
  lead_effects on(const expired& msg);
  lead_effects on(const hold_order& msg);
  lead_effects on(const resume_order& msg);
  lead_effects on(const fetch_order& msg);
  /// Marks a close. A version that is made because workers died during a hold may be passed over for the one after it.
  lead_effects on(const checkpoint_order& msg);

  /// Sendings are numbered from here on, if that is not less than they are: another lead may have numbered some.
  void number_sendings_from(std::uint64_t first) { state_.sends = std::max(state_.sends, first); }
  /// From now on, each report of a closed round says what its version was made of.
  void record_rounds() { records_ = true; }

  version current() const;
  std::uint64_t samples_applied() const { return state_.samples_applied; }
  bool held() const { return state_.held; }
  std::size_t open() const { return state_.open.size(); } ///< pushes reported by some holder and not decided yet
  lead_state state() const;
  const plan& newest_plan() const { return state_.plan; }
  /// At rest, as it was when the last marked close was made; `made` is the version of that.
  const lead_state& marked() const { return marked_; }
  /// Ends the process if an invariant of its state, or of its rule's, is broken. To be called between messages.
  void check() const;
  /// The workers that the open round waits for; none while held.
  std::vector<worker_id> waiting_for() const;

private:
  lead_effects translate(rule_effects decided);
  lead_effects drop_older(const push_id& than);
  close as_close(const apply& step);
  void send(lead_effects& out, const send_params& sending);
  bool limit_reached(version made) const;
  void forget(ticket known_as);
  void learn_places();
  bool is_complete(const push_id& id, const open_push& entry) const;
  std::uint64_t key_of(const send_params& sending) { return per_push_ ? sending.answers.value : ++state_.sends; }

  std::unique_ptr<rule> rule_;
  tree_shape tree_;
  bool per_push_;
  bool records_ = false;
  lead_state state_; ///< without the rule's
  lead_state marked_;
  // What follows from `state_`:
  std::map<ticket, push_id> names_; ///< of the open pushes that the rule knows
  holder_place shard_;              ///< where the first one stands, as each does
};

} // namespace troupe::protocols
