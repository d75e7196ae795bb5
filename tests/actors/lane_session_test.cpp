// SPDX-License-Identifier: BSD-3-Clause
// Lanes outlive their connections: nothing is lost, nothing comes twice, and nobody waits for ever.
#include <map>
#include <random>
#include <thread>
#include <vector>

#include "tests/actors/certificates.hpp"
#include "tests/actors/lane_by_hand.hpp"
#include "tests/actors/lane_harness.hpp"
#include "tests/actors/relay.hpp"

namespace troupe::actors::net {
namespace {

namespace wire = protocols::wire;
using namespace std::chrono_literals;
using test::clock_of;
using test::make_buffer;
using test::node;
using test::order;
using test::part;
using tests::relay;

/// Joins two nodes through a relay.
void join_by(relay& between, node& zero, node& one) {
  between.target(one.hub->port());
  zero.hub->connect(node_id{1}, "127.0.0.1", between.port(), test::patience);
  ASSERT_TRUE(zero.seen->wait_up());
  ASSERT_TRUE(one.seen->wait_up());
}

/// Both ends send `count` messages of every size at three priorities, while their connections break after up to `longest` bytes.
void exchange_through_breaks(std::uint32_t seed, std::uint64_t count, std::uint64_t longest, const lane_options& options) {
  node zero(0, options), one(1, options);
  std::mt19937 random(seed);
  relay between([&] { return 300 + random() % longest; });
  join_by(between, zero, one);
  const auto bytes_of = [&](std::uint64_t i) {
    return std::array<std::size_t, 5>{0, 64, 4096, 100'032, 320}[(i * 7 + seed) % 5];
  };
  const auto priority_of = [](std::uint64_t i) { return static_cast<int>(i * 5 % 3); };
  for (std::uint64_t i = 0; i < count; ++i)
    for (const auto& [from, to] : {std::pair{&zero, 1U}, std::pair{&one, 0U}}) {
      const auto bytes = bytes_of(i);
      const auto payload = bytes == 0 ? kernels::buffer{} : make_buffer(bytes, static_cast<std::uint32_t>(i));
      from->hub->send(node_id{to}, bytes == 0 ? order(i) : part(i, bytes), payload, priority_of(i));
    }
  for (auto* const end : {&zero, &one}) {
    ASSERT_TRUE(end->seen->wait_messages(count)) << "seed " << seed;
    const std::lock_guard lock(end->seen->mutex);
    EXPECT_TRUE(end->seen->down.empty());
    EXPECT_EQ(end->seen->up.size(), 1U);
    ASSERT_EQ(end->seen->messages.size(), count) << "seed " << seed;
    std::map<int, std::uint64_t> last;
    std::vector<bool> came(count);
    for (const auto& each : end->seen->messages) {
      const auto i = clock_of(each.msg);
      EXPECT_FALSE(came.at(i)) << "twice: " << i << ", seed " << seed;
      came[i] = true;
      EXPECT_EQ(each.payload.bytes(), bytes_of(i));
      EXPECT_TRUE(test::same_bytes(each.payload, make_buffer(bytes_of(i), static_cast<std::uint32_t>(i))));
      const auto known = last.find(priority_of(i));
      EXPECT_TRUE(known == last.end() || known->second < i) << "out of order, seed " << seed;
      last[priority_of(i)] = i;
    }
  }
  EXPECT_GT(zero.hub->stats().at(0).resumed, 0U);
}

TEST(LaneSession, EveryMessageArrivesOnceWhereverConnectionsBreak) {
  lane_options by_socket; // what is lent crosses no connection: lane_lending_test has it
  by_socket.shared_memory = false;
  for (std::uint32_t seed = 1; seed <= 8; ++seed)
    exchange_through_breaks(seed, 120, 400'000, by_socket);
}

TEST(LaneSession, EveryMessageArrivesOnceWithCertificates) {
  const tests::authority trusted;
  const auto made = trusted.sign("node");
  lane_options secured;
  secured.shared_memory = false;
  secured.security = {trusted.certificate(), made.certificate, made.key};
  exchange_through_breaks(9, 60, 2'000'000, secured);
}

/// Both ends send `count` messages, one at a time, after each trouble; none is lost, and no lane.
void expect_talk(node& zero, node& one, std::uint64_t count, const std::function<void()>& trouble) {
  for (std::uint64_t i = 0; i < count; ++i) {
    trouble();
    zero.hub->send(node_id{1}, order(i), {}, 0);
    one.hub->send(node_id{0}, order(i), {}, 0);
    ASSERT_TRUE(zero.seen->wait_messages(i + 1));
    ASSERT_TRUE(one.seen->wait_messages(i + 1));
  }
  for (const auto* end : {&zero, &one}) {
    const std::lock_guard lock(end->seen->mutex);
    EXPECT_TRUE(end->seen->down.empty());
  }
}

TEST(LaneSession, WhatIsSentWithoutAConnectionWaitsForTheNext) {
  node zero(0), one(1);
  relay between;
  join_by(between, zero, one);
  expect_talk(zero, one, 50, [&] { between.reset(); });
}

TEST(LaneSession, SendersOnOtherThreadsLoseNothingAndKeepTheirOrder) {
  node zero(0), one(1);
  std::mt19937 random(11);
  relay between([&] { return 500 + random() % 30'000; });
  join_by(between, zero, one);
  test::expect_every_senders_order(zero, one, 3, 400);
}

TEST(LaneSession, APeerThatOnlyListensLetsGoOfWhatItHas) {
  node zero(0), one(1);
  test::join(zero, one);
  auto payload = make_buffer(4096);
  one.hub->send(node_id{0}, part(0, payload.bytes()), payload, 0);
  ASSERT_TRUE(zero.seen->wait_messages(1));
  zero.seen->messages.clear();
  one.seen->reaction = nullptr;
  // The beat of node 0 says that it has come.
  const auto until = std::chrono::steady_clock::now() + test::patience;
  while (payload.use_count() > 1 && std::chrono::steady_clock::now() < until)
    std::this_thread::yield();
  EXPECT_EQ(payload.use_count(), 1);
}

TEST(LaneSession, AProcessThatHasEndedIsDownAtOnceForWhoDialsIt) {
  node zero(0);
  auto one = std::make_unique<node>(1);
  auto between = std::make_unique<relay>();
  join_by(*between, zero, *one);
  between.reset(); // as if its process had died: a reset, and nobody listens
  ASSERT_TRUE(zero.seen->wait_down());
  EXPECT_NE(zero.seen->down[0].second.find("nobody listens at 127.0.0.1:"), std::string::npos) << zero.seen->down[0].second;
}

TEST(LaneSession, ABadFrameCostsItsConnectionAlone) {
  node zero(0), one(1);
  relay between;
  join_by(between, zero, one);
  expect_talk(zero, one, 10, [&] { between.spoil(); });
  EXPECT_GE(zero.hub->stats().at(0).resumed, 5U);
}

TEST(LaneSession, WhoDoesNotDialAgainInTimeIsDown) {
  lane_options hasty;
  hasty.patience = 100ms;
  node zero(0), one(1, hasty);
  auto between = std::make_unique<relay>();
  join_by(*between, zero, one);
  between.reset();
  ASSERT_TRUE(one.seen->wait_down());
  EXPECT_NE(one.seen->down[0].second.find("it did not come back within 100 ms"), std::string::npos) << one.seen->down[0].second;
}

TEST(LaneSession, ASilentPeerIsReportedByWhomItKeepsWaitingAndItsLaneStays) {
  node zero(0), one(1);
  relay between;
  join_by(between, zero, one);
  between.hold(true); // what node 0 says does not come
  ASSERT_TRUE(one.seen->wait([&] { return one.seen->silent.size() >= 2; }));
  EXPECT_GE(one.hub->stats().at(0).silent_s, 2);
  zero.hub->send(node_id{1}, order(7), {}, 0);
  between.release();
  ASSERT_TRUE(one.seen->wait_messages(1));
  EXPECT_LT(one.hub->stats().at(0).silent_s, 1);
  {
    const std::lock_guard lock(one.seen->mutex);
    EXPECT_EQ(one.seen->silent[0].first, node_id{0});
    EXPECT_GT(one.seen->silent[0].second, std::chrono::seconds{1});
    EXPECT_GT(one.seen->silent[1].second, one.seen->silent[0].second + std::chrono::seconds{1});
    EXPECT_TRUE(one.seen->down.empty());
  }
  const std::lock_guard lock(zero.seen->mutex);
  EXPECT_TRUE(zero.seen->silent.empty()) << "it heard node 1 all the time";
}

TEST(LaneSession, WhatOneEndGaveUpTheOtherGivesUpToo) {
  lane_options hasty;
  hasty.patience = 100ms;
  node zero(0), one(1, hasty);
  relay between;
  join_by(between, zero, one);
  between.hold(true); // what node 0 says when it dials again does not come
  between.reset();    // node 1 notices, and waits in vain
  ASSERT_TRUE(one.seen->wait_down());
  between.release();
  ASSERT_TRUE(zero.seen->wait_down());
  EXPECT_NE(zero.seen->down[0].second.find("node 1 gave this lane up"), std::string::npos) << zero.seen->down[0].second;
  EXPECT_EQ(one.seen->up.size(), 1U);
}

TEST(LaneSession, ANewProcessOfANodeReplacesTheOldOnesLane) {
  node one(1);
  lane_options first, second;
  first.life = 3;
  second.life = 4;
  node old(0, first);
  test::join(old, one);
  node fresh(0, second);
  fresh.hub->connect(node_id{1}, "127.0.0.1", one.hub->port(), test::patience);
  ASSERT_TRUE(fresh.seen->wait_up());
  ASSERT_TRUE(one.seen->wait_up(2));
  EXPECT_EQ(one.seen->down.at(0).second, "its node was started anew");
  ASSERT_TRUE(old.seen->wait_down());
  // The old process may not come back.
  old.hub->connect(node_id{1}, "127.0.0.1", one.hub->port(), test::patience);
  ASSERT_TRUE(old.seen->wait_down(2));
  fresh.hub->send(node_id{1}, order(1), {}, 0);
  ASSERT_TRUE(one.seen->wait_messages(1));
}

TEST(LaneSession, ConnectingToANewProcessEndsTheLaneToTheOldOne) {
  lane_options first, second;
  first.life = 3;
  second.life = 4;
  node zero(0), old(1, first), fresh(1, second);
  test::join(zero, old);
  const auto connect = [&](const node& to, std::uint32_t life) {
    zero.hub->connect(node_id{1}, "127.0.0.1", to.hub->port(), test::patience, life);
  };
  connect(fresh, 4);
  ASSERT_TRUE(zero.seen->wait_up(2));
  ASSERT_TRUE(old.seen->wait_down());
  EXPECT_EQ(zero.seen->down.at(0).second, "its node was started anew");
  connect(fresh, 4); // neither changes what is there
  connect(old, 3);
  zero.hub->send(node_id{1}, order(1), {}, 0);
  ASSERT_TRUE(fresh.seen->wait_messages(1));
  fresh.hub->send(node_id{0}, order(2), {}, 0);
  ASSERT_TRUE(zero.seen->wait_messages(1)); // and what it was asked before is done
  EXPECT_EQ(zero.seen->down.size(), 1U);
}

TEST(LaneSession, ANewProcessIsDialedInPlaceOfOneThatDoesNotAnswer) {
  node zero(0), gone(1), fresh(1);
  const auto port = gone.hub->port();
  gone.hub->leave();
  zero.hub->connect(node_id{1}, "127.0.0.1", port, test::patience, 0);
  zero.hub->connect(node_id{1}, "127.0.0.1", fresh.hub->port(), test::patience, 0); // not a newer one
  lane_options next;
  next.life = 1;
  node later(1, next);
  zero.hub->connect(node_id{1}, "127.0.0.1", later.hub->port(), test::patience, 1);
  ASSERT_TRUE(zero.seen->wait_up());
  ASSERT_TRUE(later.seen->wait_up());
  EXPECT_TRUE(fresh.seen->up.empty());
  EXPECT_EQ(zero.seen->down.size(), 1U);
  EXPECT_EQ(zero.seen->down.at(0).second, "its node was started anew");
}

TEST(LaneSession, IsUpOnceThePeerIsKnownToHaveIt) {
  node one(1);
  test::by_hand zero(one.hub->port());
  zero.say_hello();
  ASSERT_TRUE(zero.hear<wire::hello>());
  ASSERT_TRUE(zero.hear<wire::beat>());
  ASSERT_TRUE(zero.hear<wire::beat>()); // what followed the hello is done
  {
    const std::lock_guard lock(one.seen->mutex);
    EXPECT_TRUE(one.seen->up.empty()) << "what node 0 would send now may be sent before it has a lane";
  }
  ASSERT_TRUE(zero.say(wire::beat{}));
  ASSERT_TRUE(one.seen->wait_up());
}

TEST(LaneSession, OfAPeerThatLeavesWithoutAWordIsNeverUp) {
  node one(1);
  test::by_hand zero(one.hub->port());
  zero.say_hello();
  ASSERT_TRUE(zero.say(wire::bye{"no longer wanted", false}));
  ASSERT_TRUE(one.seen->wait_down());
  EXPECT_TRUE(one.seen->up.empty());
}

TEST(LaneSession, ACountOfMessagesThatWereNeverSentEndsTheLane) {
  node one(1);
  test::by_hand zero(one.hub->port());
  zero.greet();
  ASSERT_TRUE(one.seen->wait_up());
  ASSERT_TRUE(zero.say(wire::beat{}, 1));
  ASSERT_TRUE(one.seen->wait_down());
  EXPECT_EQ(one.seen->down[0].second, "bad frame: it has taken 1 messages, and fewer were sent");
}

} // namespace
} // namespace troupe::actors::net
