// SPDX-License-Identifier: BSD-3-Clause
// A TCP relay that stops reading or breaks its connections when a test says so.
#pragma once

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <cstdint>
#include <functional>
#include <iterator>
#include <limits>
#include <list>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

namespace troupe::tests {

/// Listens on a port of its own and joins whoever connects there with `target`. Buffers little.
class relay {
public:
  static std::uint64_t for_ever() { return std::numeric_limits<std::uint64_t>::max(); }

  /// `lifetime` gives the bytes after which each connection is reset, wherever in a frame that is.
  explicit relay(std::function<std::uint64_t()> lifetime = for_ever)
      : lifetime_(std::move(lifetime)), listener_(open()), wake_(::eventfd(0, EFD_NONBLOCK)) {
    sockaddr_in address = loopback(0);
    socklen_t length = sizeof address;
    if (::bind(listener_, reinterpret_cast<sockaddr*>(&address), sizeof address) != 0 || ::listen(listener_, 8) != 0
        || ::getsockname(listener_, reinterpret_cast<sockaddr*>(&address), &length) != 0)
      throw std::system_error{errno, std::generic_category(), "relay"};
    port_ = ntohs(address.sin_port);
    thread_ = std::thread([this] { run(); });
  }
  relay(const relay&) = delete;
  relay& operator=(const relay&) = delete;
  /// Resets the connections; nobody listens then.
  ~relay() {
    ends_ = true;
    wake();
    thread_.join();
    ::close(listener_);
    ::close(wake_);
  }

  std::uint16_t port() const { return port_; }
  void target(std::uint16_t port) { target_ = port; }
  /// From now on nothing is read from those who connect, or else from the target.
  void hold(bool from_those_who_connect) {
    held_[from_those_who_connect ? 0 : 1] = true;
    wake();
  }
  /// From now on everything is read again.
  void release() {
    held_[0] = held_[1] = false;
    wake();
  }
  /// The next bytes that pass, in whatever direction, come spoiled.
  void spoil() { spoils_ = true; }
  /// Breaks the connections that there are.
  void reset() {
    resets_ = true;
    wake();
  }

private:
  struct pair {
    std::array<int, 2> ends; ///< who connected, the target
    std::uint64_t left;      ///< bytes until it is reset
  };

  static sockaddr_in loopback(std::uint16_t port) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(port);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    return address;
  }
  static int open() {
    const int descriptor = ::socket(AF_INET, SOCK_STREAM, 0);
    const int room = 32 << 10;
    ::setsockopt(descriptor, SOL_SOCKET, SO_RCVBUF, &room, sizeof room);
    return descriptor;
  }
  void wake() const {
    const std::uint64_t one = 1;
    [[maybe_unused]] const auto written = ::write(wake_, &one, sizeof one);
  }

  void run() {
    std::list<pair> pairs;
    while (!ends_) {
      std::vector<pollfd> waits{{listener_, POLLIN, 0}, {wake_, POLLIN, 0}};
      for (const auto& each : pairs)
        for (int side = 0; side < 2; ++side)
          waits.push_back({held_[side] ? -1 : each.ends[side], POLLIN, 0});
      ::poll(waits.data(), waits.size(), -1);
      std::uint64_t woken = 0;
      [[maybe_unused]] const auto taken = ::read(wake_, &woken, sizeof woken);
      const bool resets = resets_.exchange(false);
      std::size_t at = 2;
      for (auto each = pairs.begin(); each != pairs.end(); at += 2) {
        const bool lives =
            !resets && (waits[at].revents == 0 || pass(*each, 0)) && (waits[at + 1].revents == 0 || pass(*each, 1));
        if (!lives)
          close(*each);
        each = lives ? std::next(each) : pairs.erase(each);
      }
      if ((waits[0].revents & POLLIN) != 0)
        join(pairs);
    }
    for (const auto& each : pairs)
      close(each);
  }

  /// At once, with a reset, whatever was under way.
  static void close(const pair& joined) {
    for (const int end : joined.ends) {
      const linger at_once{1, 0};
      ::setsockopt(end, SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
      ::close(end);
    }
  }

  void join(std::list<pair>& pairs) const {
    const int from = ::accept(listener_, nullptr, nullptr);
    const int to = open();
    const auto address = loopback(target_);
    if (::connect(to, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0) {
      pairs.push_back({{from, to}, lifetime_()});
      return;
    }
    ::close(from);
    ::close(to);
  }

  /// Returns whether the connection lives on.
  bool pass(pair& joined, std::size_t from) {
    std::array<char, 16 << 10> bytes;
    const auto got = ::recv(joined.ends[from], bytes.data(), std::min<std::uint64_t>(bytes.size(), joined.left), 0);
    if (got > 0 && spoils_.exchange(false))
      std::fill_n(bytes.begin(), std::min<ssize_t>(got, 4), '\xff');
    if (got <= 0 || ::send(joined.ends[1 - from], bytes.data(), static_cast<std::size_t>(got), MSG_NOSIGNAL) != got)
      return false;
    joined.left -= static_cast<std::uint64_t>(got);
    return joined.left > 0;
  }

  const std::function<std::uint64_t()> lifetime_;
  const int listener_, wake_;
  std::uint16_t port_ = 0;
  std::atomic<std::uint16_t> target_{0};
  std::array<std::atomic<bool>, 2> held_{};
  std::atomic<bool> ends_{false}, resets_{false}, spoils_{false};
  std::thread thread_;
};

} // namespace troupe::tests
