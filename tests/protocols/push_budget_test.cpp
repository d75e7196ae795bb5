// SPDX-License-Identifier: BSD-3-Clause
// What a worker may push where its bits a second are bounded.
#include "protocols/push_budget.hpp"

#include <cmath>
#include <cstdint>
#include <random>

#include <gtest/gtest.h>

namespace troupe::protocols {
namespace {

constexpr auto form = kernels::form::sparse_bf16;
constexpr std::int64_t floats = 50 * 4096;
constexpr nanoseconds ms = 1'000'000;

push_id push_of(std::uint64_t clock, std::uint32_t worker = 0) {
  return {{worker}, {0}, {clock}};
}
double bytes_of(double share) {
  return kernels::expected_bytes(form, {0, floats}, share);
}
std::uint64_t bytes_of(const push_density& how_dense) {
  return static_cast<std::uint64_t>(bytes_of(how_dense.of_all()));
}

TEST(PushBudget, WhatIsSentKeepsToItWhateverTheClocksTake) {
  for (std::uint32_t seed = 0; seed < 20; ++seed) {
    std::mt19937 dice(seed);
    const double megabits = 10 + dice() % 10;                   // in the mean a third to a half of a push
    push_budget budget(megabits, 6 + dice() % 5, form, floats); // whole blocks take less than that
    nanoseconds now = 0;
    double sent = 0;
    for (std::uint64_t clock = 1; clock <= 300; ++clock) {
      now += static_cast<nanoseconds>(50 + dice() % 100) * ms;
      // Bytes of true values are a few more or less.
      const double bytes = static_cast<double>(bytes_of(budget.density_of(push_of(clock), now))) * (0.9 + 0.01 * (dice() % 21));
      budget.sent(static_cast<std::uint64_t>(bytes));
      sent += bytes;
      EXPECT_LE(sent, megabits / 8000 * static_cast<double>(now) + 0.2 * bytes_of(1)) << "a push that was larger than thought";
    }
    EXPECT_NEAR(sent / (megabits / 8000 * static_cast<double>(now)), 1, 0.02) << megabits;
  }
}

TEST(PushBudget, EveryBlockTravelsWholeOnceInSoManyPushes) {
  for (const std::uint64_t bound : {1U, 2U, 5U}) {
    push_budget budget(1e-6, bound, form, floats); // nothing more
    for (std::int64_t block = 0; block < 50; ++block)
      for (std::uint64_t first = 1; first < 20; ++first) {
        int times = 0;
        for (std::uint64_t clock = first; clock < first + bound; ++clock)
          times += budget.density_of(push_of(clock), 0).takes_whole(block) ? 1 : 0;
        EXPECT_EQ(times, 1);
      }
    EXPECT_EQ(budget.density_of(push_of(90), 0).share, bound == 1 ? 1 : 0);
  }
}

TEST(PushBudget, WorkersBeginAtDifferentBlocks) {
  push_budget budget(1, 4, form, floats);
  for (std::uint32_t worker = 0; worker < 4; ++worker)
    EXPECT_EQ(budget.density_of(push_of(8, worker), 0).takes_whole(0), worker == 0);
}

TEST(PushBudget, APushTakesAllThatIsAllowed) {
  push_budget budget(8, 4, form, floats); // a byte in a microsecond
  for (const double share : {0.3, 0.5, 0.9}) {
    const auto before = budget.density_of(push_of(1), 0);
    EXPECT_EQ(before.share, 0);
    const auto now = budget.density_of(push_of(2), std::llround(bytes_of(share) * 1000));
    EXPECT_NEAR(now.of_all(), share, 0.01);
    EXPECT_NEAR(0.25 + 0.75 * now.share, share, 0.01) << "of a quarter everything, and this of the rest";
    budget = push_budget(8, 4, form, floats);
  }
}

TEST(PushBudget, BlocksOnCreditArePaidBackAndRestIsKeptUpToAWholePush) {
  push_budget budget(8, 4, form, floats);
  const auto all = static_cast<std::uint64_t>(bytes_of(1));
  const auto until = [](double bytes) { return std::llround(bytes * 1000); };
  EXPECT_EQ(budget.density_of(push_of(1), 0).share, 0);
  budget.sent(all / 4);
  EXPECT_EQ(budget.density_of(push_of(2), until(bytes_of(1) / 4)).share, 0) << "that much was owed";
  EXPECT_NEAR(budget.density_of(push_of(3), until(bytes_of(1) / 4 + bytes_of(0.6))).of_all(), 0.6, 0.01);
  const auto late = until(bytes_of(1) * 40);
  EXPECT_NEAR(budget.density_of(push_of(4), late).of_all(), 1, 1e-6);
  budget.sent(all);
  EXPECT_EQ(budget.density_of(push_of(5), late).share, 0) << "one whole push was kept, not forty";
  for (int i = 0; i < 40; ++i)
    budget.sent(all);
  EXPECT_NEAR(budget.density_of(push_of(6), late + until(bytes_of(1) + bytes_of(0.6))).of_all(), 0.6, 0.01) << "nor is more owed";
}

TEST(PushBudget, AskedAgainForAPushItGivesTheSame) {
  push_budget budget(8, 4, form, floats);
  const auto first = budget.density_of(push_of(1), 200 * ms);
  EXPECT_GT(first.share, 0);
  const auto again = budget.density_of(push_of(1), 900 * ms);
  EXPECT_EQ(again.share, first.share);
  EXPECT_EQ(again.turn, first.turn);
  EXPECT_GT(budget.density_of(push_of(2), 900 * ms).share, first.share);
}

} // namespace
} // namespace troupe::protocols
