// SPDX-License-Identifier: BSD-3-Clause
// Options and statistics of lanes' sockets.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include <boost/asio/ip/tcp.hpp>

namespace troupe::actors::net {

/// No delay for small frames; a vanished host is noticed within seconds. Buffer sizes are left to the kernel, which chooses
/// better than a constant, but for what is not sent yet: of that it holds at most `window_bytes`, so that an urgent frame does
/// not wait behind megabytes.
void tune(boost::asio::ip::tcp::socket& socket, std::size_t window_bytes);

/// TCP congestion control by name; accepted sockets inherit it from their acceptor. Throws std::system_error if the system lacks
/// it. Empty: no effect.
void set_congestion(int descriptor, const std::string& name);

/// The names that this host has.
std::vector<std::string> congestion_controls();

/// Has a closed acceptor listen at host:port (0: any free port). Throws std::system_error that names both. `congestion`: as
/// above.
void listen_at(boost::asio::ip::tcp::acceptor& acceptor, const std::string& host, std::uint16_t port,
               const std::string& congestion = {});

/// "host:port" of the other end, for messages.
std::string remote_address(const boost::asio::ip::tcp::socket& socket);

/// What this host's kernel holds for a peer.
struct send_backlog {
  std::uint64_t bytes = 0; ///< written, and not taken by the peer's host
  double since_sent_s = 0; ///< for how long no data have left for it
  double round_trip_s = 0; ///< as TCP measures it, smoothed
};
send_backlog backlog_of(int descriptor);

} // namespace troupe::actors::net
