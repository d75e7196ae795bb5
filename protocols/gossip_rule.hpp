// SPDX-License-Identifier: BSD-3-Clause
// The lead's part in gossip: it counts steps.
#pragma once

#include "protocols/rule.hpp"

namespace troupe::protocols {

/// Gives every member the initial parameters and counts each reported step as a version, so that the job is evaluated and ends as
/// any other. It answers no push.
class gossip_rule final : public rule {
public:
  rule_effects on(const plan& msg) override;
  rule_effects on(const push& msg) override;
  rule_effects on(const worker_down&) override { return {}; } // the plan says who is there
  rule_effects on(const expired&) override { return {}; }
  version current() const override { return state_.made; }
  std::vector<worker_id> waiting_for() const override; ///< every member
  void check() const override;
  rule_state state() const override { return state_; }
  void restore(const rule_state& from) override {
    if (const auto* known = std::get_if<gossip_rule_state>(&from))
      state_ = *known;
  }

private:
  gossip_rule_state state_;
};

} // namespace troupe::protocols
