// SPDX-License-Identifier: BSD-3-Clause
// Bare blocking TCP clients for tests that speak to a port as a stranger would, and ports that nobody else takes.
#pragma once

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <span>
#include <system_error>

namespace troupe::tests {

/// A blocking connection to a port of this machine. A peer that stays silent for half a minute counts as open, so no test hangs.
class client_socket {
public:
  client_socket() : fd_{::socket(AF_INET, SOCK_STREAM, 0)} {
    timeval patience{30, 0};
    ::setsockopt(fd_, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
  }
  explicit client_socket(std::uint16_t port) : client_socket() { connect(port); }
  client_socket(const client_socket&) = delete;
  client_socket& operator=(const client_socket&) = delete;
  ~client_socket() { ::close(fd_); }

  /// Needs no descriptor besides the one that it has.
  void connect(std::uint16_t port) const {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(port);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    if (::connect(fd_, reinterpret_cast<sockaddr*>(&address), sizeof address) != 0)
      throw std::system_error{errno, std::generic_category(), "connect"};
  }

  int fd() const { return fd_; }

  /// False when the peer takes no more.
  bool send(std::span<const std::byte> bytes) const {
    return ::send(fd_, bytes.data(), bytes.size(), MSG_NOSIGNAL) == static_cast<ssize_t>(bytes.size());
  }

  /// Reads until the peer closes; false when it did not within the time that the socket waits.
  bool closed_by_peer() const {
    char ignored[4096];
    ssize_t got = 0;
    do
      got = ::recv(fd_, ignored, sizeof ignored, 0);
    while (got > 0);
    return got == 0 || errno == ECONNRESET;
  }

private:
  int fd_;
};

/// A port of this machine where nobody listens and nobody else can, while this lives: whoever dials it is refused. One may listen
/// there who sets SO_REUSEADDR.
class kept_port {
public:
  kept_port() : fd_{::socket(AF_INET, SOCK_STREAM, 0)} {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof address;
    const int yes = 1;
    ::setsockopt(fd_, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
    if (::bind(fd_, reinterpret_cast<sockaddr*>(&address), sizeof address) != 0
        || ::getsockname(fd_, reinterpret_cast<sockaddr*>(&address), &size) != 0)
      throw std::system_error{errno, std::generic_category(), "bind"};
    number_ = ntohs(address.sin_port);
  }
  kept_port(const kept_port&) = delete;
  kept_port& operator=(const kept_port&) = delete;
  ~kept_port() { ::close(fd_); }

  std::uint16_t number() const { return number_; }

private:
  int fd_;
  std::uint16_t number_ = 0;
};

} // namespace troupe::tests
