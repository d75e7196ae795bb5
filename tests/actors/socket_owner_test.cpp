// SPDX-License-Identifier: BSD-3-Clause
// Whose process holds the other end of a connection, by both sources.
#include "actors/sockets/socket_owner.hpp"

#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <optional>
#include <string>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace troupe::actors::net {
namespace {

constexpr uid_t somebody_else = 65534;

/// A listener on loopback and what it has accepted.
class door {
public:
  explicit door(int family) : family_(family), listener_(::socket(family, SOCK_STREAM, 0)) {
    sockaddr_in6 address = loopback();
    EXPECT_EQ(::bind(listener_, reinterpret_cast<sockaddr*>(&address), size()), 0);
    EXPECT_EQ(::listen(listener_, 8), 0);
    socklen_t length = sizeof address_;
    EXPECT_EQ(::getsockname(listener_, reinterpret_cast<sockaddr*>(&address_), &length), 0);
  }
  door(const door&) = delete;
  door& operator=(const door&) = delete;
  ~door() {
    ::close(listener_);
    ::close(accepted_);
  }

  /// Only async-signal-safe calls: a forked child may dial. `mapped`: by a socket of IPv6, where this listens by IPv4.
  int dial(bool mapped = false) const {
    sockaddr_in6 to = address_;
    if (mapped) {
      const in_port_t port = reinterpret_cast<const sockaddr_in&>(address_).sin_port;
      to = {};
      to.sin6_family = AF_INET6;
      to.sin6_port = port;
      to.sin6_addr.s6_addr[10] = to.sin6_addr.s6_addr[11] = 0xFF;
      to.sin6_addr.s6_addr[12] = 127;
      to.sin6_addr.s6_addr[15] = 1;
    }
    const int made = ::socket(mapped ? AF_INET6 : family_, SOCK_STREAM, 0);
    if (::connect(made, reinterpret_cast<sockaddr*>(&to), mapped ? sizeof to : size()) == 0)
      return made;
    ::close(made);
    return -1;
  }
  int accept() { return accepted_ = ::accept(listener_, nullptr, nullptr); }

private:
  socklen_t size() const { return family_ == AF_INET ? sizeof(sockaddr_in) : sizeof(sockaddr_in6); }
  sockaddr_in6 loopback() const {
    sockaddr_in6 out{};
    if (family_ == AF_INET) {
      auto& v4 = reinterpret_cast<sockaddr_in&>(out);
      v4.sin_family = AF_INET;
      v4.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    } else {
      out.sin6_family = AF_INET6;
      out.sin6_addr = in6addr_loopback;
    }
    return out;
  }

  int family_, listener_, accepted_ = -1;
  sockaddr_in6 address_{};
};

/// Whether this system answers by NETLINK_SOCK_DIAG.
bool kernel_answers() {
  door own(AF_INET);
  const int dialed = own.dial();
  const bool answers = user_at_other_end(own.accept(), owner_source::kernel).has_value();
  ::close(dialed);
  return answers;
}

class SocketOwner : public testing::TestWithParam<owner_source> {
protected:
  void SetUp() override {
    if (GetParam() == owner_source::kernel && !kernel_answers())
      GTEST_SKIP() << "this system has no NETLINK_SOCK_DIAG";
  }
};
INSTANTIATE_TEST_SUITE_P(Both, SocketOwner, testing::Values(owner_source::kernel, owner_source::table),
                         [](const auto& each) { return each.param == owner_source::kernel ? "Kernel" : "Table"; });

TEST_P(SocketOwner, IsTheUserOfTheProcessThatDialed) {
  for (const bool mapped : {false, true}) {
    door own(AF_INET);
    const int dialed = own.dial(mapped);
    ASSERT_GE(dialed, 0);
    EXPECT_EQ(user_at_other_end(own.accept(), GetParam()), std::optional{std::uint32_t{::geteuid()}}) << "mapped " << mapped;
    ::close(dialed);
  }
}

TEST_P(SocketOwner, IsFoundByIPv6) {
  door own(AF_INET6);
  const int dialed = own.dial();
  if (dialed < 0)
    GTEST_SKIP() << "this machine has no IPv6";
  EXPECT_EQ(user_at_other_end(own.accept(), GetParam()), std::optional{std::uint32_t{::geteuid()}});
  ::close(dialed);
}

TEST_P(SocketOwner, OfAClosedEndIsNobodyAndNotRoot) {
  door own(AF_INET);
  ::close(own.dial());
  EXPECT_EQ(user_at_other_end(own.accept(), GetParam()), std::nullopt);
}

TEST_P(SocketOwner, IsAnotherUserWhereAnotherDialed) {
  if (::geteuid() != 0)
    GTEST_SKIP() << "only root can become another user";
  door own(AF_INET);
  int wait[2];
  ASSERT_EQ(::pipe(wait), 0);
  const pid_t child = ::fork();
  if (child == 0) {
    char ignored = 0;
    ::close(wait[1]);
    const bool dialed = ::setuid(somebody_else) == 0 && own.dial() >= 0;
    ::_exit(dialed && ::read(wait[0], &ignored, 1) == 0 ? 0 : 1); // until the test has looked
  }
  ::close(wait[0]);
  const int accepted = own.accept();
  EXPECT_EQ(user_at_other_end(accepted, GetParam()), std::optional{std::uint32_t{somebody_else}});
  EXPECT_THAT(
      foreign_user(accepted).value_or("taken"),
      testing::MatchesRegex("connection from 127\\.0\\.0\\.1:[0-9]+: it is of user 65534, and .* its own user, 0, alone"));
  ::close(wait[1]);
  int status = -1;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
}

TEST(ForeignUser, IsNotOnesOwn) {
  door own(AF_INET);
  const int dialed = own.dial();
  EXPECT_EQ(foreign_user(own.accept()), std::nullopt);
  ::close(dialed);
}

TEST(ForeignUser, OfAClosedConnectionDeservesNoWord) {
  door own(AF_INET);
  ::close(own.dial());
  EXPECT_EQ(foreign_user(own.accept()), std::optional<std::string>{""});
}

} // namespace
} // namespace troupe::actors::net
