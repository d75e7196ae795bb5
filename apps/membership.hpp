// SPDX-License-Identifier: BSD-3-Clause
// A node as a member of its cluster: it joins whichever coordinator leads, and leaves in order.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <caf/actor.hpp>
#include <caf/actor_system.hpp>

#include "actors/messages/cluster.hpp"
#include "actors/messages/node.hpp"
#include "actors/system.hpp"
#include "apps/config/cluster_file.hpp"
#include "apps/signals.hpp"

namespace troupe::apps {

/// Milliseconds that a node may wait until it looks again whether certificates were revoked; -1, for ever, without any.
int pause_of(const actors::system_config& config);
void end_revoked(actors::system_config& config, const std::function<void(const std::string&)>& log);

struct membership_options {
  std::vector<std::string> added{};         ///< names of what the program adds
  bool once = false;                        ///< it ends with its cluster
  bool outlives = false;                    ///< jobs outlive their coordinator
  std::optional<actors::council_door> door; ///< of a coordinator, whose own cluster it may be
  std::chrono::seconds patience{20};        ///< with `once`: how long it waits for its coordinator; others wait for ever
  /// Why it leaves, which its job's log shall have; asked once when it ends. Empty, or none: it ends with `once` without a word.
  std::function<std::string()> parting{};
};

struct sight_of_leader;

/// Has a node join the cluster of whichever coordinator leads, again whenever one comes back, or another one leads. All on the
/// main thread. `log` tells the operator; the other references outlive it.
class membership {
public:
  membership(caf::actor_system& system, actors::system_config& config, const config::cluster& cluster,
             const config::cluster_node& self, membership_options options, actors::node_control node, signal_waiter& signals,
             std::function<void(const std::string&)> log);
  ~membership();
  membership(const membership&) = delete;
  membership& operator=(const membership&) = delete;

  /// Returns when the process is to end, with its exit code.
  int run();
  /// Why that is, unless all is well: it could not join, or its cluster is gone, or has ended for the reason that it gives.
  const std::string& why() const { return why_; }

private:
  using coordinator = const config::cluster_node*;

  /// Waits until this node has joined. False: it ends with `code`.
  bool connect(int& code);
  /// Empty: it has joined. Else the reason; `for_good`: trying again is useless. Of several coordinators each is tried, its own
  /// first, except that which is `silent`.
  std::string join(bool& for_good, coordinator silent = nullptr);
  /// If this process leads, its node belongs to its cluster already.
  std::string join_own();
  std::string join_at(const config::cluster_node& at, bool& for_good);
  bool leads() const { return coordinator_ == &self_; }
  void watch();
  /// Until the process is to end, true, or the cluster's actor is gone. While that is silent it stays, and looks for another
  /// leader.
  bool stay();
  /// An orderly end: its workers leave their job; parameters that it holds stay until their job ends. A coordinator that leads
  /// ends at once: another one goes on.
  void leave();

  caf::actor_system& system_;
  actors::system_config& config_;
  std::vector<coordinator> coordinators_;
  coordinator coordinator_ = nullptr; ///< whose cluster it has joined
  const config::cluster_node& self_;
  membership_options options_;
  actors::node_control node_;
  signal_waiter& signals_;
  std::function<void(const std::string&)> log_;
  actors::cluster_actor cluster_;
  std::shared_ptr<sight_of_leader> sight_;
  caf::actor watcher_;
  std::string why_;
};

} // namespace troupe::apps
