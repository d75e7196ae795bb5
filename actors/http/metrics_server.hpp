// SPDX-License-Identifier: BSD-3-Clause
// A web server for one text: a node's metrics for Prometheus.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "actors/sockets/security.hpp"

namespace troupe::actors::net {

struct metrics_options {
  std::string host = "127.0.0.1";         ///< name or address
  std::uint16_t port = 0;                 ///< 0: any free port
  net::security security = {};            ///< if set, HTTPS for clients with a certificate of the same authority
  std::function<std::string()> text = {}; ///< called for each answer, on the server's thread
  std::size_t most_connections = 64;      ///< a further one replaces the oldest
  std::uint32_t most_request_bytes = 8192;
  std::chrono::milliseconds deadline{10'000}; ///< for a connection, from its beginning to the end of its answer
};

/// Serves `GET /metrics` and nothing else: HTTP/1.1, a connection for each request, on a thread of its own. With `security`, a
/// client without a certificate of the authority is refused in the TLS handshake, before a request is read.
class metrics_server {
public:
  /// Listens at once, even while connections of an earlier process linger. Throws std::system_error if it cannot,
  /// std::runtime_error naming a file of `security` that TLS does not take.
  static std::unique_ptr<metrics_server> open(metrics_options options);

  /// Closes all connections.
  virtual ~metrics_server() = default;
  metrics_server(const metrics_server&) = delete;
  metrics_server& operator=(const metrics_server&) = delete;

  /// The port where it listens.
  virtual std::uint16_t port() const = 0;

protected:
  metrics_server() = default;
};

} // namespace troupe::actors::net
