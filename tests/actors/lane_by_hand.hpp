// SPDX-License-Identifier: BSD-3-Clause
// A peer of a hub that says what a test wants it to.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include <gtest/gtest.h>
#include <sys/socket.h>

#include "protocols/wire/codec.hpp"
#include "tests/actors/sockets.hpp"

namespace troupe::actors::net::test {

namespace wire = protocols::wire;

/// Node 0, whose frames a test sends and reads itself.
class by_hand {
public:
  explicit by_hand(std::uint16_t port) : socket_(port) {}

  bool say(const wire::content& body, std::uint64_t received = 0) {
    return socket_.send(wire::encode(body, {}, received)->head_bytes());
  }
  bool say(const wire::frame& made) { return socket_.send(made.head_bytes()); }
  void say_hello() { ASSERT_TRUE(say(wire::hello{.job_key = 0x7eed, .node = 0, .session = 5})); }
  /// The lane is up then.
  void greet() {
    say_hello();
    ASSERT_TRUE(say(wire::beat{}));
  }
  /// The next frame of this kind; its payload is not looked at.
  template <class Kind>
  std::optional<wire::decoded> hear() {
    for (;;) {
      const auto table = wire::parse_table(come_, {});
      if (!table)
        return {};
      if (*table && come_.size() >= (*table)->table_bytes + (*table)->head_bytes) {
        std::vector<std::uint64_t> head((*table)->head_bytes / 8);
        std::copy_n(come_.begin() + static_cast<std::ptrdiff_t>((*table)->table_bytes), (*table)->head_bytes,
                    std::as_writable_bytes(std::span(head)).begin());
        const auto body = wire::decode_head(std::as_bytes(std::span(head)), (*table)->payload_bytes);
        come_.erase(come_.begin(), come_.begin() + static_cast<std::ptrdiff_t>((*table)->table_bytes + (*table)->head_bytes));
        if (!body)
          return {};
        if (std::holds_alternative<Kind>(body->body))
          return *body;
        continue;
      }
      std::array<std::byte, 4096> some;
      const auto got = ::recv(socket_.fd(), some.data(), some.size(), 0);
      if (got <= 0)
        return {};
      come_.insert(come_.end(), some.begin(), some.begin() + got);
    }
  }
  std::string hear_bye() {
    const auto last = hear<wire::bye>();
    return last ? std::get<wire::bye>(last->body).reason : "nothing";
  }

private:
  tests::client_socket socket_;
  std::vector<std::byte> come_;
};

} // namespace troupe::actors::net::test
