// SPDX-License-Identifier: BSD-3-Clause
// Which process may join a cluster, and under which name.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <caf/node_id.hpp>

#include "actors/messages/cluster.hpp"
#include "actors/sockets/tls_peers.hpp"

namespace troupe::actors {

/// Where there are certificates, a node joins under the name in its own. A process is known to CAF by a number of its own choice,
/// but what is sent to that number goes to the connection that it came by; and of that connection the certificate is known.
class admission {
public:
  /// `peers` is null without certificates; `added`: names of what this cluster's program adds to Troupe.
  admission(std::shared_ptr<const net::tls_peers> peers, std::vector<std::string> added)
      : peers_(std::move(peers)), added_(std::move(added)) {}

  /// Why it may not join; empty: it may. Nothing: `note` has to be called before, once for each call of this. `sender`: of the
  /// request, which must be the process that wants to join.
  std::optional<std::string> objection(const node_hello& hello, const caf::strong_actor_ptr& sender, const caf::node_id& joins);
  /// The address and port of the connection to a process, as the middleman knows them; 0: none.
  void note(const caf::node_id& process, const std::string& address, std::uint16_t port);

private:
  std::shared_ptr<const net::tls_peers> peers_;
  std::vector<std::string> added_;
  std::map<caf::node_id, std::optional<net::certified_peer>> noted_;
};

} // namespace troupe::actors
