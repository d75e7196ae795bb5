// SPDX-License-Identifier: BSD-3-Clause
// Who is suspected when, worked by hand and against a plain model.
#include "protocols/failure_detector.hpp"

#include <algorithm>
#include <cmath>
#include <optional>
#include <random>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace troupe::protocols {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using suspicion = failure_detector::suspicion;

constexpr nanoseconds ms = 1'000'000;
constexpr nanoseconds begin = 1'000'000 * ms;

/// Ticks every 100 ms; whoever `speaks` is heard at each. Returns all suspicions, and moves `now` on.
template <class Speaks>
std::vector<suspicion> pass(failure_detector& subject, nanoseconds& now, int ticks, Speaks speaks) {
  std::vector<suspicion> out;
  for (int i = 0; i < ticks; ++i) {
    now += 100 * ms;
    for (const auto peer : speaks(now))
      subject.heard(peer, now);
    for (const auto& each : subject.tick(now))
      out.push_back(each);
  }
  return out;
}

TEST(FailureDetector, WhoSpeaksIsNotSuspected) {
  failure_detector subject;
  nanoseconds now = begin;
  subject.watch(1, now);
  subject.watch(2, now);
  EXPECT_THAT(pass(subject, now, 200, [](nanoseconds) { return std::vector{1U, 2U}; }), IsEmpty());
}

TEST(FailureDetector, SilenceBeyondTheDeadlineIsSaidAndSaidAgain) {
  failure_detector subject;
  nanoseconds now = begin;
  subject.watch(1, now);
  subject.watch(2, now);
  const auto only_two = [](nanoseconds) { return std::vector{2U}; };
  EXPECT_THAT(pass(subject, now, 10, only_two), IsEmpty()) << "1 s is the deadline, not beyond it";
  EXPECT_THAT(pass(subject, now, 10, only_two), ElementsAre(suspicion{1, 1100 * ms}));
  EXPECT_THAT(pass(subject, now, 2, only_two), ElementsAre(suspicion{1, 2200 * ms}));
}

