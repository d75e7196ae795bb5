// SPDX-License-Identifier: BSD-3-Clause
// A link shared fairly, by hand: at 8 Mbit/s a byte takes a microsecond.
#include "protocols/emulate/shared_link.hpp"

#include <gtest/gtest.h>

namespace troupe::protocols {
namespace {

constexpr link_spec one_us_a_byte{.mbit = 8};
constexpr nanoseconds us = 1000;
using ids = std::vector<std::uint64_t>;

TEST(SharedLink, OneMessageTakesItsTransmission) {
  shared_link link{one_us_a_byte};
  EXPECT_EQ(link.next(), std::nullopt);
  link.start(5 * us, 1, 100);
  EXPECT_EQ(link.next(), 105 * us);
  EXPECT_EQ(link.through(104 * us), ids{});
  EXPECT_EQ(link.next(), 105 * us);
  EXPECT_EQ(link.through(105 * us), ids{1});
  EXPECT_EQ(link.next(), std::nullopt);
}

TEST(SharedLink, MessagesThatBeginTogetherAreThroughTogether) {
  shared_link link{one_us_a_byte};
  for (std::uint64_t id = 1; id <= 8; ++id)
    link.start(0, id, 100);
  EXPECT_EQ(link.next(), 800 * us);
  EXPECT_EQ(link.through(800 * us), (ids{1, 2, 3, 4, 5, 6, 7, 8}));
}

TEST(SharedLink, ALaterMessageSlowsTheEarlierOneDown) {
  shared_link link{one_us_a_byte};
  link.start(0, 1, 100);
  link.start(50 * us, 2, 100); // 50 bytes of the first are left, at half the rate
  EXPECT_EQ(link.next(), 150 * us);
  EXPECT_EQ(link.through(150 * us), ids{1});
  EXPECT_EQ(link.next(), 200 * us); // 50 bytes of the second, alone
  EXPECT_EQ(link.through(200 * us), ids{2});
}

TEST(SharedLink, AShortMessageOvertakesALongOne) {
  shared_link link{one_us_a_byte};
  link.start(0, 1, 1000);
  link.start(0, 2, 10);
  EXPECT_EQ(link.next(), 20 * us);
  EXPECT_EQ(link.through(20 * us), ids{2});
  EXPECT_EQ(link.next(), 1010 * us);
}

TEST(SharedLink, AMoreUrgentMessageGoesFirst) {
  shared_link link{one_us_a_byte};
  link.start(0, 1, 100, 7);
  link.start(20 * us, 2, 50, 3);
  link.start(20 * us, 3, 50, 3);
  link.start(30 * us, 4, 10, 9);
  EXPECT_EQ(link.next(), 120 * us);
  EXPECT_EQ(link.through(120 * us), (ids{2, 3}));
  EXPECT_EQ(link.next(), 200 * us); // 80 bytes of the first are left
  EXPECT_EQ(link.through(200 * us), ids{1});
  EXPECT_EQ(link.through(210 * us), ids{4});
  EXPECT_EQ(link.next(), std::nullopt);
}

TEST(SharedLink, WhatIsThroughWaitsForNothingMoreUrgent) {
  shared_link link{one_us_a_byte};
  link.start(0, 1, 100, 7);
  link.start(100 * us, 2, 50, 3); // nobody has looked at the first
  EXPECT_EQ(link.next(), 100 * us);
  EXPECT_EQ(link.through(100 * us), ids{1});
  EXPECT_EQ(link.next(), 150 * us);
}

TEST(SharedLink, AMessageThatGetsLongerKeepsItsPlace) {
  shared_link link{one_us_a_byte};
  EXPECT_FALSE(link.extend(0, 1, 100)) << "it has not begun";
  link.start(0, 1, 100);
  link.start(0, 2, 100);
  EXPECT_TRUE(link.extend(50 * us, 1, 20)); // 25 bytes of each are through
  EXPECT_EQ(link.next(), 200 * us);
  EXPECT_EQ(link.through(200 * us), ids{2});
  EXPECT_TRUE(link.extend(210 * us, 1, 5)); // 10 of the 20 bytes are left
  EXPECT_EQ(link.next(), 225 * us);
  EXPECT_EQ(link.through(225 * us), ids{1});
  EXPECT_FALSE(link.extend(230 * us, 1, 5)) << "it is through";
}

TEST(SharedLink, WhatGetsLongerOnceItIsThroughGainsNothing) {
  shared_link link{one_us_a_byte};
  link.start(0, 1, 10);
  EXPECT_TRUE(link.extend(50 * us, 1, 10)); // nobody has looked at it
  EXPECT_EQ(link.next(), 60 * us);
}

TEST(SharedLink, NothingIsLostInRounding) {
  shared_link link{one_us_a_byte};
  for (std::uint64_t id = 1; id <= 3; ++id)
    link.start(static_cast<nanoseconds>(id), id, 7); // beginning a nanosecond apart
  nanoseconds last = 0;
  std::size_t done = 0;
  while (const auto at = link.next()) {
    EXPECT_GE(*at, last);
    last = *at;
    done += link.through(last).size();
  }
  EXPECT_EQ(done, 3u);
  EXPECT_NEAR(static_cast<double>(last), 21e3 + 1, 2); // three times seven microseconds, from the first begin on
}

TEST(SharedLink, WhatNobodyHasLookedAtIsThroughNowAndNotBefore) {
  shared_link link{one_us_a_byte};
  link.start(0, 1, 1);
  link.start(5'000, 2, 1); // the first was through at 1,000
  EXPECT_EQ(link.next(), 5'000);
  EXPECT_EQ(link.through(5'000), ids{1});
  EXPECT_EQ(link.next(), 6'000);
}

TEST(SharedLink, DaysAndCenturiesAreTimesToo) {
  constexpr nanoseconds day = 86'400'000'000'000;
  shared_link busy{{.mbit = 8}}; // a byte in a microsecond
  for (int i = 1; i <= 5; ++i) { // never idle
    busy.start((i - 1) * day, i, day / 1000);
    EXPECT_EQ(*busy.next(), i * day);
    EXPECT_EQ(busy.through(i * day).size(), 1U);
  }
  shared_link never{{.mbit = 1e-300}};
  never.start(0, 1, 1000);
  never.start(0, 2, 1000);
  EXPECT_EQ(*never.next(), longest_duration);
}

TEST(SharedLink, AnUnlimitedLinkTakesNoTime) {
  shared_link link{{.latency_ms = 3}};
  link.start(7, 1, 1'000'000);
  EXPECT_EQ(link.next(), 7);
  EXPECT_EQ(link.through(7), ids{1});
}

} // namespace
} // namespace troupe::protocols
