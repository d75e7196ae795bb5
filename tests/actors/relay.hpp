// SPDX-License-Identifier: BSD-3-Clause
// A port that passes everything on to another, until it breaks the connection.
#pragma once

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <cstdint>
#include <functional>
#include <system_error>
#include <thread>
#include <utility>

namespace troupe::tests {

/// Passes bytes both ways between whoever connects to `port()` and a port of this machine, one connection after the other.
class relay {
public:
  /// `lifetime` gives the bytes after which each connection is reset, wherever that is in a frame.
  relay(std::uint16_t to, std::function<std::uint64_t()> lifetime)
      : to_(to), lifetime_(std::move(lifetime)), listener_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    auto address = at(0);
    socklen_t size = sizeof address;
    if (::bind(listener_, reinterpret_cast<sockaddr*>(&address), size) != 0 || ::listen(listener_, 8) != 0
        || ::getsockname(listener_, reinterpret_cast<sockaddr*>(&address), &size) != 0)
      throw std::system_error{errno, std::generic_category(), "relay"};
    port_ = ntohs(address.sin_port);
    thread_ = std::thread([this] { serve(); });
  }
  relay(const relay&) = delete;
  relay& operator=(const relay&) = delete;
  /// Breaks the connection that there is; nobody listens then.
  ~relay() {
    ends_ = true;
    thread_.join();
    ::close(listener_);
  }

  std::uint16_t port() const { return port_; }
  /// Breaks the connection that there is.
  void reset() { resets_ = true; }
  /// Connections are accepted and nothing passes, or it passes again.
  void hold(bool holds) { holds_ = holds; }

private:
  static constexpr int look_ms = 2;

  static sockaddr_in at(std::uint16_t port) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(port);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    return address;
  }

  void serve() {
    while (!ends_) {
      pollfd waits{listener_, POLLIN, 0};
      if (::poll(&waits, 1, look_ms) != 1)
        continue;
      const int one = ::accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC);
      const int other = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
      const auto address = at(to_);
      if (one >= 0 && ::connect(other, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0)
        pass(one, other);
      for (const int end : {one, other}) {
        const linger at_once{1, 0};
        ::setsockopt(end, SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
        ::close(end);
      }
    }
  }

  void pass(int one, int other) {
    auto left = lifetime_();
    resets_ = false;
    std::array<char, 50'000> bytes;
    while (!ends_ && !resets_) {
      std::array<pollfd, 2> ends{{{one, POLLIN, 0}, {other, POLLIN, 0}}};
      if (::poll(ends.data(), 2, look_ms) <= 0 || holds_)
        continue;
      for (std::size_t i = 0; i < 2; ++i) {
        if (ends[i].revents == 0)
          continue;
        const auto got = ::recv(ends[i].fd, bytes.data(), bytes.size(), 0);
        if (got <= 0)
          return;
        const auto passed = std::min<std::uint64_t>(left, static_cast<std::uint64_t>(got));
        for (std::uint64_t sent = 0; sent < passed;) {
          const auto now = ::send(ends[1 - i].fd, bytes.data() + sent, passed - sent, MSG_NOSIGNAL);
          if (now <= 0)
            return;
          sent += static_cast<std::uint64_t>(now);
        }
        left -= passed;
        if (left == 0)
          return;
      }
    }
  }

  const std::uint16_t to_;
  const std::function<std::uint64_t()> lifetime_;
  const int listener_;
  std::uint16_t port_ = 0;
  std::atomic<bool> ends_ = false, resets_ = false, holds_ = false;
  std::thread thread_;
};

} // namespace troupe::tests
