// SPDX-License-Identifier: BSD-3-Clause
// Payloads between processes of one host: read where they lie, whole or not at all.
#include <array>
#include <csignal>
#include <optional>
#include <vector>

#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "actors/net/lane.hpp"
#include "actors/net/lending/peer_memory.hpp"
#include "tests/actors/lane_by_hand.hpp"
#include "tests/actors/lane_harness.hpp"
#include "tests/actors/relay.hpp"

namespace troupe::actors::net {
namespace {

namespace wire = protocols::wire;
using test::by_hand;
using test::join;
using test::make_buffer;
using test::node;
using test::order;
using test::part;

constexpr std::size_t large = 1U << 20U, medium = 32U << 10U; // the least that is lent

class LaneLending : public testing::Test {
protected:
  void SetUp() override {
    const lent_memory here;
    if (!peer_memory::open(here.offer()))
      GTEST_SKIP() << "the system does not let a process read another's memory";
  }

  /// Each end has answered the other's offer once this returns.
  static void talk(node& zero, node& one) {
    const std::size_t before = zero.seen->messages.size();
    zero.hub->send(node_id{1}, order(1), {}, 0);
    ASSERT_TRUE(one.seen->wait_messages(1));
    one.hub->send(node_id{0}, order(2), {}, 0);
    ASSERT_TRUE(zero.seen->wait_messages(before + 1));
    zero.hub->send(node_id{1}, order(3), {}, 0);
    ASSERT_TRUE(one.seen->wait_messages(2));
  }
  static std::uint64_t lent_by(const node& lender) { return lender.hub->stats().at(0).lent_bytes; }
};

TEST_F(LaneLending, WhatIsLentIsReadToWhereTheReceiverWantsIt) {
  node zero(0), one(1);
  const auto place = make_buffer(2 * large, 99);
  one.seen->placement = [&](const wire::message&, std::size_t bytes) { return place.slice(64, bytes); };
  join(zero, one);
  talk(zero, one);
  const auto sent = make_buffer(large, 5);
  zero.hub->send(node_id{1}, part(4, large), sent, 0);
  ASSERT_TRUE(one.seen->wait_messages(3));
  const auto& got = one.seen->messages[2];
  EXPECT_EQ(got.payload.data(), place.data() + 64);
  EXPECT_TRUE(test::same_bytes(got.payload, sent));
  EXPECT_TRUE(test::same_bytes(place.slice(0, 64), make_buffer(2 * large, 99).slice(0, 64)));
  EXPECT_EQ(lent_by(zero), large);
  // It counts as sent and as received, as if it had crossed a socket.
  EXPECT_GT(zero.hub->stats().at(0).bytes_sent, large);
  EXPECT_GT(one.hub->stats().at(0).bytes_received, large);
  EXPECT_GT(zero.hub->stats().at(0).sent.push, large);
  EXPECT_LT(zero.hub->stats().at(0).bytes_sent, large + 4096);
}

TEST_F(LaneLending, BothEndsLendAndWhatIsSmallIsSent) {
  node zero(0), one(1);
  join(zero, one);
  talk(zero, one);
  one.hub->send(node_id{0}, part(4, large), make_buffer(large), 0);
  ASSERT_TRUE(zero.seen->wait_messages(2));
  EXPECT_TRUE(test::same_bytes(zero.seen->messages[1].payload, make_buffer(large)));
  EXPECT_EQ(lent_by(one), large);
  zero.hub->send(node_id{1}, part(4, 4096), make_buffer(4096), 0);
  ASSERT_TRUE(one.seen->wait_messages(3));
  EXPECT_EQ(lent_by(zero), 0U);
}

TEST_F(LaneLending, NothingIsLentIfEitherEndIsToldNotTo) {
  lane_options apart;
  apart.shared_memory = false;
  for (const bool lower : {true, false}) {
    node zero(0, lower ? apart : lane_options{}), one(1, lower ? lane_options{} : apart);
    join(zero, one);
    talk(zero, one);
    zero.hub->send(node_id{1}, part(4, large), make_buffer(large), 0);
    one.hub->send(node_id{0}, part(4, large), make_buffer(large), 0);
    ASSERT_TRUE(one.seen->wait_messages(3));
    ASSERT_TRUE(zero.seen->wait_messages(2));
    EXPECT_EQ(lent_by(zero), 0U);
    EXPECT_EQ(lent_by(one), 0U);
  }
}

TEST_F(LaneLending, MoreThanThePeerMayHaveToReadComesWholeAndInOrder) {
  node zero(0), one(1);
  join(zero, one);
  talk(zero, one);
  constexpr std::size_t messages = 40; // five times send_queue::most_lent
  std::vector<kernels::buffer> sent;
  for (std::size_t i = 0; i < messages; ++i) {
    sent.push_back(make_buffer(large, static_cast<std::uint32_t>(i)));
    zero.hub->send(node_id{1}, part(i, large), sent.back(), 3);
  }
  ASSERT_TRUE(one.seen->wait_messages(2 + messages));
  for (std::size_t i = 0; i < messages; ++i) {
    EXPECT_EQ(test::clock_of(one.seen->messages[2 + i].msg), i);
    EXPECT_TRUE(test::same_bytes(one.seen->messages[2 + i].payload, sent[i]));
  }
  EXPECT_EQ(lent_by(zero), messages * large);
}

// What a lost connection did not bring is sent; the next one lends again.
TEST_F(LaneLending, ConnectionsThatBreakLoseNothing) {
  std::uint64_t lives = 0;
  tests::relay between([&] { return 1'000 + ++lives * 7'919 % 70'000; });
  node zero(0), one(1);
  between.target(one.hub->port());
  zero.hub->connect(node_id{1}, "127.0.0.1", between.port(), test::patience);
  ASSERT_TRUE(zero.seen->wait_up());
  ASSERT_TRUE(one.seen->wait_up());
  std::size_t count = 0;
  while (lent_by(zero) == 0 || zero.hub->stats().at(0).resumed < 5) {
    ASSERT_LT(count, 10'000U);
    zero.hub->send(node_id{1}, part(count, medium), make_buffer(medium, static_cast<std::uint32_t>(count)), 0);
    ++count;
    ASSERT_TRUE(one.seen->wait_messages(count));
  }
  for (std::size_t i = 0; i < count; ++i) {
    EXPECT_EQ(test::clock_of(one.seen->messages[i].msg), i);
    EXPECT_TRUE(test::same_bytes(one.seen->messages[i].payload, make_buffer(medium, static_cast<std::uint32_t>(i))));
  }
}

// -- a peer that reads

TEST_F(LaneLending, WhatIsLentStaysUntilItIsCountedOrTheLaneEnds) {
  node one(1);
  by_hand zero(one.hub->port());
  zero.greet();
  const auto offer = zero.hear<wire::lending>();
  ASSERT_TRUE(offer);
  ASSERT_TRUE(zero.say(wire::borrowing{}));
  ASSERT_TRUE(zero.say(order(1)));
  ASSERT_TRUE(one.seen->wait_messages(1)); // it has heard what came before
  const auto memory = peer_memory::open(std::get<wire::lending>(offer->body));
  ASSERT_TRUE(memory);
  std::string on_release = "it was not released";
  {
    const auto payload = make_buffer(large, 9);
    const std::shared_ptr<void> owner(payload.data(), [&, payload](void*) {
      on_release = memory->read(reinterpret_cast<std::uintptr_t>(payload.data()), {}).value_or("it is lent");
    });
    one.hub->send(node_id{0}, part(9, large), {owner, payload.data(), large}, 0);
  }
  const auto lent = zero.hear<wire::message>();
  ASSERT_TRUE(lent);
  ASSERT_NE(lent->lent_at, 0U);
  const auto copy = make_buffer(large, 0);
  EXPECT_EQ(memory->read(lent->lent_at, copy.span<std::byte>()), std::nullopt);
  EXPECT_TRUE(test::same_bytes(copy, make_buffer(large, 9)));
  one.hub->leave();
  one.hub.reset();
  EXPECT_EQ(on_release, "it is not lent any more");
}

// Else its peer would take it for dead.
TEST_F(LaneLending, WhoHoldsBackWhatItWouldLendIsHeard) {
  node one(1);
  by_hand zero(one.hub->port());
  zero.greet();
  ASSERT_TRUE(zero.say(wire::borrowing{}));
  ASSERT_TRUE(zero.say(order(1)));
  ASSERT_TRUE(one.seen->wait_messages(1));
  const auto payload = make_buffer(4 * large);
  for (std::uint64_t clock = 0; clock < 3; ++clock)
    one.hub->send(node_id{0}, part(clock, payload.bytes()), payload, 0);
  for (int lent = 0; lent < 2; ++lent)
    ASSERT_TRUE(zero.hear<wire::message>());
  EXPECT_TRUE(zero.hear<wire::beat>());
  EXPECT_TRUE(zero.hear<wire::beat>());
  ASSERT_TRUE(zero.say(wire::beat{}, 1)); // it has read one
  EXPECT_TRUE(zero.hear<wire::message>());
}

TEST_F(LaneLending, WhatWasLentIsNotTakenOnceItsOwnerHasLetGo) {
  const auto payload = make_buffer(large, 3);
  lent_memory mine;
  const auto memory = peer_memory::open(mine.offer());
  ASSERT_TRUE(memory);
  const auto copy = make_buffer(large, 0);
  const auto at = reinterpret_cast<std::uintptr_t>(payload.data());
  EXPECT_EQ(memory->read(at, copy.span<std::byte>()), std::nullopt);
  EXPECT_TRUE(test::same_bytes(copy, payload));
  mine.wipe();
  EXPECT_EQ(memory->read(at, copy.span<std::byte>()), std::optional<std::string>{"it is not lent any more"});
}

TEST_F(LaneLending, AnotherProcessIsReadAsLongAsItLives) {
  std::array<int, 2> ends{};
  ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM, 0, ends.data()), 0);
  const pid_t child = ::fork();
  if (child == 0) {
    const lent_memory mine;
    const auto payload = make_buffer(large, 4);
    const auto offer = mine.offer();
    const std::uint64_t at = reinterpret_cast<std::uintptr_t>(payload.data());
    if (::write(ends[1], &offer, sizeof offer) > 0 && ::write(ends[1], &at, sizeof at) > 0)
      ::pause();
    ::_exit(1);
  }
  wire::lending offer;
  std::uint64_t at = 0;
  ASSERT_EQ(::read(ends[0], &offer, sizeof offer), static_cast<ssize_t>(sizeof offer));
  ASSERT_EQ(::read(ends[0], &at, sizeof at), static_cast<ssize_t>(sizeof at));
  const auto memory = peer_memory::open(offer);
  const auto copy = make_buffer(large, 0);
  EXPECT_TRUE(memory && !memory->read(at, copy.span<std::byte>()));
  EXPECT_TRUE(test::same_bytes(copy, make_buffer(large, 4)));
  ::kill(child, SIGKILL);
  ::waitpid(child, nullptr, 0);
  EXPECT_EQ(memory->read(at, copy.span<std::byte>()), std::optional<std::string>{"No such process"});
  ::close(ends[0]);
  ::close(ends[1]);
}

// -- a peer that lends

class LaneLender : public LaneLending {
protected:
  void SetUp() override {
    LaneLending::SetUp();
    if (IsSkipped())
      return;
    zero.greet();
    ASSERT_TRUE(one.seen->wait_up());
  }
  /// Offers and waits for the answer.
  void offer() {
    ASSERT_TRUE(zero.say(mine.offer()));
    ASSERT_TRUE(zero.hear<wire::borrowing>());
  }
  /// A message whose payload is said to lie there.
  static void lend_at(by_hand& by, std::uint64_t address, std::size_t bytes = large) {
    auto made = wire::encode_lent(part(1, bytes), {reinterpret_cast<const std::byte*>(address), bytes});
    ASSERT_TRUE(made);
    ASSERT_TRUE(by.say(*made));
  }
  void lend_at(std::uint64_t address, std::size_t bytes = large) { lend_at(zero, address, bytes); }
  void nothing_came() {
    const std::lock_guard lock(one.seen->mutex);
    EXPECT_TRUE(one.seen->messages.empty());
  }

  node one{1};
  by_hand zero{one.hub->port()};
  lent_memory mine;
  const kernels::buffer payload = make_buffer(large, 6);
};

TEST_F(LaneLender, IsReadOnceItsOfferIsAccepted) {
  offer();
  lend_at(reinterpret_cast<std::uintptr_t>(payload.data()));
  ASSERT_TRUE(one.seen->wait_messages(1));
  EXPECT_TRUE(test::same_bytes(one.seen->messages[0].payload, payload));
}

TEST_F(LaneLender, OfMemoryThatIsNotThereIsHungUpOn) {
  offer();
  lend_at(8);
  EXPECT_EQ(zero.hear_bye(), "what it lends cannot be read: Bad address");
  nothing_came();
}

TEST_F(LaneLender, ThatCouldNotBeReadIsNotAskedAgain) {
  offer();
  lend_at(8);
  ASSERT_EQ(zero.hear_bye(), "what it lends cannot be read: Bad address");
  by_hand again(one.hub->port());
  again.greet();
  ASSERT_TRUE(again.say(mine.offer()));
  lend_at(again, reinterpret_cast<std::uintptr_t>(payload.data()));
  EXPECT_EQ(again.hear_bye(), "what it lends cannot be read: nobody asked for it");
  nothing_came();
}

TEST_F(LaneLender, ThatHasLetGoIsHungUpOn) {
  offer();
  mine.wipe();
  lend_at(reinterpret_cast<std::uintptr_t>(payload.data()));
  EXPECT_EQ(zero.hear_bye(), "what it lends cannot be read: it is not lent any more");
  nothing_came();
}

TEST_F(LaneLender, WithoutAnOfferIsHungUpOn) {
  lend_at(reinterpret_cast<std::uintptr_t>(payload.data()));
  EXPECT_EQ(zero.hear_bye(), "what it lends cannot be read: nobody asked for it");
  nothing_came();
}

TEST_F(LaneLender, WhoseSecretIsAnotherIsNotAskedToLend) {
  auto wrong = mine.offer();
  wrong.secret[1] ^= 2U;
  ASSERT_TRUE(zero.say(wrong));
  lend_at(reinterpret_cast<std::uintptr_t>(payload.data()));
  EXPECT_EQ(zero.hear_bye(), "what it lends cannot be read: nobody asked for it");
  nothing_came();
}

TEST_F(LaneLender, OffersOnce) {
  offer();
  ASSERT_TRUE(zero.say(mine.offer()));
  EXPECT_EQ(zero.hear_bye(), "bad frame: a second offer to lend");
}

TEST_F(LaneLender, OfMoreThanAMessageMayHaveIsHungUpOn) {
  offer();
  lend_at(64, 128U << 20U);
  EXPECT_EQ(zero.hear_bye().rfind("bad frame: 134217728 bytes are lent, must be at most 67108864", 0), 0U);
  nothing_came();
}

} // namespace
} // namespace troupe::actors::net
