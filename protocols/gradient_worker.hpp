// SPDX-License-Identifier: BSD-3-Clause
// The worker of sync, backup, deadline, async and ssp: one part, one step, one pushed gradient per parameters.
#pragma once

#include <map>
#include <optional>

#include "protocols/worker.hpp"

namespace troupe::protocols {

/// Answers parameters with the gradient of its own slice: cut `rank of n` of the global batch at `params.position`, where n
/// and the rank are those of the plan that the parameters belong to.
///
/// Computes one gradient at a time, each against the newest parameters that it had when it began; parameters that come
/// meanwhile, or before their plan, wait, the newest of them alone. What is old, repeated or for a plan without it is nothing.
class gradient_worker final : public worker {
public:
  explicit gradient_worker(member self);

  worker_effects on(const plan& msg) override;
  worker_effects on(const params& msg) override;
  worker_effects on(const computed& msg) override;
  worker_effects on(const peer_message& msg) override;
  worker_effects on(const peer_down& msg) override;
  worker_effects on(const expired& msg) override;

private:
  worker_effects begin_if_ready();

  member self_;
  std::map<plan_epoch, plan> plans_; ///< from that of the newest parameters on: a round keeps the plan it began with
  std::optional<params> newest_;     ///< heard
  std::optional<push> open_;         ///< what the open compute will push
  bool begun_newest_ = false;
  clock_tick clock_; ///< of the last compute begun: its step, and its push's clock
};

} // namespace troupe::protocols
