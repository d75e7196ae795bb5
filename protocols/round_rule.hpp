// SPDX-License-Identifier: BSD-3-Clause
// The engine of every protocol with rounds: membership, late pushes, who waits, what is sent.
#pragma once

#include "protocols/round_policy.hpp"
#include "protocols/rule.hpp"

namespace troupe::protocols {

/// One round is open from the first plan on, unless all its workers are dead. It keeps the plan it began with; a newer plan takes
/// effect with the next round, or at once if no worker is left in this one. If other aggregators are gone in it, the open round
/// is abandoned: what has been pushed may be lost. The policy decides when a round is full.
///
/// Parameters go to the workers that wait: to all of them at each new version; to one whose push came too late, at that push. A
/// worker that still computes is sent none. A push that is late, or not one of this round, is discarded; a push without samples,
/// or with an element that is not finite, counts as arrived and adds no term. Without any term the version advances without a
/// step.
///
/// Invariant: `pushed` of the round holds at most one push per member of its `live`, each computed against its `base` under its
/// plan.
class round_rule final : public rule {
public:
  explicit round_rule(policy_maker make, std::uint64_t seed = 0);

  rule_effects on(const plan& msg) override;
  rule_effects on(const push& msg) override;
  rule_effects on(const worker_down& msg) override;
  rule_effects on(const expired& msg) override;
  version current() const override { return state_.round.base; }
  std::vector<worker_id> waiting_for() const override;
  void check() const override;
  rule_state state() const override;
  void restore(const rule_state& from) override;

private:
  rule_effects begin();
  rule_effects close_if_full();
  rule_effects close(const closing& how);
  rule_effects abandon();
  sent_parameters sending() const { return {state_.now, state_.round.base, state_.round.plan.epoch}; }
  rule_effects refuse(const push& msg, bool waits);
  void send(rule_effects& out, const std::vector<worker_id>& to) const;

  policy_maker make_;
  std::uint64_t seed_;
  std::unique_ptr<round_policy> policy_; ///< of the round's plan; none before the first
  round_rule_state state_;               ///< without the policy's memory
};

} // namespace troupe::protocols
