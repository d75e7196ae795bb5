// SPDX-License-Identifier: BSD-3-Clause
// CAF as Troupe sets it up.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <caf/abstract_actor.hpp>
#include <caf/actor_cast.hpp>
#include <caf/actor_system.hpp>
#include <caf/actor_system_config.hpp>
#include <caf/io/middleman.hpp>
#include <caf/openssl/publish.hpp>
#include <caf/openssl/remote_actor.hpp>

#include "actors/sockets/security.hpp"
#include "actors/sockets/tls.hpp"
#include "actors/sockets/tls_peers.hpp"

namespace troupe::actors {

/// Registers every message type; once per process, before the first actor system.
void init_message_types();

struct system_options {
  bool networked = false;      ///< loads CAF's network layer
  std::string cluster_key;     ///< nodes with another key are refused; empty: a console, which may reach any cluster
  bool listens = false;        ///< consoles that do not know the key may reach it
  net::security security = {}; ///< with certificates, the control plane speaks TLS, with peers of the same authority only
  bool metrics = false;        ///< mailboxes and handlers of our actors are counted, in the system's registry
  /// Told of another user's connection (security.own_user), which is closed without an answer: "connection from ...". On a thread
  /// of the network; must not block. May be empty.
  std::function<void(const std::string&)> refused = {};
  /// Told that certificates were read again; on any thread, must not block. May be empty.
  std::function<void(const std::string&)> say = {};
};

/// Measured choices: the sharing scheduler wakes an actor from a foreign thread in 4-9 us where the stealing one takes 38-110;
/// heartbeats find a stopped peer; a peer's header cannot make us allocate more than 1 MiB.
class system_config : public caf::actor_system_config {
public:
  /// Throws std::runtime_error that names a file of `security` which TLS does not take.
  explicit system_config(const system_options& options);
  /// Whose certificates the connections of this system show; null without certificates.
  const std::shared_ptr<net::tls_peers>& peers() const { return peers_; }
  /// Ends the connections of whoever's certificate has been revoked since; their names. To be called every few seconds.
  std::vector<std::string> end_revoked();

private:
  std::shared_ptr<net::tls_source> certificates_; ///< null: none
  std::shared_ptr<const net::tls_context> reviewed_;
  std::shared_ptr<net::tls_peers> peers_;
};

/// Whether both ends of every connection must show a certificate.
bool is_secured(const caf::actor_system& system);

/// Lets other processes reach an actor at host:port (0: any free port); the port. The only place where the control plane listens.
template <class Handle>
caf::expected<std::uint16_t> publish(caf::actor_system& system, const Handle& actor, std::uint16_t port,
                                     const std::string& host) {
  return is_secured(system) ? caf::openssl::publish(actor, port, host.c_str(), true)
                            : system.middleman().publish(actor, port, host.c_str(), true);
}
/// The actor that another process published. Blocks until connected: not for an actor that others wait for. CAF's error where
/// either end refuses the other's certificate is disconnect_during_handshake or cannot_connect_to_node.
template <class Handle>
caf::expected<Handle> reach(caf::actor_system& system, const std::string& host, std::uint16_t port) {
  for (;;) {
    auto found = is_secured(system) ? caf::openssl::remote_actor<Handle>(system, host, port)
                                    : system.middleman().remote_actor<Handle>(host, port);
    // CAF keeps a handle until it hears of the actor's end, which may come a moment late; such an actor does not answer.
    if (!found || !caf::actor_cast<caf::abstract_actor*>(*found)->getf(caf::abstract_actor::is_terminated_flag))
      return found;
  }
}

/// Why `reach` failed, if the certificates of this system, or their absence, are the reason; else empty. Asks the other end,
/// which takes at most three seconds.
std::string what_keeps_out(const caf::actor_system& system, const caf::error& why, const std::string& host, std::uint16_t port);

} // namespace troupe::actors
