// SPDX-License-Identifier: BSD-3-Clause
// What tells one round protocol from another: when a round is full, and with what weights.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>

#include "protocols/effect.hpp"

namespace troupe::protocols {

/// The open round as a policy sees it.
struct open_round {
  plan with{};                     ///< that it began with
  version base{};                  ///< that its gradients are computed against
  std::uint64_t position = 0;      ///< in the data, of its global batch
  std::set<member> live{};         ///< members of the plan that it counts on
  std::map<member, push> pushed{}; ///< by worker: the order of summing
  nanoseconds began = 0;           ///< training time
  bool out_of_patience = false;    ///< the policy's patience with it has run out

  bool full() const { return pushed.size() == live.size(); }
  /// Of a batch with fewer samples than workers some have none: their pushes are no gradients.
  bool has_samples(member who) const;
  /// How many gradients have come: usable pushes.
  std::size_t gradients() const;
  /// Whether no gradient is left to come: nobody who has not pushed has samples.
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
  std::int64_t samples = 0;           ///< that the version uses, each once
  step_rule step{};
  double residual = 0; ///< coded: how far the decoded sum is from the full one, as a bound on coefficients
};

/// Every usable push, weighted by its samples.
closing by_samples(const open_round& round);

/// One object lives as long as plans name the same protocol with the same parameters; it may remember past rounds. It is asked
/// about rounds that somebody takes part in, never about an empty one.
class round_policy {
public:
  virtual ~round_policy() = default;
  /// A round begins, under a new plan perhaps. Returns who takes part, of the plan's members that are alive.
  virtual std::set<member> begin(const open_round& round, const std::set<member>& alive) {
    (void)round;
    return alive;
  }
  /// How to close the round now, or nothing to wait on. Must close a round that is full.
  virtual std::optional<closing> close(const open_round& round) = 0;
  /// Whether deaths have made it impossible to close the round well: it begins anew, once a plan does without the dead.
  virtual bool lost(const open_round& round) const {
    (void)round;
    return false;
  }
  /// How long after its begin to ask again whether the round closes.
  virtual std::optional<nanoseconds> patience(const open_round& round) const {
    (void)round;
    return std::nullopt;
  }
  /// A push came, `elapsed` after its parameters were sent; too late for its round, perhaps.
  virtual void arrived(const push& what, nanoseconds elapsed) {
    (void)what;
    (void)elapsed;
  }
};

using policy_maker = std::function<std::unique_ptr<round_policy>(const protocol_spec&, std::uint64_t seed)>;

} // namespace troupe::protocols
