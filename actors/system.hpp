// SPDX-License-Identifier: BSD-3-Clause
// CAF as Troupe sets it up.
#pragma once

#include <string>

#include <caf/actor_system_config.hpp>

namespace troupe::actors {

/// Registers every message type; once per process, before the first actor system.
void init_message_types();

struct system_options {
  bool networked = false;  ///< loads CAF's network layer
  std::string cluster_key; ///< nodes with another key are refused
};

/// Measured choices (design: CAF settings): the sharing scheduler wakes an actor from a foreign thread in 4-9 us where the
/// stealing one takes 38-110; heartbeats find a stopped peer; a peer's header cannot make us allocate more than 1 MiB.
class system_config : public caf::actor_system_config {
public:
  explicit system_config(const system_options& options);
};

} // namespace troupe::actors
