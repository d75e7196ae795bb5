// SPDX-License-Identifier: BSD-3-Clause
// What is left for the lead to do in gossip: to count.
#pragma once

#include <map>

#include "protocols/rule.hpp"

namespace troupe::protocols {

/// The rule: hands every member the first parameters and counts the steps that are reported, each as a version; so the job is
/// evaluated and ends as any other. It answers no push.
class gossip_rule final : public rule {
public:
  rule_effects on(const plan& msg) override;
  rule_effects on(const push& msg) override;
  rule_effects on(const worker_down&) override { return {}; } // the plan says who is there
  rule_effects on(const expired&) override { return {}; }
  version current() const override { return version_; }
  std::vector<worker_id> waiting_for() const override; ///< everybody

private:
  plan plan_;
  std::map<member, nanoseconds> live_; ///< when it was heard of last
  version version_;
  std::uint64_t samples_ = 0;
};

} // namespace troupe::protocols
