// SPDX-License-Identifier: BSD-3-Clause
// The policy that distinguishes round protocols: when a round is full, and with what weights.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <vector>

#include "protocols/effect.hpp"

namespace troupe::protocols {

/// The open round as a policy sees it.
struct open_round {
  protocols::plan plan{};          ///< with which it began
  version base{};                  ///< against which its gradients are computed
  std::uint64_t position = 0;      ///< in the data, of its global batch
  std::set<member> live{};         ///< members of the plan that it waits for
  std::map<member, push> pushed{}; ///< by worker: the order of summing
  nanoseconds began = 0;           ///< training time
  bool out_of_patience = false;    ///< the policy's patience has run out
  friend bool operator==(const open_round&, const open_round&) = default;

  bool full() const { return pushed.size() == live.size(); }
  /// When a batch has fewer samples than there are workers, some workers have none: their pushes are not gradients.
  bool has_samples(member who) const;
  /// How many gradients have come: usable pushes.
  std::size_t gradients() const;
  /// Whether all gradients have come: no worker with samples has yet to push.
  bool settled() const;
  /// Samples of its global batch, over all its local steps.
  std::uint64_t samples() const;
  std::uint64_t end() const; ///< position of the next round
};

/// A push that can be part of a sum.
inline bool usable(const push& part) {
  return part.finite && part.samples > 0;
}

/// How a round is closed: pushes that are not named are discarded.
struct closing {
  std::map<member, double> weights{}; ///< of usable pushes
  std::int64_t samples = 0;           ///< that the version uses, each counted once
  step_rule step{};
  double residual = 0; ///< coded: how far the decoded sum is from the full one, as a bound on coefficients
};

/// Every usable push, weighted by its samples, as far as their labels count.
closing by_samples(const open_round& round);

/// An object lives as long as plans name the same protocol with the same parameters, and may remember past rounds. It is never
/// asked about an empty round.
class round_policy {
public:
  virtual ~round_policy() = default;
  /// A round begins, perhaps under a new plan. Returns which of the plan's live members take part.
  virtual std::set<member> begin(const open_round& round, const std::set<member>& alive) {
    (void)round;
    return alive;
  }
  /// How to close the round now; nothing to keep waiting. Must close a full round.
  virtual std::optional<closing> close(const open_round& round) = 0;
  /// Whether deaths have made it impossible to close the round well. It then restarts once a plan leaves out the dead.
  virtual bool lost(const open_round& round) {
    (void)round;
    return false;
  }
  /// How long after the round began to ask again whether it closes.
  virtual std::optional<nanoseconds> patience(const open_round& round) const {
    (void)round;
    return std::nullopt;
  }
  /// A push came, `elapsed` after its parameters were sent, perhaps too late for its round.
  virtual void arrived(const push& msg, nanoseconds elapsed) {
    (void)msg;
    (void)elapsed;
  }
  /// What it remembers of past rounds (memory.hpp); what follows from its parameters and the open round is no part of it.
  virtual std::vector<double> memory() const { return {}; }
  /// To a new one, before anything else. It forgets what it does not understand.
  virtual void remember(std::span<const double> memory) { (void)memory; }
};

using policy_maker = std::function<std::unique_ptr<round_policy>(const protocol_spec&, std::uint64_t seed)>;

} // namespace troupe::protocols
