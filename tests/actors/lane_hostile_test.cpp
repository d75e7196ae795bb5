// SPDX-License-Identifier: BSD-3-Clause
// Strangers, impostors and dying peers at a hub's port, while a good lane goes on.
#include <array>
#include <atomic>
#include <csignal>
#include <cstring>
#include <utility>

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fmt/format.h>

#include "protocols/wire/codec.hpp"
#include "tests/actors/lane_harness.hpp"
#include "tests/actors/sockets.hpp"

namespace troupe::actors::net {
namespace {

namespace wire = protocols::wire;
using test::join;
using test::make_buffer;
using test::node;
using test::order;
using test::part;
using namespace std::chrono_literals;

/// A client that speaks whatever bytes it likes.
class stranger {
public:
  stranger() : socket_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {}
  ~stranger() { hang_up(); }
  stranger(const stranger&) = delete;
  stranger& operator=(const stranger&) = delete;

  void connect(std::uint16_t port) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(port);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    ASSERT_EQ(::connect(socket_, reinterpret_cast<const sockaddr*>(&address), sizeof address), 0) << std::strerror(errno);
  }
  void say(std::span<const std::byte> bytes) {
    while (!bytes.empty()) {
      const ssize_t sent = ::send(socket_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
      if (sent <= 0)
        return; // hung up on, as it deserves
      bytes = bytes.subspan(static_cast<std::size_t>(sent));
    }
  }
  void say(const std::string& text) { say(std::as_bytes(std::span(text))); }
  void say(const wire::content& body) { say(wire::encode(body)->head_bytes()); }
  /// Everything until the other end hangs up.
  std::vector<std::byte> hear() {
    std::vector<std::byte> heard;
    std::array<std::byte, 4096> some;
    for (ssize_t count = 0; (count = ::recv(socket_, some.data(), some.size(), 0)) > 0;)
      heard.insert(heard.end(), some.begin(), some.begin() + count);
    return heard;
  }
  /// The reason in the last frame that it hears.
  std::string hear_bye() {
    const auto bytes = hear();
    std::string reason = "nothing";
    for (std::span<const std::byte> rest = bytes; !rest.empty();) {
      const auto layout = **wire::parse_table(rest, {});
      const auto body = wire::decode_head(rest.subspan(layout.table_bytes, layout.head_bytes), 0);
      if (const auto* last = std::get_if<wire::bye>(&body->body))
        reason = last->reason;
      rest = rest.subspan(layout.table_bytes + layout.head_bytes);
    }
    return reason;
  }
  void hang_up() {
    if (socket_ >= 0)
      ::close(std::exchange(socket_, -1));
  }

private:
  int socket_;
};

constexpr std::uint64_t job_key = 0x7eed; // as test::node's
wire::hello greeting(std::uint32_t from) {
  return {wire::hello::role::dials, job_key, from};
}

/// Node 2 with a lane from node 1, which must work before and after whatever a test does to node 2's port.
class LaneHostile : public testing::Test {
protected:
  void SetUp() override { join(one, two, 2); }
  void TearDown() override {
    const std::size_t before = two.seen->messages.size();
    one.hub->send(node_id{2}, part(77, 4096), make_buffer(4096), 0);
    ASSERT_TRUE(two.seen->wait_messages(before + 1));
    EXPECT_TRUE(test::same_bytes(two.seen->messages.back().payload, make_buffer(4096)));
    const std::lock_guard lock(two.seen->mutex);
    for (const auto& [peer, reason] : two.seen->down)
      EXPECT_NE(peer, node_id{1}) << reason;
  }
  static lane_options impatient() {
    lane_options options;
    options.handshake_timeout = 100ms;
    options.patience = 100ms;
    return options;
  }
  std::string refusal(std::size_t index = 0) {
    EXPECT_TRUE(two.seen->wait_refused(index + 1));
    return two.seen->refused.size() > index ? two.seen->refused[index] : "none";
  }

