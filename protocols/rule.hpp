// SPDX-License-Identifier: BSD-3-Clause
// The interface of a deciding rule: who waits for whom.
#pragma once

#include "protocols/effect.hpp"
#include "protocols/rule_state.hpp"

namespace troupe::protocols {

/// Decides when parameters change and who gets them. Runs at the lead (once per job) or, where it applies each push alone, at
/// every shard. Never throws on input: a late, repeated or foreign message is discarded or ignored.
class rule {
public:
  virtual ~rule() = default;
  virtual rule_effects on(const plan& msg) = 0;
  virtual rule_effects on(const push& msg) = 0;
  virtual rule_effects on(const worker_down& msg) = 0;
  virtual rule_effects on(const expired& msg) = 0;
  /// The newest version that the rule has made.
  virtual version current() const = 0;
  /// Whom the open round still waits for.
  virtual std::vector<worker_id> waiting_for() const = 0;
  /// All that it remembers between messages.
  virtual rule_state state() const = 0;
  /// A new rule goes on where the one with this state was. A state of another kind is ignored.
  virtual void restore(const rule_state& from) = 0;
  /// Ends the process where an invariant of its state is broken. Between messages.
  virtual void check() const {}
};

} // namespace troupe::protocols
