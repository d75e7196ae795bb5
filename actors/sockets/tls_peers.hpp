// SPDX-License-Identifier: BSD-3-Clause
// Who is at the other end of each TLS connection of the control plane.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "actors/sockets/security.hpp"

struct ssl_st;
struct x509_st;

namespace troupe::actors::net {

class tls_context;

/// The connections of CAF's TLS, whose module looks at no names: it is told of each handshake, and of each end. Thread-safe.
class tls_peers {
public:
  /// The handshake of this connection is done.
  void met(ssl_st* connection);
  /// It ends; its descriptor is still open. It need not have been met.
  void parted(ssl_st* connection);

  /// Whose certificate was shown by whoever is connected from this address and port; nothing: nobody is.
  std::optional<certified_peer> at(const std::string& address, std::uint16_t port) const;

  /// Ends the connections whose certificates have been revoked, by what this context knows; their owners' names.
  std::vector<std::string> end_revoked(const tls_context& by);

private:
  struct peer {
    std::string address; ///< as inet_ntop writes it
    std::uint16_t port = 0;
    certified_peer who;
    std::shared_ptr<x509_st> certificate;
  };

  mutable std::mutex mutex_;
  std::map<int, peer> peers_; ///< by descriptor
};

} // namespace troupe::actors::net
