// SPDX-License-Identifier: BSD-3-Clause
// setsockopt and its kin, in one place.
#include "actors/sockets/socket_options.hpp"

#include <algorithm>
#include <cerrno>
#include <climits>
#include <fstream>
#include <iterator>
#include <system_error>

#include <fmt/format.h>
#include <linux/sockios.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

namespace troupe::actors::net {
namespace {

// Failure is harmless: the connection works without these options, only slower.
void set(int descriptor, int level, int option, int value) {
  (void)::setsockopt(descriptor, level, option, &value, sizeof value);
}

} // namespace

void tune(boost::asio::ip::tcp::socket& socket, std::size_t window_bytes) {
  const int descriptor = socket.native_handle();
  set(descriptor, IPPROTO_TCP, TCP_NODELAY, 1);
  set(descriptor, IPPROTO_TCP, TCP_NOTSENT_LOWAT, static_cast<int>(std::min<std::size_t>(window_bytes, INT_MAX)));
  set(descriptor, SOL_SOCKET, SO_KEEPALIVE, 1);
  set(descriptor, IPPROTO_TCP, TCP_KEEPIDLE, 3);
  set(descriptor, IPPROTO_TCP, TCP_KEEPINTVL, 3);
  set(descriptor, IPPROTO_TCP, TCP_KEEPCNT, 3);
  set(descriptor, IPPROTO_TCP, TCP_USER_TIMEOUT, 30'000); // also ends a lane whose peer has not read for this long
}

void set_congestion(int descriptor, const std::string& name) {
  if (!name.empty()
      && ::setsockopt(descriptor, IPPROTO_TCP, TCP_CONGESTION, name.data(), static_cast<socklen_t>(name.size())) != 0)
    throw std::system_error(errno, std::generic_category(), fmt::format("TCP congestion control \"{}\"", name));
}

std::vector<std::string> congestion_controls() {
  std::ifstream names("/proc/sys/net/ipv4/tcp_available_congestion_control");
  return {std::istream_iterator<std::string>(names), {}};
}

void listen_at(boost::asio::ip::tcp::acceptor& acceptor, const std::string& host, std::uint16_t port,
               const std::string& congestion) try {
  using boost::asio::ip::tcp;
  tcp::resolver resolver(acceptor.get_executor());
  const tcp::endpoint address = resolver.resolve(host, std::to_string(port), tcp::resolver::passive).begin()->endpoint();
  acceptor.open(address.protocol());
  acceptor.set_option(tcp::acceptor::reuse_address(true));
  set_congestion(acceptor.native_handle(), congestion);
  acceptor.bind(address);
  acceptor.listen();
} catch (const boost::system::system_error& e) {
  throw std::system_error(e.code(), fmt::format("cannot listen for lanes on {}:{}", host, port));
}

std::string remote_address(const boost::asio::ip::tcp::socket& socket) {
  boost::system::error_code failed;
  const auto end = socket.remote_endpoint(failed);
  return failed ? "a closed connection" : fmt::format("{}:{}", end.address().to_string(), end.port());
}

send_backlog backlog_of(int descriptor) {
  send_backlog out;
  int waiting = 0;
  tcp_info info{};
  socklen_t length = sizeof info;
  if (::ioctl(descriptor, SIOCOUTQ, &waiting) == 0 && waiting > 0)
    out.bytes = static_cast<std::uint64_t>(waiting);
  if (::getsockopt(descriptor, IPPROTO_TCP, TCP_INFO, &info, &length) == 0) {
    out.since_sent_s = info.tcpi_last_data_sent * 1e-3;
    out.round_trip_s = info.tcpi_rtt * 1e-6;
  }
  return out;
}

} // namespace troupe::actors::net
