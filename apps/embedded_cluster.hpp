// SPDX-License-Identifier: BSD-3-Clause
// An embedded cluster: this process and its children on loopback, or processes on other hosts that join it.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <caf/actor_system.hpp>

#include "actors/extensions.hpp"
#include "actors/messages/cluster.hpp"
#include "actors/sockets/security.hpp"
#include "apps/config/cluster_file.hpp"
#include "apps/processes.hpp"
#include "apps/signals.hpp"

namespace troupe::actors::net {
class tls_peers;
}

namespace troupe::apps {

/// The prefix of the names of embedded clusters.
inline constexpr std::string_view embedded_name = "embedded-";

/// Other users of this machine are kept out, of the control plane as of the lanes.
inline const actors::net::security embedded_security{.ca = {}, .certificate = {}, .key = {}, .own_user = true};

/// Where a child may leave why it ends, for its parent to say: beside its cluster file, which both know.
std::string last_words_file(const std::string& cluster_file, const std::string& node);

struct embedded_options {
  std::uint32_t nodes = 1; ///< processes, this one included
  std::string name;        ///< the cluster's
  /// Port on loopback for consoles (0: any free port). None: with one node nothing listens.
  std::optional<std::uint16_t> port{};
  actors::extensions added{};  ///< extensions of this program, and so of its children
  child_program children = {}; ///< by default this program
  /// Others start the nodes of this cluster, whose coordinator is this process: it has no children, and the file's name and port.
  const config::cluster* hosts = nullptr;
  std::shared_ptr<const actors::net::tls_peers> peers = {}; ///< with `hosts`: of the actor system
};

/// A child that has ended.
struct ended_child {
  std::uint32_t node = 0;
  std::string name;    ///< the node's
  std::string how;     ///< with its last words, if there are any
  bool killed = false; ///< by a signal
  bool spoke = false;  ///< it had last words
};

/// A cluster like that of `troupe node` that ends with its job. Its other nodes are children of this process, or processes that
/// others start: they join on their own and end with it.
class embedded_cluster {
public:
  /// Throws std::runtime_error where there is no port or no temporary folder for it.
  embedded_cluster(caf::actor_system& system, signal_waiter& signals, const embedded_options& options);
  ~embedded_cluster();

  const actors::cluster_actor& actor() const { return cluster_; }
  /// 0: nothing listens.
  std::uint16_t port() const { return port_; }
  /// Children that ended since the last call; after shut_down, those that it waited for too.
  std::vector<ended_child> ended_children();
  /// Whether no child lives.
  bool alone() const { return children_.empty(); }
  /// Starts the child of a node, again where it has ended: it joins as the first one did. Throws std::system_error.
  void start_child(std::uint32_t node);
  /// Has the other nodes end in order, with what is wrong (empty: nothing); then kills the children that are left.
  void shut_down(const std::string& wrong = {});

private:
  void reap();
  void listen(std::uint16_t port, const std::string& host);
  void dismiss(const std::string& wrong);
  void start_children(const embedded_options& options);
  std::string file() const { return folder_ + "/cluster.toml"; }

  caf::actor_system& system_;
  signal_waiter& signals_;
  actors::cluster_actor cluster_;
  std::uint16_t port_ = 0;
  std::string folder_; ///< holds the children's cluster file
  child_processes children_;
  std::vector<ended_child> ended_;
  bool scripts_;    ///< children end by themselves once their cluster has, as what they run may have something to finish
  bool owns_nodes_; ///< the other nodes are children
};

} // namespace troupe::apps
