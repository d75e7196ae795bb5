// SPDX-License-Identifier: BSD-3-Clause
// The mechanics of rounds, the same for every protocol that has them: membership, late pushes, who waits, what is sent.
#pragma once

#include "protocols/round_policy.hpp"
#include "protocols/rule.hpp"

namespace troupe::protocols {

/// One round is open from the first plan on, unless all its workers are dead. It keeps the plan it began with; the newest plan
/// begins with the next round, or at once when nobody is left in this one. Its policy decides when it is full.
///
/// Parameters go to workers that wait: to all of them at each new version, to one whose push came too late at that push. A worker
/// that still computes is not sent any. A push that is late, or not one of this round, is discarded; a push without
/// samples, or with an element that is not finite, counts as arrived and adds no term. Without any term the version advances
/// without a step.
///
/// Invariant: `round_.pushed` holds at most one push per member of `round_.live`, each computed against `round_.base` under
/// `round_.with`.
class round_rule final : public rule {
public:
  explicit round_rule(policy_maker make, std::uint64_t seed = 0);

  rule_effects on(const plan& msg) override;
  rule_effects on(const push& msg) override;
  rule_effects on(const worker_down& msg) override;
  rule_effects on(const expired& msg) override;
  version current() const override { return round_.base; }
  std::vector<worker_id> waiting_for() const override;
  void check() const override;

private:
  rule_effects begin();
  rule_effects close_if_full();
  rule_effects close(const closing& how);
  rule_effects abandon();
  rule_effects refuse(const push& what, bool waits);
  void send(rule_effects& out, const std::vector<worker_id>& to) const;

  policy_maker make_;
  std::uint64_t seed_;
  std::unique_ptr<round_policy> policy_; ///< of `round_.with.protocol`
  plan newest_;                          ///< of the next round
  std::set<member> dead_;                ///< members of `newest_` that died since it was made
  open_round round_;
  std::map<member, nanoseconds> busy_; ///< who has parameters and has not pushed, since when
  std::vector<timing> timings_;        ///< of pushes since the last close
  bool armed_ = false;
  nanoseconds now_ = 0;
};

} // namespace troupe::protocols
