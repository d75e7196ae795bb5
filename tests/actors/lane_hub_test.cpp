// SPDX-License-Identifier: BSD-3-Clause
// Lanes between hubs of one process: what goes in comes out, in order, in its place.
#include "actors/net/lane.hpp"

#include <atomic>
#include <stdexcept>
#include <system_error>

#include "tests/actors/lane_harness.hpp"

namespace troupe::actors::net {
namespace {

namespace wire = protocols::wire;
using test::join;
using test::make_buffer;
using test::node;
using test::order;
using test::part;

TEST(LaneHub, BothEndsLearnThatTheLaneIsUp) {
  node zero(0), one(1);
  join(zero, one);
  EXPECT_EQ(zero.seen->up, std::vector{node_id{1}});
  EXPECT_EQ(one.seen->up, std::vector{node_id{0}});
}

TEST(LaneHub, OneThatOnlyConnectsHasNoPortAndWaitsForWhomItShallConnectTo) {
  lane_options connects;
  connects.listens = false;
  node zero(0, connects), one(1);
  EXPECT_EQ(zero.hub->port(), 0);
  join(zero, one);
  one.hub->send(node_id{0}, order(8), {}, 0);
  ASSERT_TRUE(zero.seen->wait_messages(1));
}

TEST(LaneHub, MessagesTravelBothWays) {
  node zero(0), one(1);
  join(zero, one);
  zero.hub->send(node_id{1}, order(7), {}, 0);
  one.hub->send(node_id{0}, order(8), {}, 0);
  ASSERT_TRUE(one.seen->wait_messages(1));
  ASSERT_TRUE(zero.seen->wait_messages(1));
  EXPECT_EQ(one.seen->messages[0].msg, order(7));
  EXPECT_EQ(one.seen->messages[0].from, node_id{0});
  EXPECT_FALSE(one.seen->messages[0].payload);
  EXPECT_EQ(zero.seen->messages[0].msg, order(8));
}

TEST(LaneHub, PayloadIsReadToWhereTheReceiverWantsIt) {
  node zero(0), one(1);
  const auto place = make_buffer(1U << 20U, 99);
  one.seen->placement = [&](const wire::message&, std::size_t bytes) { return place.slice(64, bytes); };
  join(zero, one);
  const auto sent = make_buffer(256U << 10U);
  zero.hub->send(node_id{1}, part(1, sent.bytes()), sent, 0);
  ASSERT_TRUE(one.seen->wait_messages(1));
  EXPECT_EQ(one.seen->messages[0].payload.data(), place.data() + 64);
  EXPECT_TRUE(test::same_bytes(one.seen->messages[0].payload, sent));
  // Nothing beside it was touched.
  const auto untouched = make_buffer(1U << 20U, 99);
  EXPECT_TRUE(test::same_bytes(place.slice(0, 64), untouched.slice(0, 64)));
  const std::size_t end = 64 + sent.bytes();
  EXPECT_TRUE(test::same_bytes(place.slice(end, place.bytes() - end), untouched.slice(end, place.bytes() - end)));
}

TEST(LaneHub, PayloadNobodyPlacesComesFromThePool) {
  std::atomic<std::size_t> taken = 0;
  lane_options pooled;
  pooled.allocate = [&](std::size_t bytes) {
    taken += bytes;
    return make_buffer(bytes, 0);
  };
  node zero(0), one(1, pooled);
  join(zero, one);
  const auto sent = make_buffer(640);
  zero.hub->send(node_id{1}, part(1, sent.bytes()), sent, 0);
  ASSERT_TRUE(one.seen->wait_messages(1));
  EXPECT_EQ(taken, 640U);
  EXPECT_TRUE(test::same_bytes(one.seen->messages[0].payload, sent));
}

TEST(LaneHub, ManyMessagesOfEverySizeComeWholeAndInOrder) {
  node zero(0), one(1);
  join(zero, one);
  const std::vector<std::size_t> sizes{64, 4096, 64, 65536, 128, 1U << 20U, 192, 4U << 20U, 31 * 64, 8192};
  constexpr std::size_t rounds = 4;
  for (std::size_t i = 0; i < rounds * sizes.size(); ++i) {
    const auto payload = make_buffer(sizes[i % sizes.size()], static_cast<std::uint32_t>(i));
    zero.hub->send(node_id{1}, part(i, payload.bytes()), payload, 3);
    zero.hub->send(node_id{1}, order(i), {}, 3);
  }
  ASSERT_TRUE(one.seen->wait_messages(2 * rounds * sizes.size()));
  for (std::size_t i = 0; i < rounds * sizes.size(); ++i) {
    EXPECT_EQ(test::clock_of(one.seen->messages[2 * i].msg), i);
    EXPECT_EQ(one.seen->messages[2 * i + 1].msg, order(i));
    EXPECT_TRUE(
        test::same_bytes(one.seen->messages[2 * i].payload, make_buffer(sizes[i % sizes.size()], static_cast<std::uint32_t>(i))));
  }
}

TEST(LaneHub, APartitionThatIsCutComesInPiecesOfItsRange) {
  lane_options narrow;
  narrow.window_bytes = 64U << 10U;
  narrow.narrows_loopback = true;
  node zero(0, narrow), one(1);
  join(zero, one);
  const auto payload = make_buffer(4U << 20U, 7); // more than a piece, as long as nobody knows how fast the lane is
  zero.hub->send(node_id{1}, part(1, payload.bytes()), payload, 0);
  zero.hub->send(node_id{1}, order(2), {}, 0);
  std::size_t count = 3;
  do
    ASSERT_TRUE(one.seen->wait_messages(count++));
  while ([&] {
    const std::lock_guard lock(one.seen->mutex);
    return one.seen->messages.back().msg != order(2);
  }());
  const std::lock_guard lock(one.seen->mutex);
  EXPECT_GT(one.seen->messages.size(), 2U);
  std::int64_t next = 0;
  for (const auto& each : one.seen->messages)
    if (const auto* piece = std::get_if<wire::push_part>(&each.msg)) {
      EXPECT_EQ(piece->where.begin, next);
      EXPECT_EQ(piece->id.clock.value, 1U);
      next = piece->where.end;
      EXPECT_TRUE(
          test::same_bytes(each.payload, payload.slice(static_cast<std::size_t>(piece->where.begin) * 4, each.payload.bytes())));
    }
  EXPECT_EQ(next * 4, 4 << 20);
}

TEST(LaneHub, ForbiddenMessageIsTheSendersError) {
  node zero(0), one(1);
  join(zero, one);
  EXPECT_THROW(zero.hub->send(node_id{1}, part(1, 128), make_buffer(64), 0), std::invalid_argument);
}

TEST(LaneHub, SendingWithoutALaneIsDropped) {
  node zero(0);
  zero.hub->send(node_id{1}, order(1), {}, 0);
  EXPECT_TRUE(zero.hub->stats().empty());
}

TEST(LaneHub, ClosingTellsBothEndsWhy) {
  node zero(0), one(1);
  join(zero, one);
  one.hub->close(node_id{0}, "the job is over");
  ASSERT_TRUE(zero.seen->wait_down());
  ASSERT_TRUE(one.seen->wait_down());
  EXPECT_EQ(zero.seen->down[0], std::pair(node_id{1}, std::string("closed by the peer: the job is over")));
  EXPECT_EQ(one.seen->down[0], std::pair(node_id{0}, std::string("the job is over")));
}

TEST(LaneHub, LeavingClosesEveryLane) {
  node zero(0), two(2);
  {
    node one(1);
    join(zero, one);
    join(one, two, 2);
    const auto seen = one.seen;
    one.hub.reset();
    EXPECT_EQ(seen->down.size(), 2U);
  }
  ASSERT_TRUE(zero.seen->wait_down());
  ASSERT_TRUE(two.seen->wait_down());
  EXPECT_EQ(zero.seen->down[0].second, "closed by the peer: node 1 is leaving");
}

TEST(LaneHub, PortInUseNamesHostAndPort) {
  node one(1);
  lane_options same;
  same.port = one.hub->port();
  try {
    node two(2, same);
    FAIL() << "two hubs on one port";
  } catch (const std::system_error& e) {
    EXPECT_EQ(e.code(), std::errc::address_in_use);
    EXPECT_NE(std::string(e.what()).find("127.0.0.1:" + std::to_string(same.port)), std::string::npos) << e.what();
  }
}

} // namespace
} // namespace troupe::actors::net