  node one{1}, two{2, impatient()};
};

testing::AssertionResult contains(const std::string& text, const std::string& part_of_it) {
  if (text.find(part_of_it) != std::string::npos)
    return testing::AssertionSuccess();
  return testing::AssertionFailure() << '"' << text << "\" does not contain \"" << part_of_it << '"';
}

TEST_F(LaneHostile, GarbageIsRefusedWithAReason) {
  stranger client;
  client.connect(two.hub->port());
  client.say("GET / HTTP/1.1\r\nHost: lane\r\n\r\n");
  EXPECT_TRUE(contains(refusal(), "bad frame: frame of 542393672 segments"));
  EXPECT_TRUE(contains(refusal(), "connection from 127.0.0.1:"));
  EXPECT_TRUE(contains(client.hear_bye(), "bad frame"));
}

TEST_F(LaneHostile, SilenceIsDroppedAfterTheTimeLimit) {
  stranger client;
  client.connect(two.hub->port());
  EXPECT_TRUE(contains(refusal(), "no hello within 100 ms"));
  EXPECT_TRUE(contains(client.hear_bye(), "no hello within 100 ms"));
}

TEST_F(LaneHostile, HalfAHelloIsDroppedAfterTheTimeLimit) {
  stranger client;
  client.connect(two.hub->port());
  client.say(wire::encode(greeting(0))->head_bytes().first(20));
  EXPECT_TRUE(contains(refusal(), "no hello within 100 ms"));
}

TEST_F(LaneHostile, HelloCutShortByHangingUpIsNamed) {
  stranger client;
  client.connect(two.hub->port());
  client.say(wire::encode(greeting(0))->head_bytes().first(20));
  client.hang_up();
  EXPECT_TRUE(contains(refusal(), "within a frame (at byte 0)"));
}

TEST_F(LaneHostile, GiantClaimsFromAStrangerAreRefused) {
  const std::vector<std::pair<std::vector<std::uint32_t>, std::string>> claims{
      {{0, 0xffff'ffff}, "head of 34359738360 bytes"},
      {{0, 511}, "head of 4088 bytes, must be 8 to 4080"}, // a whole head may be longer, a stranger's not
      {{1, 8, 0xffff'ffff, 0}, "payload of 34359738360 bytes, must be 8 to 0"},
      {{1, 8, 8, 0}, "payload of 64 bytes, must be 8 to 0"},
  };
  for (std::size_t i = 0; i < claims.size(); ++i) {
    stranger client;
    client.connect(two.hub->port());
    client.say(std::as_bytes(std::span(claims[i].first)));
    EXPECT_TRUE(contains(refusal(i), claims[i].second));
  }
}

TEST_F(LaneHostile, MessageBeforeHelloIsRefused) {
  stranger client;
  client.connect(two.hub->port());
  client.say(wire::content(order(1)));
  EXPECT_TRUE(contains(refusal(), "a message before hello"));
}

TEST_F(LaneHostile, AnotherNodeOfTheSameNameIsRefusedAndTheLaneStays) {
  stranger client;
  client.connect(two.hub->port());
  client.say(greeting(1));
  EXPECT_TRUE(contains(refusal(), "node 1 has a lane already"));
  EXPECT_TRUE(contains(client.hear_bye(), "node 1 has a lane already"));
}

TEST_F(LaneHostile, HigherNodeThatDialsIsRefused) {
  stranger client;
  client.connect(two.hub->port());
  client.say(greeting(2));
  EXPECT_TRUE(contains(refusal(), "node 2 dialed node 2: the lower one dials"));
}

TEST_F(LaneHostile, AnotherVersionIsRefused) {
  stranger client;
  client.connect(two.hub->port());
  auto old = greeting(0);
  old.version = 99;
  client.say(old);
  EXPECT_TRUE(contains(refusal(), "lane protocol version 12 met version 99"));
}

TEST_F(LaneHostile, NodeThatTurnsBadLosesItsOwnLaneOnly) {
  stranger client;
  client.connect(two.hub->port());
  client.say(greeting(0));
  client.say(wire::beat{});
  ASSERT_TRUE(two.seen->wait_up(2));
  const std::size_t said = wire::encode(greeting(0))->head_bytes().size() + wire::encode(wire::beat{})->head_bytes().size();
  client.say(std::string(64, '\xff'));
  ASSERT_TRUE(two.seen->wait_down());
  EXPECT_EQ(two.seen->down[0].first, node_id{0});
  EXPECT_TRUE(contains(two.seen->down[0].second, "bad frame: frame of 4294967296 segments"));
  EXPECT_TRUE(contains(two.seen->down[0].second, "(frame at byte " + std::to_string(said) + ")"));
  EXPECT_TRUE(contains(client.hear_bye(), "bad frame"));
}

TEST_F(LaneHostile, OversizedPayloadEndsTheLaneBeforeAnythingIsPlaced) {
  std::atomic<bool> placed = false;
  lane_options small;
  small.max_payload_bytes = 1U << 20U;
  node three(3, small);
  three.seen->placement = [&](const wire::message&, std::size_t) {
    placed = true;
    return kernels::buffer{};
  };
  join(one, three, 3);
  const auto large = make_buffer(2U << 20U);
  one.hub->send(node_id{3}, part(1, large.bytes()), large, 0);
  ASSERT_TRUE(three.seen->wait_down());
  EXPECT_TRUE(contains(three.seen->down[0].second, "payload of 2097152 bytes, must be 8 to 1048576"));
  EXPECT_FALSE(placed);
  ASSERT_TRUE(one.seen->wait_down());
  EXPECT_EQ(one.seen->down[0].first, node_id{3});
}

TEST_F(LaneHostile, WhatANodeMayNotSayEndsItsLaneBeforeAnythingIsPlaced) {
  std::atomic<bool> placed = false;
  node three(3);
  three.seen->objection = [](node_id from, const wire::message&) {
    return fmt::format("node {} speaks for another", from.value);
  };
  three.seen->placement = [&](const wire::message&, std::size_t) {
    placed = true;
    return kernels::buffer{};
  };
  join(one, three, 3);
  one.hub->send(node_id{3}, part(1, 4096), make_buffer(4096), 0);
  ASSERT_TRUE(one.seen->wait_down()); // for good: it is not dialed again
  EXPECT_TRUE(contains(one.seen->down[0].second, "closed by the peer: bad frame: node 1 speaks for another"));
  EXPECT_FALSE(placed);
  EXPECT_TRUE(three.seen->messages.empty());
}

TEST_F(LaneHostile, ManyStrangersLeaveTheAcceptorWorking) {
  std::vector<std::unique_ptr<stranger>> crowd;
  for (int i = 0; i < 200; ++i) {
    crowd.push_back(std::make_unique<stranger>());
    crowd.back()->connect(two.hub->port());
    if (i % 3 == 0)
      crowd.back()->say("\1\2\3\4\5\6\7\10\11\12\13\14\15\16\17\20");
  }
  node zero(0);
  join(zero, two, 2);
  EXPECT_TRUE(two.seen->wait_refused(200));
}

TEST_F(LaneHostile, RunningOutOfDescriptorsIsSurvived) {
  std::vector<std::unique_ptr<stranger>> crowd(8);
  for (auto& each : crowd)
    each = std::make_unique<stranger>(); // their descriptors; the hub finds none for its ends
  const int next = ::dup(0);
  ::close(next);
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &before), 0);
  const rlimit none_left{static_cast<rlim_t>(next), before.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &none_left), 0);
  for (auto& each : crowd)
    each->connect(two.hub->port());
  // The good lane needs no descriptor.
  one.hub->send(node_id{2}, order(5), {}, 0);
  EXPECT_TRUE(two.seen->wait_messages(1));
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &before), 0);
  EXPECT_TRUE(two.seen->wait_refused(crowd.size())); // accepted at last, and silent
}

TEST(LaneKeys, AnotherJobIsRefusedOnBothSidesWithBothKeys) {
  lane_options other;
  other.job_key = 0xabc;
  node zero(0), one(1, other);
  zero.hub->connect(node_id{1}, "127.0.0.1", one.hub->port(), test::patience);
  ASSERT_TRUE(zero.seen->wait_down()); // at once: trying again is no use
  ASSERT_TRUE(one.seen->wait_refused());
  for (const std::string& reason : {zero.seen->down[0].second, one.seen->refused[0]}) {
    EXPECT_TRUE(contains(reason, "0000000000007eed of node 0"));
    EXPECT_TRUE(contains(reason, "0000000000000abc of node 1"));
  }
  EXPECT_EQ(zero.seen->down[0].first, node_id{1});
  EXPECT_TRUE(one.seen->down.empty());
  EXPECT_TRUE(zero.seen->up.empty());
}

TEST(LaneDial, NobodyThereIsReportedAtTheDeadline) {
  const tests::kept_port unused;
  node zero(0);
  zero.hub->connect(node_id{1}, "127.0.0.1", unused.number(), 60ms);
  ASSERT_TRUE(zero.seen->wait_down());
  EXPECT_EQ(zero.seen->down[0].first, node_id{1});
  EXPECT_TRUE(contains(zero.seen->down[0].second, "no lane to 127.0.0.1:" + std::to_string(unused.number()) + " within 60 ms"));
  EXPECT_TRUE(contains(zero.seen->down[0].second, "refused"));
}

TEST(LaneDial, AHubThatComesLateIsFound) {
  const tests::kept_port kept;
  lane_options late;
  late.port = kept.number();
  node zero(0);
  zero.hub->connect(node_id{1}, "127.0.0.1", late.port, test::patience);
  node one(1, late);
  EXPECT_TRUE(zero.seen->wait_up());
}

TEST(LaneDial, TheWrongNodeAtTheRightPortIsNamed) {
  node zero(0), two(2);
  zero.hub->connect(node_id{1}, "127.0.0.1", two.hub->port(), test::patience);
  ASSERT_TRUE(zero.seen->wait_down());
  EXPECT_TRUE(contains(zero.seen->down[0].second, "dialed node 1 and reached node 2"));
}

TEST(LaneDial, ALaneThatWasLostCanBeDialedAgain) {
  node zero(0), one(1);
  join(zero, one);
  one.hub->close(node_id{0}, "try again");
  ASSERT_TRUE(zero.seen->wait_down());
  ASSERT_TRUE(one.seen->wait_down());
  join(zero, one);
  zero.hub->send(node_id{1}, order(3), {}, 0);
  EXPECT_TRUE(one.seen->wait_messages(1));
}

// The child is node 0 of a lane to node 1 here; it does nothing until it is killed.
TEST(LanePeer, DeathIsReported) {
  std::array<int, 2> port_pipe{};
  ASSERT_EQ(::pipe(port_pipe.data()), 0);
  const pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    std::uint16_t port = 0;
    if (::read(port_pipe[0], &port, sizeof port) != sizeof port)
      ::_exit(1);
    node zero(0);
    zero.hub->connect(node_id{1}, "127.0.0.1", port, test::patience);
    for (;;)
      ::pause();
  }
  lane_options hasty;
  hasty.patience = 100ms;
  node one(1, hasty);
  const std::uint16_t port = one.hub->port();
  ASSERT_EQ(::write(port_pipe[1], &port, sizeof port), static_cast<ssize_t>(sizeof port));
  EXPECT_TRUE(one.seen->wait_up());
  ::kill(child, SIGKILL);
  EXPECT_TRUE(one.seen->wait_down());
  ASSERT_FALSE(one.seen->down.empty());
  EXPECT_EQ(one.seen->down[0].first, node_id{0});
  EXPECT_FALSE(one.seen->down[0].second.empty());
  ::waitpid(child, nullptr, 0);
  ::close(port_pipe[0]);
  ::close(port_pipe[1]);
}

} // namespace
} // namespace troupe::actors::net
