// SPDX-License-Identifier: BSD-3-Clause
// The registry: where nodes introduce themselves to the coordinator's process.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include <caf/stateful_actor.hpp>
#include <caf/typed_event_based_actor.hpp>

#include "actors/messages.hpp"
#include "actors/type_ids.hpp"

namespace troupe::actors {

/// Called on the registry's thread: must only store and signal.
class registry_observer {
public:
  virtual ~registry_observer() = default;
  virtual void on_joined(std::uint32_t number, const node_hello& hello, const node_actor& node) = 0;
  virtual void on_left(std::uint32_t number, const std::string& reason) = 0;
};

/// Knows the names that may join; refuses strangers, other versions and names that are taken, and tells them why.
class registry_state {
public:
  static inline const char* name = "troupe.registry";

  /// `names`: by number; number 0 is the coordinator's own node and does not join.
  registry_state(registry_actor::stateful_pointer<registry_state> self, std::vector<std::string> names,
                 std::shared_ptr<registry_observer> observer);
  registry_actor::behavior_type make_behavior();

private:
  registry_actor::stateful_pointer<registry_state> self_;
  std::vector<std::string> names_;
  std::vector<node_actor> nodes_;
  std::shared_ptr<registry_observer> observer_;
};

using registry_impl = registry_actor::stateful_impl<registry_state>;

} // namespace troupe::actors
