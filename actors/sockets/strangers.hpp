// SPDX-License-Identifier: BSD-3-Clause
// Connections refused for their certificates, and why: for the client that is refused and for the server that refuses.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "actors/sockets/security.hpp"

namespace troupe::actors::net {

/// Why the server there refuses a client with these certificates, as words that follow "cannot reach it: ". Asks the server,
/// which takes at most three seconds. Empty if no server is there, or if something else is wrong.
std::string what_keeps_out(const std::string& host, std::uint16_t port, const security& own);

/// Observes every TLS connection that a server of this process refuses, through OpenSSL. Lanes and the metrics server report
/// their own and are left out. Only one may exist in a process; it outlives the servers.
class refusal_watch {
public:
  /// `tell` is called with "connection from 10.0.0.9: it shows no certificate", on the server's thread; it must not block.
  explicit refusal_watch(std::function<void(const std::string&)> tell);
  refusal_watch(const refusal_watch&) = delete;
  refusal_watch& operator=(const refusal_watch&) = delete;
  ~refusal_watch();

private:
  friend struct refusal_hooks;
  std::function<void(const std::string&)> tell_;
};

} // namespace troupe::actors::net
