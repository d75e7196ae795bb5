// SPDX-License-Identifier: BSD-3-Clause
// The lead's part in allreduce: it counts versions.
#pragma once

#include "protocols/rule.hpp"

namespace troupe::protocols {

/// Gives every member the initial parameters, and counts a version once all members have reported it, so that the job is
/// evaluated and ends as any other. It answers no push: workers stop by themselves. What a dead worker has reported, and nobody
/// else, is made again and does not count; what the living have, is.
class allreduce_rule final : public rule {
public:
  rule_effects on(const plan& msg) override;
  rule_effects on(const push& msg) override;
  rule_effects on(const worker_down&) override { return {}; } // the plan says who is there
  rule_effects on(const expired&) override { return {}; }
  version current() const override { return state_.made; }
  std::vector<worker_id> waiting_for() const override; ///< who has not reported the next version
  void check() const override;
  rule_state state() const override { return state_; }
  void restore(const rule_state& from) override {
    if (const auto* known = std::get_if<allreduce_rule_state>(&from))
      state_ = *known;
  }

private:
  bool is_ahead(const push& msg) const;
  bool learn(const push& msg);
  void count(rule_effects& out);
  void close(rule_effects& out);

  allreduce_rule_state state_;
};

} // namespace troupe::protocols
