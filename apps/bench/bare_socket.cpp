// SPDX-License-Identifier: BSD-3-Clause
// Plain TCP sockets on loopback and memory to send.
#include "apps/bench/bare_socket.hpp"

#include <algorithm>
#include <cerrno>
#include <system_error>

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include "actors/sockets/socket_options.hpp"
#include "kernels/backend.hpp"

namespace troupe::actors::net {

bare_socket::bare_socket(int descriptor) : descriptor_(descriptor) {
  if (descriptor < 0)
    throw std::system_error(errno, std::generic_category(), "a socket for the benchmark");
}

bare_socket::~bare_socket() {
  ::close(descriptor_);
}

void bare_socket::write(const void* data, std::size_t bytes) const {
  for (const auto* at = static_cast<const char*>(data); bytes > 0;) {
    const ssize_t count = ::send(descriptor_, at, bytes, MSG_NOSIGNAL);
    if (count <= 0)
      throw std::system_error(errno, std::generic_category(), "the benchmark's peer is gone");
    at += count;
    bytes -= static_cast<std::size_t>(count);
  }
}

bool bare_socket::read(void* data, std::size_t bytes) const {
  for (auto* at = static_cast<char*>(data); bytes > 0;) {
    const ssize_t count = ::recv(descriptor_, at, bytes, 0);
    if (count <= 0)
      return false;
    at += count;
    bytes -= static_cast<std::size_t>(count);
  }
  return true;
}

std::array<int, 2> tcp_pair(const std::string& congestion) {
  const bare_socket listener(::socket(AF_INET, SOCK_STREAM, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t length = sizeof address;
  auto* const generic = reinterpret_cast<sockaddr*>(&address);
  const int dialed = ::socket(AF_INET, SOCK_STREAM, 0);
  set_congestion(listener.get(), congestion);
  set_congestion(dialed, congestion);
  if (::bind(listener.get(), generic, length) != 0 || ::listen(listener.get(), 1) != 0
      || ::getsockname(listener.get(), generic, &length) != 0 || ::connect(dialed, generic, length) != 0)
    throw std::system_error(errno, std::generic_category(), "loopback for the benchmark");
  const int accepted = ::accept(listener.get(), nullptr, nullptr);
  for (const int end : {dialed, accepted}) {
    const int on = 1;
    (void)::setsockopt(end, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  }
  return {dialed, accepted};
}

kernels::buffer touched(std::size_t bytes) {
  const auto made = kernels::open_backend({.device = "cpu", .threads = 1})->allocate_host(bytes);
  std::ranges::fill(made.span<std::byte>(), std::byte{1});
  return made;
}

} // namespace troupe::actors::net
