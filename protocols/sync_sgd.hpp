// SPDX-License-Identifier: BSD-3-Clause
// Synchronous SGD: a round closes when every live worker has pushed (Chen et al. 2016, section 2).
#pragma once

#include "protocols/rule.hpp"

namespace troupe::protocols {

class sync_sgd final : public rule {
public:
  rule_effects on(const plan& msg) override;
  rule_effects on(const push& msg) override;
  rule_effects on(const worker_down& msg) override;
  rule_effects on(const expired& msg) override;
  version current() const override;
  std::vector<worker_id> waiting_for() const override;
};

} // namespace troupe::protocols
