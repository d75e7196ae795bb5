// SPDX-License-Identifier: BSD-3-Clause
// Training time is paused while the job is held, and timers run in training time. The wall clock is a number here.
#include "protocols/binding/training_clock.hpp"

#include <optional>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

namespace troupe::protocols {
namespace {

constexpr timer_id deadline{1};
constexpr timer_id other{2};

struct asked {
  timer_id timer;
  nanoseconds delay;
  friend bool operator==(const asked&, const asked&) = default;
};

class TrainingClock : public testing::Test {
protected:
  nanoseconds wall = 1'000;
  training_clock clock{[this] { return wall; }};
  std::vector<asked> messages; ///< that the timers asked for since the last look
  training_timers timers{clock, [this](timer_id timer, nanoseconds delay) { messages.push_back({timer, delay}); }};

  std::vector<asked> asked_for() { return std::exchange(messages, {}); }
};
using TrainingTimers = TrainingClock;

TEST_F(TrainingClock, StartsPausedAtZero) {
  wall += 50;
  EXPECT_FALSE(clock.running());
  EXPECT_EQ(clock.now(), 0);
}

TEST_F(TrainingClock, StandsStillWhilePaused) {
  clock.resume();
  wall += 30;
  EXPECT_EQ(clock.now(), 30);
  clock.pause();
  wall += 1'000;
  EXPECT_EQ(clock.now(), 30);
  clock.resume();
  wall += 5;
  EXPECT_EQ(clock.now(), 35);
}

TEST_F(TrainingClock, LosesNothingWhenItIsResumedOrPausedTwice) {
  clock.resume();
  wall += 30;
  clock.resume();
  wall += 10;
  clock.pause();
  wall += 7;
  clock.pause();
  EXPECT_EQ(clock.now(), 40);
}

TEST_F(TrainingTimers, FireWhenTheirTimeHasComeAndOnce) {
  clock.resume();
  timers.arm({deadline, 100});
  EXPECT_EQ(asked_for(), (std::vector<asked>{{deadline, 100}}));
  wall += 100;
  EXPECT_EQ(timers.fire(deadline), (expired{deadline, 100}));
  EXPECT_EQ(timers.fire(deadline), std::nullopt);
}

TEST_F(TrainingTimers, AnActorsOwnCallItAndNoMachineHearsOfThem) {
  int first = 0, second = 0;
  own_timer one{timers, [&] { ++first; }};
  own_timer two{timers, [&] {
                  ++second;
                  one.arm(7); // from its own callback
                }};
  clock.resume();
  timers.arm({deadline, 100}); // the machine's have ids of their own
  two.arm(50);
  const auto messages_for_both = asked_for();
  ASSERT_EQ(messages_for_both.size(), 2U);
  const auto of_two = messages_for_both[1].timer;
  EXPECT_NE(of_two, deadline);
  EXPECT_EQ(timers.fire(of_two), std::nullopt);
  EXPECT_EQ(second, 0) << "before its time";
  wall += 50;
  EXPECT_EQ(timers.fire(of_two), std::nullopt);
  EXPECT_EQ(std::pair(first, second), std::pair(0, 1));
  const auto again = asked_for();
  ASSERT_EQ(again.size(), 1U);
  wall += 7;
  EXPECT_EQ(timers.fire(again[0].timer), std::nullopt);
  EXPECT_EQ(std::pair(first, second), std::pair(1, 1));
  wall += 43;
  EXPECT_EQ(timers.fire(deadline), (expired{deadline, 100}));
}

TEST_F(TrainingTimers, ATimerArmedWhilePausedIsScheduledAtResume) {
  timers.arm({deadline, 100});
  EXPECT_TRUE(asked_for().empty());
  clock.resume();
  timers.resume();
  EXPECT_EQ(asked_for(), (std::vector<asked>{{deadline, 100}}));
}

TEST_F(TrainingTimers, AMessageThatAPauseOvertakesFiresWhenTheClockGoesOn) {
  clock.resume();
  timers.arm({deadline, 100});
  asked_for();
  wall += 100;
  clock.pause();
  EXPECT_EQ(timers.fire(deadline), std::nullopt);
  wall += 30;
  clock.resume();
  timers.resume();
  EXPECT_EQ(asked_for(), (std::vector<asked>{{deadline, 0}}));
  EXPECT_EQ(timers.fire(deadline), (expired{deadline, 100}));
}

TEST_F(TrainingTimers, AMessageThatComesDuringAHoldDoesNotFire) {
  clock.resume();
  timers.arm({deadline, 100});
  wall += 40;
  clock.pause();
  wall += 60; // 40 of training
  EXPECT_EQ(timers.fire(deadline), std::nullopt);
  asked_for();
  wall += 500;
  clock.resume();
  timers.resume();
  EXPECT_EQ(asked_for(), (std::vector<asked>{{deadline, 60}}));
  wall += 60;
  EXPECT_EQ(timers.fire(deadline), (expired{deadline, 100}));
}

TEST_F(TrainingTimers, AMessageThatComesAfterAShortHoldSchedulesTheRest) {
  clock.resume();
  timers.arm({deadline, 100});
  wall += 40;
  clock.pause();
  wall += 25;
  clock.resume();
  timers.resume();
  asked_for();
  wall += 35; // the message of the beginning; 75 of training
  EXPECT_EQ(timers.fire(deadline), std::nullopt);
  EXPECT_EQ(asked_for(), (std::vector<asked>{{deadline, 25}}));
  wall += 25;
  EXPECT_EQ(timers.fire(deadline), (expired{deadline, 100}));
}

TEST_F(TrainingTimers, ADisarmedTimerDoesNotFire) {
  clock.resume();
  timers.arm({deadline, 100});
  timers.arm({deadline, -1});
  wall += 100;
  EXPECT_EQ(timers.fire(deadline), std::nullopt);
  timers.resume();
  wall += 100;
  EXPECT_EQ(timers.fire(deadline), std::nullopt);
}

TEST_F(TrainingTimers, ArmingAgainReplaces) {
  clock.resume();
  timers.arm({deadline, 100});
  wall += 50;
  timers.arm({deadline, 100});
  wall += 50; // the first message
  EXPECT_EQ(timers.fire(deadline), std::nullopt);
  wall += 50;
  EXPECT_EQ(timers.fire(deadline), (expired{deadline, 150}));
}

TEST_F(TrainingTimers, AnEarlierTimeIsNotKeptWaitingByTheMessageOfALaterOne) {
  clock.resume();
  timers.arm({deadline, 1'000});
  timers.arm({deadline, 10});
  EXPECT_EQ(asked_for(), (std::vector<asked>{{deadline, 1'000}, {deadline, 10}}));
  wall += 10;
  EXPECT_EQ(timers.fire(deadline), (expired{deadline, 10}));
  wall += 990; // the first message, which nobody waits for any more
  EXPECT_EQ(timers.fire(deadline), std::nullopt);
}

TEST_F(TrainingTimers, ARoundsDeadlineArmedEveryRoundHasOneMessageUnderWay) {
  clock.resume();
  std::vector<nanoseconds> under_way; // wall times
  std::size_t most = 0;
  for (int round = 0; round < 10'000; ++round) {
    timers.arm({deadline, 100});
    wall += 10; // every round closes long before its deadline
    std::vector<nanoseconds> due;
    std::erase_if(under_way, [&](auto at) { return at <= wall && (due.push_back(at), true); });
    for (std::size_t i = 0; i < due.size(); ++i)
      EXPECT_EQ(timers.fire(deadline), std::nullopt);
    for (const auto& message : asked_for())
      under_way.push_back(wall + message.delay);
    most = std::max(most, under_way.size());
  }
  EXPECT_EQ(most, 1U);
}

TEST_F(TrainingTimers, ManyHoldsLeaveOneMessageUnderWay) {
  clock.resume();
  timers.arm({deadline, 1'000'000});
  for (int i = 0; i < 1'000; ++i) {
    wall += 10;
    clock.pause();
    wall += 5;
    clock.resume();
    timers.resume();
  }
  EXPECT_EQ(asked_for().size(), 1U);
}

TEST_F(TrainingTimers, TimersAreApart) {
  clock.resume();
  timers.arm({deadline, 100});
  timers.arm({other, 50});
  wall += 50;
  EXPECT_EQ(timers.fire(other), (expired{other, 50}));
  EXPECT_EQ(timers.fire(timer_id{3}), std::nullopt);
  wall += 50;
  EXPECT_EQ(timers.fire(deadline), (expired{deadline, 100}));
}

} // namespace
} // namespace troupe::protocols
