// SPDX-License-Identifier: BSD-3-Clause
// How often strangers' handshakes begin, and in which order.
#include "actors/net/handshake_gate.hpp"

#include <vector>

#include <gtest/gtest.h>

namespace troupe::actors::net {
namespace {

using namespace std::chrono_literals;
using gate = handshake_gate<int>;
const gate::clock::time_point start{1h};

TEST(HandshakeGate, AFewBeginAtOnceAndTheOthersOneAfterTheOther) {
  gate subject;
  std::vector<std::shared_ptr<int>> all;
  for (int i = 0; i < 200; ++i)
    subject.wait(all.emplace_back(std::make_shared<int>(i)));
  const auto begin_at = [&](gate::clock::time_point now) {
    int count = 0;
    for (; subject.next(now); ++count) {
    }
    return count;
  };
  EXPECT_EQ(begin_at(start), gate::at_once + 1);
  EXPECT_EQ(begin_at(start), 0);
  EXPECT_EQ(subject.due(), start + gate::interval);
  EXPECT_EQ(begin_at(start + gate::interval - 1ns), 0);
  int in_a_second = 0;
  for (auto now = start + 1ms; now <= start + 1s; now += 1ms)
    in_a_second += begin_at(now);
  EXPECT_EQ(in_a_second, gate::a_second);
  EXPECT_FALSE(subject.is_empty());
}

TEST(HandshakeGate, TheNewestBeginsFirst) {
  gate subject;
  const auto older = std::make_shared<int>(1), newer = std::make_shared<int>(2);
  subject.wait(older);
  subject.wait(newer);
  EXPECT_EQ(subject.next(start), newer);
  EXPECT_EQ(subject.next(start), older);
  EXPECT_EQ(subject.next(start), nullptr);
}

TEST(HandshakeGate, WhoIsGoneTakesNoTurn) {
  gate subject;
  const auto here = std::make_shared<int>(1);
  subject.wait(here);
  for (int i = 0; i < 100; ++i)
    subject.wait(std::make_shared<int>(i));
  EXPECT_EQ(subject.next(start), here);
}

} // namespace
} // namespace troupe::actors::net
