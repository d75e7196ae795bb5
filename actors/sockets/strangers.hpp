// SPDX-License-Identifier: BSD-3-Clause
// Whom certificates keep out, and why: asked by who is kept out, heard by who does it.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "actors/sockets/security.hpp"

namespace troupe::actors::net {

/// Why certificates keep a client with these files out of the server that listens there, as words that follow "cannot reach it:
/// ". The server is asked, which takes three seconds at most. Empty: nobody is there, or something else is wrong.
std::string what_keeps_out(const std::string& host, std::uint16_t port, const security& own);

/// Hears of each TLS connection that a server of this process turns away, whoever wrote that server: OpenSSL says so. Lanes and
/// the metrics have words of their own and are left out. One at a time in a process; it outlives the servers.
class refusal_watch {
public:
  /// `tell`: "connection from 10.0.0.9: it shows no certificate", on the server's thread: must not block.
  explicit refusal_watch(std::function<void(const std::string&)> tell);
  refusal_watch(const refusal_watch&) = delete;
  refusal_watch& operator=(const refusal_watch&) = delete;
  ~refusal_watch();

private:
  friend struct refusal_hooks;
  std::function<void(const std::string&)> tell_;
};

} // namespace troupe::actors::net
