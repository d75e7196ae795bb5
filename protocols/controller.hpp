// SPDX-License-Identifier: BSD-3-Clause
// The interface of a protocol's control: what the coordinator changes while a job runs.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "protocols/effect.hpp"

namespace troupe::protocols {

/// A change of the plan; absent fields stay as they are.
struct decision {
  std::optional<std::uint32_t> period{};
  std::optional<protocol_spec> protocol{};
  std::optional<double> lr_scale{}; ///< factor on the job's learning rate
  std::optional<std::uint32_t> partition_kib{};
  std::string why{}; ///< for the operator and logs, with the numbers behind the decision
};

/// Observes the rounds and decides. Runs at the coordinator; a decision takes effect when the next round begins.
class controller {
public:
  virtual ~controller() = default;
  /// Before each plan, with what it says.
  virtual void on(const plan& msg) { (void)msg; }
  /// A round has closed, at this learning rate.
  virtual std::optional<decision> on(const report& closed, double learning_rate) {
    (void)closed;
    (void)learning_rate;
    return std::nullopt;
  }
  /// How often `on_interval` is to be called, in training time; 0: never.
  virtual nanoseconds interval() const { return 0; }
  virtual std::optional<decision> on_interval(nanoseconds at) {
    (void)at;
    return std::nullopt;
  }
  /// What it remembers of the job (memory.hpp), besides the newest plan.
  virtual std::vector<double> memory() const { return {}; }
  /// To a new one, after that plan. It forgets what it does not understand.
  virtual void remember(std::span<const double> memory) { (void)memory; }
  /// Ends the process where an invariant of its state is broken. Between messages.
  virtual void check() const {}
};

} // namespace troupe::protocols
