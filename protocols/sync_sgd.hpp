// SPDX-License-Identifier: BSD-3-Clause
// Synchronous SGD: a round closes when every live worker has pushed (Chen et al. 2016, section 2).
#pragma once

#include <map>
#include <set>

#include "protocols/rule.hpp"

namespace troupe::protocols {

/// One round is open from the first plan on, unless all its workers are dead. It keeps the plan it began with; the newest
/// plan begins with the next round, or at once when nobody is left in this one.
///
/// A version is one optimizer step on the mean gradient over the round's samples. A push without samples, or with an
/// element that is not finite, counts as arrived and adds no term; without any term the version advances without a step.
///
/// Invariant: `pushed_` holds at most one push per member of `live_`, each computed against `version_` under `plan_`.
class sync_sgd final : public rule {
public:
  rule_effects on(const plan& msg) override;
  rule_effects on(const push& msg) override;
  rule_effects on(const worker_down& msg) override;
  rule_effects on(const expired& msg) override;
  version current() const override { return version_; }
  std::vector<worker_id> waiting_for() const override;

private:
  rule_effects begin_round();
  rule_effects close_if_full();
  rule_effects close_round();

  plan newest_;                   ///< of the next round
  std::set<member> dead_;         ///< members of `newest_` that died since it was made
  plan plan_;                     ///< of the open round
  std::set<member> live_;         ///< members of `plan_` that the round counts on
  std::map<member, push> pushed_; ///< by worker id: the order of summing
  version version_;
  std::uint64_t position_ = 0; ///< in the data, of the open round's global batch
};

} // namespace troupe::protocols
