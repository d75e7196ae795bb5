// SPDX-License-Identifier: BSD-3-Clause
// Asynchronous consensus ADMM with a partial barrier and bounded delay (Zhang & Kwok 2014), for sum_i f_i(x) / n + l1 |x|: the
// centre's half. The workers' half is in admm_task.hpp.
#pragma once

#include <map>
#include <optional>

#include "protocols/protocol.hpp"

namespace troupe::protocols {

struct admm_options {
  double rho = 1, l1 = 0;
  std::size_t barrier = 0; ///< S, capped at the live workers; 0: half of them
  std::uint64_t delay = 8; ///< tau: every worker takes part in at least one of any tau consecutive rounds
};

/// The newest u_i = x_i + l_i / rho of every worker is kept. A round closes once S workers have pushed a new one and no worker
/// would be left out for the tau-th time in a row: z = soft(mean_i u_i, l1 / rho), which minimises the augmented Lagrangian sum_i
/// (f_i(x_i) + <l_i, x_i - z> + rho/2 |x_i - z|^2) / n + l1 |z| over z. The workers that pushed get the new z. A worker that has
/// never pushed is left out of the mean (ours).
class admm final : public rule {
public:
  explicit admm(const admm_options& options) : options_(options) {}

  rule_effects on(const plan& msg) override;
  rule_effects on(const push& msg) override;
  rule_effects on(const worker_down& msg) override;
  rule_effects on(const expired&) override { return {}; }
  version current() const override { return state_.z; }
  std::vector<worker_id> waiting_for() const override;
  void check() const override;
  rule_state state() const override { return state_; }
  void restore(const rule_state& from) override {
    if (const auto* known = std::get_if<admm_state>(&from))
      state_ = *known;
  }

private:
  bool ready() const;
  void close_if_ready(rule_effects& out);
  void send_z(rule_effects& out);
  static void drop(rule_effects& out, const admm_member& state);
  static rule_effects refuse(const push& msg, const char* why);

  admm_options options_;
  admm_state state_;
};

protocol admm_protocol();

} // namespace troupe::protocols