TEST(FailureDetector, WhoIsHeardAgainIsNotSuspectedAnyMore) {
  failure_detector subject({.longest = 1'000 * ms});
  nanoseconds now = begin;
  const auto nobody = [](nanoseconds) { return std::vector<std::uint32_t>{}; };
  subject.watch(1, now);
  EXPECT_EQ(pass(subject, now, 15, nobody).size(), 1U);
  subject.heard(1, now);
  EXPECT_THAT(pass(subject, now, 10, nobody), IsEmpty());
  subject.heard(1, now - 1'500 * ms); // news from before is none
  EXPECT_THAT(pass(subject, now, 1, nobody), ElementsAre(suspicion{1, 1100 * ms}));
}

TEST(FailureDetector, TheDeadlineIsTheMedianAndEightMediansOfDistancesOfTheGaps) {
  failure_detector subject;
  nanoseconds now = begin;
  subject.watch(7, now);
  EXPECT_EQ(subject.deadline(7), 1000 * ms);
  for (const nanoseconds gap : {600, 800, 1000, 700, 900}) { // median 800; distances 200, 0, 200, 100, 100: MAD 100
    for (nanoseconds passed = 100; passed < gap; passed += 100) {
      now += 100 * ms;
      EXPECT_THAT(subject.tick(now), IsEmpty());
    }
    now += 100 * ms;
    subject.heard(7, now);
    EXPECT_THAT(subject.tick(now), IsEmpty());
  }
  EXPECT_EQ(subject.deadline(7), (800 + 8 * 100) * ms);
  EXPECT_EQ(subject.deadline(8), 1000 * ms) << "nobody watches it";
}

TEST(FailureDetector, DeadlinesHaveBounds) {
  failure_detector slow({.shortest = 300 * ms, .longest = 700 * ms});
  nanoseconds now = begin;
  slow.watch(1, now);
  const auto each_fifth = [](nanoseconds at) { return at % (500 * ms) == 0 ? std::vector{1U} : std::vector<std::uint32_t>{}; };
  pass(slow, now, 100, [](nanoseconds) { return std::vector{1U}; });
  EXPECT_EQ(slow.deadline(1), 300 * ms) << "100 ms, without deviations";
  for (int i = 0; i < 40; ++i) {
    pass(slow, now, 1, [](nanoseconds) { return std::vector{1U}; });
    pass(slow, now, 5, each_fifth);
  }
  EXPECT_LE(slow.deadline(1), 700 * ms);
  EXPECT_GT(slow.deadline(1), 300 * ms);
}

TEST(FailureDetector, OnlyTheLastGapsCount) {
  failure_detector subject({.shortest = 1});
  nanoseconds now = begin;
  subject.watch(1, now);
  pass(subject, now, 640, [](nanoseconds at) { return at % (300 * ms) == 0 ? std::vector{1U} : std::vector<std::uint32_t>{}; });
  EXPECT_EQ(subject.deadline(1), 300 * ms);
  const auto always = [](nanoseconds) { return std::vector{1U}; };
  pass(subject, now, 31, always);
  EXPECT_EQ(subject.deadline(1), 300 * ms) << "most of 64 are old";
  pass(subject, now, 34, always);
  EXPECT_EQ(subject.deadline(1), 100 * ms);
}

TEST(FailureDetector, WhoWasLateHimselfAccusesNobody) {
  failure_detector subject;
  nanoseconds now = begin;
  const auto nobody = [](nanoseconds) { return std::vector<std::uint32_t>{}; };
  subject.watch(1, now);
  pass(subject, now, 50, [](nanoseconds) { return std::vector{1U}; });
  pass(subject, now, 5, nobody);
  now += 30'000 * ms; // it was stopped
  EXPECT_THAT(subject.tick(now), IsEmpty());
  EXPECT_EQ(subject.deadline(1), 1000 * ms);
  EXPECT_THAT(pass(subject, now, 4, nobody), IsEmpty()) << "500 ms before, 100 in the late tick, 400 now";
  EXPECT_THAT(pass(subject, now, 1, nobody), ElementsAre(suspicion{1, 1100 * ms}));
}

TEST(FailureDetector, WhatCameWhileItWasStoppedIsNoGapOfThePeer) {
  failure_detector subject({.shortest = 1});
  nanoseconds now = begin;
  subject.watch(1, now);
  for (int i = 0; i < 10; ++i) { // each time it is stopped for 3 s, and reads what has come before it looks at the clock
    now += 3'000 * ms;
    subject.heard(1, now);
    EXPECT_THAT(subject.tick(now), IsEmpty());
  }
  EXPECT_LE(subject.deadline(1), 100 * ms);
}

TEST(FailureDetector, ASlightlyLateTickGrantsNothing) {
  failure_detector subject;
  nanoseconds now = begin;
  subject.watch(1, now);
  subject.tick(now);
  for (int i = 0; i < 3; ++i)
    EXPECT_THAT(subject.tick(now += 300 * ms), IsEmpty());
  EXPECT_THAT(subject.tick(now += 300 * ms), ElementsAre(suspicion{1, 1200 * ms}));
}

TEST(FailureDetector, WhoIsForgottenIsNotSuspectedAndBeginsAnew) {
  failure_detector subject({.shortest = 1});
  nanoseconds now = begin;
  const auto nobody = [](nanoseconds) { return std::vector<std::uint32_t>{}; };
  subject.watch(1, now);
  pass(subject, now, 20, [](nanoseconds at) { return at % (400 * ms) == 0 ? std::vector{1U} : std::vector<std::uint32_t>{}; });
  EXPECT_EQ(subject.deadline(1), 400 * ms);
  subject.forget(1);
  EXPECT_THAT(pass(subject, now, 50, nobody), IsEmpty());
  subject.heard(1, now);
  EXPECT_THAT(pass(subject, now, 50, nobody), IsEmpty()) << "nobody watches it";
  subject.watch(1, now);
  EXPECT_EQ(subject.deadline(1), 1);
}

/// A living peer speaks at least every `most` ms, and both ends are held up now and then: nobody is suspected. A dead one is
/// suspected within a deadline and what was granted.
TEST(FailureDetector, DrawnDelaysSuspectTheDeadAlone) {
  for (std::uint32_t seed = 0; seed < 200; ++seed) {
    std::mt19937 random(seed);
    failure_detector subject;
    nanoseconds now = begin, granted = 0;
    subject.watch(1, now);
    subject.watch(2, now);
    const nanoseconds dies = begin + (5'000 + random() % 10'000) * ms;
    nanoseconds heard_dead = now;
    std::optional<nanoseconds> suspected;
    subject.tick(now);
    while (now < begin + 40'000 * ms && !suspected) {
      const nanoseconds step = random() % 20 == 0 ? (100 + random() % 4'000) * ms : (100 + random() % 150) * ms;
      now += step;
      if (now > dies && step > 300 * ms)
        granted += step - 100 * ms;
      subject.heard(1, now - static_cast<nanoseconds>(random() % 90) * ms);
      if (now <= dies)
        subject.heard(2, heard_dead = now);
      for (const auto& each : subject.tick(now)) {
        ASSERT_EQ(each.peer, 2U) << "seed " << seed;
        suspected = now;
      }
    }
    ASSERT_TRUE(suspected) << "seed " << seed;
    EXPECT_GT(*suspected, dies);
    EXPECT_GT(*suspected - heard_dead - granted, 1'000 * ms) << "seed " << seed;
    EXPECT_LE(*suspected - heard_dead - granted, subject.deadline(2) + 4'100 * ms) << "seed " << seed;
  }
}

} // namespace
} // namespace troupe::protocols
