// SPDX-License-Identifier: BSD-3-Clause
// A lead whose versions are made in two phases: what it decides counts once every holder can carry it out.
#pragma once

#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <variant>
#include <vector>

#include "protocols/lead.hpp"

namespace troupe::protocols {

/// What a lead hears, beside the answers to what it has decided.
using lead_input = std::variant<plan, arrival, worker_down, expired, hold_order, resume_order, fetch_order, checkpoint_order>;

/// From what a lead has decided on a version: enough to decide the same again.
struct decision_record {
  lead_state from{};               ///< when the version before was committed
  std::vector<lead_input> since{}; ///< what it has heard since, the last of which made it decide
  std::uint64_t decision = 1;      ///< of the close
  std::set<holder_id> holders{};   ///< who must be prepared
  squared_norm squares_before{};   ///< of the sum of the version before
  std::vector<plan> plans{};       ///< to a backup that is new: those that it may not have heard
  friend bool operator==(const decision_record&, const decision_record&) = default;
};

/// What is decided of a version, until it is committed.
struct proposal {
  close round{};
  lead_effects before{}, after{}; ///< of the same decision
  friend bool operator==(const proposal&, const proposal&) = default;
};

/// All that a lead with two phases remembers between messages.
struct replicated_lead_state {
  decision_record record{}; ///< from the last commit on
  std::uint64_t view = 0;
  lead_state lead{};
  std::optional<proposal> open{};
  std::set<holder_id> missing{}; ///< of `record.holders`
  std::set<holder_id> unable{};  ///< of these: they lack what is lost
  std::deque<lead_input> waiting{};
  bool takes_over = false;   ///< from another lead: the record is not decided again yet
  bool needs_orders = false; ///< likewise: the coordinator's newest hold_order has not come, so nothing else may be decided
  close committed{};         ///< the newest
  std::map<holder_id, squared_norm> squares{}; ///< of the open version's sum, by those that are prepared
  friend bool operator==(const replicated_lead_state&, const replicated_lead_state&) = default;
};

/// Wraps a lead. The lead decides as ever; this keeps its orders back until they cannot be lost:
///
///   propose   The close alone goes to the holders; before it, its record to the backups of the lead's own shard.
///   commit    Once all shards and backups are prepared: a commit_order, then the other orders and reports of the decision. Where
///             sums are clipped, each shard has measured its part, and the commit_order has the whole.
///   abandon   One lacks a push whose worker is gone, or a sum that an aggregator took along. The lead is put back to the
///   record's
///             beginning, hears of the loss in time, and decides again. No holder has made the version, for not all were
///             prepared.
///
/// Meanwhile, and while the lead holds, what it hears waits here. Who takes the lead's place decides again by the last record: if
/// the last lead has committed that version, all holders are prepared for this very decision, and it is committed here, too; if
/// some can never be, it was not.
///
/// A sans-IO machine, as all here: a call of `on` may be followed by calls of `next`, until that returns nothing; each time, the
/// effects are to be performed first.
class replicated_lead {
public:
  using maker = std::function<std::shared_ptr<lead>(lead_state from)>;

  /// The first lead of a job: `view` is 0, and `from.since` empty. Another begins with what the record says.
  replicated_lead(maker make, decision_record from, std::uint64_t view);
  /// It goes on where the one with this state was.
  replicated_lead(maker make, replicated_lead_state from);

  lead_effects on(lead_input msg);
  lead_effects on(const prepared& msg);
  lead_effects on(const holder_down& msg);
  lead_effects on(const takes_over& msg);
  lead_effects on(const new_backup& msg);
  /// What has waited.
  std::optional<lead_effects> next();

  const std::shared_ptr<lead>& decides() const { return lead_; }
  /// Of the newest proposal.
  const decision_record& record() const { return state_.record; }
  /// For a backup that lacks those before: of the proposal, or of all that has been decided.
  decision_record newest_record() const;
  /// The newest close that was committed.
  const close& committed() const { return state_.committed; }
  /// Whether it decides again what the last lead may have decided.
  bool repeats() const { return state_.takes_over; }
  /// What it has not heard yet.
  const std::deque<lead_input>& parked() const { return state_.waiting; }
  /// Holders that are not prepared for the version that is proposed; none if none is.
  const std::set<holder_id>& waiting_for() const { return state_.missing; }
  replicated_lead_state state() const;
  void check() const;

private:
  void decide_anew();
  bool must_wait(const lead_input& msg) const;
  void hear_of_orders();
  lead_effects decide(lead_input msg);
  lead_effects commit();
  bool concerns_proposal(const lead_input& msg) const;
  bool is_hopeless() const;
  lead_effects abandon();

  maker make_;
  std::shared_ptr<lead> lead_;
  replicated_lead_state state_; ///< without the lead's
};

} // namespace troupe::protocols
