// SPDX-License-Identifier: BSD-3-Clause
// Lanes under pressure: many at once, urgent ones, full ones, and ends in the middle of it all.
#include <algorithm>
#include <latch>
#include <set>
#include <thread>

#include "tests/actors/lane_harness.hpp"

namespace troupe::actors::net {
namespace {

namespace wire = protocols::wire;
using test::clock_of;
using test::join;
using test::make_buffer;
using test::node;
using test::order;
using test::part;

constexpr std::size_t large_bytes = 4U << 20U;

/// Node 1 stops reading at its first message until it is told to go on; more than the kernel takes is then under way to it.
class LaneFlow : public testing::Test {
protected:
  void SetUp() override {
    lane_options careful;
    careful.credit_bytes = 8U << 20U;
    zero = std::make_unique<node>(0, careful);
    one.seen->placement = [this](const wire::message&, std::size_t bytes) { return landing.slice(0, bytes); };
    one.seen->reaction = [this](node_id, const wire::message& msg) {
      if (clock_of(msg) == 0)
        go_on.wait();
    };
    zero->seen->reaction = [this](node_id, const wire::message&) {
      sender_stands.count_down();
      sender_goes_on.wait();
    };
    join(*zero, one);
    zero->hub->send(node_id{1}, order(0), {}, 0);
  }
  /// Far more than both ends' socket buffers hold.
  void fill(int priority = 9) {
    for (std::uint64_t i = 1; i <= messages; ++i)
      zero->hub->send(node_id{1}, part(i, large_bytes), large, priority);
  }

  static constexpr std::uint64_t messages = 24;
  const kernels::buffer large = make_buffer(large_bytes), landing = make_buffer(large_bytes, 2);
  static lane_options hasty() {
    lane_options options;
    options.patience = std::chrono::milliseconds{100};
    return options;
  }
  std::latch go_on{1}, sender_stands{1}, sender_goes_on{1};
  node one{1, hasty()};
  std::unique_ptr<node> zero;
};

TEST_F(LaneFlow, UrgentOvertakesWhatIsQueued) {
  fill();
  one.hub->send(node_id{0}, order(0), {}, 0); // while node 0 handles it, its hub writes nothing: what comes next waits together
  sender_stands.wait();
  zero->hub->send(node_id{1}, order(1000), {}, 1);
  zero->hub->send(node_id{1}, order(1001), {}, 0);
  sender_goes_on.count_down();
  go_on.count_down();
  ASSERT_TRUE(one.seen->wait_messages(messages + 3));
  std::vector<std::uint64_t> clocks;
  for (const auto& each : one.seen->messages)
    clocks.push_back(clock_of(each.msg));
  const auto place_of = [&](std::uint64_t clock) { return std::find(clocks.begin(), clocks.end(), clock) - clocks.begin(); };
  EXPECT_LT(place_of(1001), place_of(1000));
  EXPECT_LT(place_of(1000), place_of(messages)); // sent before them all, and they come after
  for (std::uint64_t i = 1; i < messages; ++i)
    EXPECT_LT(place_of(i), place_of(i + 1));
}

TEST_F(LaneFlow, StatsShowThatTheCreditIsUsedUp) {
  fill();
  EXPECT_EQ(zero->hub->stats().at(0).credit_bytes, 8U << 20U);
  EXPECT_GT(zero->hub->stats().at(0).queued_bytes, 8U << 20U);
  go_on.count_down();
  ASSERT_TRUE(one.seen->wait_messages(messages + 1));
}

TEST_F(LaneFlow, PayloadsAreLetGoOnceThePeerHasThem) {
  fill();
  EXPECT_GT(large.use_count(), 10);
  go_on.count_down();
  ASSERT_TRUE(one.seen->wait_messages(messages + 1));
  one.seen->messages.clear();
  zero.reset(); // joins the thread that lets the last one go
  EXPECT_EQ(large.use_count(), 1);
}

TEST_F(LaneFlow, SenderMayLeaveInTheMiddleOfAFrame) {
  fill();
  zero.reset();
  go_on.count_down();
  ASSERT_TRUE(one.seen->wait_down());
  EXPECT_LT(one.seen->messages.size(), messages);
}

TEST_F(LaneFlow, ReceiverMayCloseInTheMiddleOfAFrame) {
  fill();
  one.hub->close(node_id{0}, "enough");
  go_on.count_down();
  ASSERT_TRUE(zero->seen->wait_down());
  ASSERT_TRUE(one.seen->wait_down());
}

TEST(LaneCrowd, EverySenderThreadKeepsItsOrder) {
  constexpr std::uint64_t threads = 4, each = 500;
  node zero(0), one(1);
  join(zero, one);
  test::expect_every_senders_order(zero, one, threads, each);
  const auto stats = one.hub->stats().at(0);
  EXPECT_EQ(stats.peer, node_id{0});
  EXPECT_EQ(one.seen->messages.size(), threads * each);
  // A beat may have come in between.
  const auto sent = zero.hub->stats().at(0).bytes_sent;
  EXPECT_LE(stats.bytes_received, sent);
  EXPECT_LT(sent - stats.bytes_received, 1000U);
}

TEST(LaneCrowd, AMeshOfEightExchangesEverything) {
  constexpr std::uint32_t nodes = 8;
  std::vector<std::unique_ptr<node>> mesh;
  for (std::uint32_t i = 0; i < nodes; ++i)
    mesh.push_back(std::make_unique<node>(i));
  for (std::uint32_t low = 0; low < nodes; ++low)
    for (std::uint32_t high = low + 1; high < nodes; ++high)
      mesh[low]->hub->connect(node_id{high}, "127.0.0.1", mesh[high]->hub->port(), test::patience);
  for (const auto& each : mesh)
    ASSERT_TRUE(each->seen->wait_up(nodes - 1));
  for (std::uint32_t from = 0; from < nodes; ++from)
    for (std::uint32_t to = 0; to < nodes; ++to)
      if (from != to) {
        const auto payload = make_buffer(100'032, from);
        mesh[from]->hub->send(node_id{to}, part(from, payload.bytes()), payload, 0);
      }
  for (const auto& each : mesh) {
    ASSERT_TRUE(each->seen->wait_messages(nodes - 1));
    std::set<std::uint64_t> heard;
    for (const auto& got : each->seen->messages) {
      heard.insert(clock_of(got.msg));
      EXPECT_EQ(clock_of(got.msg), got.from.value);
      EXPECT_TRUE(test::same_bytes(got.payload, make_buffer(100'032, got.from.value)));
    }
    EXPECT_EQ(heard.size(), nodes - 1);
  }
}

TEST(LaneCrowd, HubsMayEndWhileOthersSendToThem) {
  for (int round = 0; round < 20; ++round) {
    node zero(0);
    auto one = std::make_unique<node>(1);
    join(zero, *one);
    const auto payload = make_buffer(256U << 10U);
    std::jthread sender([&](const std::stop_token& enough) {
      for (std::uint64_t i = 0; !enough.stop_requested(); ++i) {
        zero.hub->send(node_id{1}, part(i, payload.bytes()), payload, 0);
        std::this_thread::yield();
      }
    });
    ASSERT_TRUE(one->seen->wait_messages(1));
    one.reset();
    ASSERT_TRUE(zero.seen->wait_down());
  }
}

} // namespace
} // namespace troupe::actors::net
