// SPDX-License-Identifier: BSD-3-Clause
// An embedded cluster: this process and its children on loopback, ready to run a job.
#pragma once

#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include <caf/actor_system.hpp>

#include "actors/coordinator_actor.hpp"
#include "actors/registry_actor.hpp"
#include "apps/processes.hpp"
#include "apps/signals.hpp"

namespace troupe::apps {

/// Starts `nodes` - 1 children and waits until they have joined. With one node nothing is started and nothing listens.
class embedded_cluster {
public:
  embedded_cluster(caf::actor_system& system, signal_waiter& signals, std::uint32_t nodes, const std::string& key);
  ~embedded_cluster();

  /// Waits for every child. An error says who did not come and why; an empty string: all are here. "interrupted" on Ctrl-C.
  std::string wait_for_nodes(int timeout_ms);
  /// This process first.
  std::vector<actors::member_node> nodes() const;
  /// Children that ended since the last call, in words.
  std::vector<std::string> ended_children();
  /// Lets the children end by themselves, then kills.
  void shut_down();

private:
  class joined_nodes;

  void start_children(std::uint32_t nodes, const std::string& key);

  caf::actor_system& system_;
  signal_waiter& signals_;
  std::vector<std::string> names_;
  actors::node_actor own_;
  actors::registry_actor registry_;
  std::shared_ptr<joined_nodes> joined_;
  std::string folder_; ///< holds the children's cluster file
  child_processes children_;
};

} // namespace troupe::apps
