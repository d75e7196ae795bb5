// SPDX-License-Identifier: BSD-3-Clause
// DC-ASGD: asynchronous SGD with delay compensation (Zheng et al. 2017, algorithms 1 and 2).
#pragma once

#include "protocols/async_sgd.hpp"
#include "protocols/memory.hpp"

namespace troupe::protocols {

/// A gradient g was computed at w_bak and is applied at w. The gradient at w, to first order and with the Hessian's diagonal
/// taken as lambda g*g, is g + lambda g*g*(w - w_bak). w_bak, kept for each worker, are the parameters last sent to it. Adaptive:
/// lambda / sqrt(s + 1e-7), where s = 0.95 s + 0.05 g*g, by element, at each push. The paper's lambda is 2 for the adaptive form
/// and 0.04 for the constant one. Ours: one s per shard, and async's learning rate.
class dc_async final : public async_sgd {
public:
  dc_async(double lambda, bool adaptive) : lambda_(lambda), adaptive_(adaptive) {}

private:
  delay_compensation compensation_of(member from) const override { return {lambda_, adaptive_, backups_.at(from)}; }

  void sent(rule_effects& out, member to) override {
    left(out, to);
    const ticket backup{++last_};
    backups_.emplace(to, backup);
    out.emplace_back(retain{backup});
  }

  void left(rule_effects& out, member who) override {
    if (const auto old = backups_.extract(who))
      out.emplace_back(release{old.mapped()});
  }

  std::vector<double> memory() const override {
    memory_writer out;
    out.put(last_);
    for (const auto& [who, backup] : backups_)
      out.put(who).put(backup.value);
    return std::move(out).take();
  }
  void remember(std::span<const double> memory) override {
    memory_reader in{memory};
    last_ = in.integer<std::uint64_t>();
    while (!in.done()) {
      const member who = in.member();
      backups_[who] = {in.integer<std::uint64_t>()};
    }
  }

  double lambda_;
  bool adaptive_;
  std::map<member, ticket> backups_;
  std::uint64_t last_ = 0;
};

inline protocol dc_async_protocol() {
  const auto adaptive = bool_parameter("adaptive", true, "divide lambda by the root of a running mean square of the gradient");
  auto lambda = real_parameter("lambda", 2, {.least = 0}, "strength of the compensation; without adaptive 0.04 is the default");
  lambda.default_with = [adaptive](const protocol_spec& spec) -> spec_value { return adaptive.of(spec) ? 2.0 : 0.04; };
  return {
      .name = "dc-async",
      .summary = "DC-ASGD: asynchronous SGD whose gradients are compensated for their delay",
      .round_is_full = "each push alone, compensated with its worker's backup; learning rate times samples / (n B)",
      .recipients = "the pusher, at once",
      .pays_when = "speeds differ, and stale gradients do harm",
      .per_push = true,
      .resumable = true,
      .parameters = {lambda, adaptive},
      .keeps = [](const protocol_spec&) { return footprint{.backups = true}; },
      .make_rule = [lambda, adaptive](const protocol_spec& spec,
                                      std::uint64_t) { return std::make_unique<dc_async>(lambda.of(spec), adaptive.of(spec)); },
      .make_worker = own_slice_worker_maker()};
}

} // namespace troupe::protocols
