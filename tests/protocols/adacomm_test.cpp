// SPDX-License-Identifier: BSD-3-Clause
// AdaComm: the communication period by the formula, worked by hand.
#include "protocols/adacomm.hpp"

#include <limits>

#include <gtest/gtest.h>

#include "tests/protocols/making.hpp"

namespace troupe::protocols {
namespace {

constexpr nanoseconds second = 1'000'000'000;

report round_with(double loss) {
  return {.event = report::kind::round_closed, .loss = loss, .contributions = 8};
}

/// What the interval's end decides on after a round with this loss; nothing: the period stays.
std::optional<std::uint32_t> after(adacomm& subject, double loss, double rate = 0.5) {
  EXPECT_FALSE(subject.on(round_with(loss), rate)) << "a round alone decides nothing";
  const auto decided = subject.on_interval(second);
  return decided ? decided->period : std::nullopt;
}

TEST(AdaComm, PeriodIsTheRootOfTheLossRatioTimesTheFirst) {
  adacomm subject{{.initial_steps = 20}};
  subject.on(round_with(2), 0.5);
  EXPECT_EQ(after(subject, 1), 15u) << "ceil(sqrt(1/2) 20) = ceil(14.14)";
  EXPECT_EQ(after(subject, 0.5), 10u) << "sqrt(1/4) 20: tau_0 stands outside the root";
  EXPECT_EQ(after(subject, 0.08), 4u) << "sqrt(1/25) 20";
}

TEST(AdaComm, PeriodThatWouldNotFallIsHalvedUpwards) {
  adacomm subject{{.initial_steps = 20}};
  EXPECT_EQ(after(subject, 2), 10u) << "at the first loss the formula says 20, which is not below 20";
  EXPECT_EQ(after(subject, 2), 5u) << "20 again, against 10";
  EXPECT_EQ(after(subject, 9), 3u) << "a loss that grew; 5/2, upwards";
  EXPECT_EQ(after(subject, 2), 2u);
  EXPECT_EQ(after(subject, 2), 1u);
}

TEST(AdaComm, PeriodNeverFallsBelowOne) {
  adacomm subject{{.initial_steps = 2}};
  subject.on(round_with(1), 0.5);
  EXPECT_EQ(after(subject, 0), 1u) << "the formula says 0";
  EXPECT_EQ(after(subject, 0), std::nullopt) << "it stays";
  EXPECT_EQ(after(subject, 0.5), std::nullopt);
}

TEST(AdaComm, WhatCountsIsTheLastRoundOfTheIntervalAndTheFirstOfTheJob) {
  adacomm subject{{.initial_steps = 20}};
  subject.on(round_with(4), 0.5);
  subject.on(round_with(100), 0.5);
  EXPECT_EQ(after(subject, 1), 10u) << "sqrt(1/4) 20";
}

TEST(AdaComm, PeriodFollowsTheLearningRateBothWays) {
  adacomm subject{{.initial_steps = 20}};
  subject.on(round_with(1), 0.4);
  EXPECT_EQ(after(subject, 0.25, 0.4), 10u);
  EXPECT_EQ(after(subject, 0.25, 0.1), 20u) << "sqrt(4 * 1/4) 20: up, for the rate has fallen";
  EXPECT_EQ(after(subject, 0.25, 0.1), 10u) << "the rate stays: halved";
  EXPECT_EQ(after(subject, 0.25, 0.025), 40u) << "sqrt(16 * 1/4) 20: beyond the first";
  EXPECT_EQ(after(subject, 0.25, 0.4), 10u) << "and down again";
}

TEST(AdaComm, WithoutTheCouplingTheLearningRateIsNothingAndThePeriodNeverGrows) {
  adacomm subject{{.initial_steps = 20, .couple_lr = false}};
  subject.on(round_with(1), 0.4);
  EXPECT_EQ(after(subject, 0.25, 0.4), 10u);
  EXPECT_EQ(after(subject, 0.25, 0.1), 5u);
  EXPECT_EQ(after(subject, 0.01, 0.1), 2u) << "sqrt(1/100) 20; coupled it would be twice that";
  EXPECT_EQ(after(subject, 1, 0.1), 1u);
}

TEST(AdaComm, LossThatIsNoNumberIsNotHeard) {
  constexpr double nan = std::numeric_limits<double>::quiet_NaN(), infinity = std::numeric_limits<double>::infinity();
  adacomm subject{{.initial_steps = 20}};
  EXPECT_EQ(after(subject, nan), std::nullopt) << "the first";
  EXPECT_EQ(after(subject, infinity), std::nullopt);
  EXPECT_EQ(after(subject, 4), 10u) << "this is the first loss";
  subject.on(round_with(1), 0.5);
  EXPECT_EQ(after(subject, nan), 5u) << "not above: the last that was a number is 1, by which the formula says 10";
}

TEST(AdaComm, RoundsWithoutAGradientAreNotHeard) {
  adacomm subject{{.initial_steps = 20}};
  subject.on(report{.event = report::kind::round_closed}, 0.5);
  EXPECT_FALSE(subject.on_interval(second)) << "nothing has been heard yet";
  subject.on(round_with(4), 0.5);
  subject.on(round_with(1), 0.5);
  subject.on(report{.event = report::kind::round_closed}, 0.5);
  EXPECT_EQ(subject.on_interval(second)->period, 10u);
}

TEST(AdaComm, RateThatHasFallenToNothingLeavesThePeriod) {
  adacomm subject{{.initial_steps = 20}};
  subject.on(round_with(1), 0.4);
  EXPECT_EQ(after(subject, 0.25, 0.4), 10u);
  EXPECT_EQ(after(subject, 0.25, 0), std::nullopt) << "a schedule's end: the formula says infinity";
  EXPECT_GE(after(subject, 0.25, 1e-300).value(), 10u) << "and here what no machine counts to";
}

TEST(AdaComm, ReasonsHoldTheNumbersThatTheRuleTook) {
  adacomm subject{{.initial_steps = 20}};
  subject.on(round_with(2), 0.5);
  subject.on(round_with(0.5), 0.25);
  EXPECT_EQ(subject.on_interval(3 * second / 2)->why,
            "adacomm at 1.5 s: loss 0.5 of 2, learning rate 0.25 of 0.5: communication period 20 -> 15");
}

TEST(AdaComm, IntervalIsItsOptions) {
  EXPECT_EQ((adacomm{{.interval = 7}}.interval()), 7);
}

TEST(AdaComm, OfAMemoryThatNoneOfItsKindWroteItKeepsWhatItCan) {
  constexpr double none = std::numeric_limits<double>::quiet_NaN(), infinite = std::numeric_limits<double>::infinity();
  for (const std::vector<double>& memory :
       {std::vector<double>{}, {none, none, none}, {5, infinite, 1, 1, 1, 1}, {5, 1, -1, 1, 1, 1}}) {
    adacomm subject{{.initial_steps = 20}};
    subject.remember(memory);
    subject.check();
    EXPECT_GE(subject.on_interval(second).value_or(decision{.period = 1}).period, 1U);
    subject.check();
  }
}

} // namespace
} // namespace troupe::protocols
