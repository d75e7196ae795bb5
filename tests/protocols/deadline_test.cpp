// SPDX-License-Identifier: BSD-3-Clause
// Deadline: the cut-off and whom it spares, worked by hand.
#include "protocols/deadline.hpp"

#include <gtest/gtest.h>

#include "protocols/round_rule.hpp"
#include "tests/protocols/making.hpp"

namespace troupe::protocols {
namespace {

/// A round of workers 0 .. n-1.
open_round round_of(std::uint32_t n) {
  open_round out;
  for (std::uint32_t worker = 0; worker < n; ++worker)
    out.live.insert({w(worker), {}});
  return out;
}

void arrive(deadline& subject, std::uint32_t worker, std::initializer_list<nanoseconds> elapsed) {
  for (const nanoseconds each : elapsed)
    subject.arrived({.id = {w(worker), {}, {}}, .samples = 10}, each);
}

TEST(Deadline, NothingIsKnownBeforeThereAreAsManyArrivalsAsWorkers) {
  deadline subject{3, 5};
  EXPECT_FALSE(subject.patience(round_of(2)));
  arrive(subject, 0, {100});
  EXPECT_FALSE(subject.patience(round_of(2)));
  arrive(subject, 1, {100});
  EXPECT_TRUE(subject.patience(round_of(2)));
}

TEST(Deadline, CutOffIsTheMedianAndKMedianDistancesFromIt) {
  deadline subject{3, 5};
  arrive(subject, 0, {100, 110});
  arrive(subject, 1, {120, 130});
  arrive(subject, 2, {500});
  // Median 120; distances 20, 10, 0, 10, 380, in order 0, 10, 10, 20, 380: MAD 10.
  EXPECT_EQ(subject.patience(round_of(3)), 150);
  deadline twice{6, 5};
  arrive(twice, 0, {500, 130, 120, 110, 100});
  EXPECT_EQ(twice.patience(round_of(1)), 180);
}

TEST(Deadline, CutOffIsAtLeastATenthAboveTheMedian) {
  deadline subject{3, 5};
  arrive(subject, 0, {1000, 1000, 1010});
  EXPECT_EQ(subject.patience(round_of(1)), 1100) << "the MAD is 0";
  deadline none{0, 5};
  arrive(none, 0, {100, 500, 900});
  EXPECT_EQ(none.patience(round_of(1)), 550);
}

TEST(Deadline, OfAnEvenNumberTheUpperMiddleIsTheMedian) {
  deadline subject{1, 5};
  arrive(subject, 0, {100, 200});
  // Median 200; distances 100, 0: MAD 100.
  EXPECT_EQ(subject.patience(round_of(1)), 300);
}

TEST(Deadline, LastEightArrivalsOfAWorkerAreThePast) {
  deadline subject{3, 5};
  arrive(subject, 0, {9000, 9000, 9000, 9000, 9000, 9000});
  arrive(subject, 0, {100, 100, 100, 100, 100});
  EXPECT_EQ(subject.patience(round_of(1)), 110) << "three of eight";
  deadline even{3, 5};
  arrive(even, 0, {100, 100, 100, 100, 100, 9000, 9000, 9000, 9000});
  // Four of eight each: median 9000, MAD 8900. A ninth, of 100, would make it 110.
  EXPECT_EQ(even.patience(round_of(1)), 9000 + 3 * 8900);
}

TEST(Deadline, PastOfThoseWhoTakeNoPartIsNothing) {
  deadline subject{3, 5};
  arrive(subject, 0, {100});
  arrive(subject, 1, {100});
  arrive(subject, 2, {900, 900, 900});
  EXPECT_EQ(subject.patience(round_of(2)), 110);
}

// -- with the engine of rounds

round_rule rule_of(std::uint32_t max_misses) {
  return round_rule{[max_misses](const protocol_spec&, std::uint64_t) { return std::make_unique<deadline>(3, max_misses); }};
}

push push_from(std::uint32_t worker, std::uint64_t base, nanoseconds at) {
  return {.epoch = e(1),
          .id = {w(worker), {}, {base + 1}},
          .base = v(base),
          .gradient = t(100 * (base + 1) + worker),
          .samples = 10,
          .at = at};
}

/// Workers 0, 1, 2, each of which took 100 in the first round.
round_rule after_one_round(std::uint32_t max_misses) {
  round_rule out = rule_of(max_misses);
  EXPECT_EQ(count<arm_timer>(out.on(plan_of(1, {0, 1, 2}))), 0u) << "nothing is known";
  out.on(push_from(0, 0, 100));
  out.on(push_from(1, 0, 100));
  EXPECT_EQ(only<arm_timer>(out.on(push_from(2, 0, 100))).delay, 110);
  return out;
}

TEST(Deadline, RoundClosesAtItsDeadlineWithWhoeverCame) {
  round_rule rule = after_one_round(5);
  rule.on(push_from(1, 1, 200));
  EXPECT_EQ(rule.on(push_from(0, 1, 205)), rule_effects{});
  const rule_effects closed = rule.on(expired{{1}, 210});
  EXPECT_EQ(only<apply>(closed).sum, (std::vector<term>{{t(200), 0.5}, {t(201), 0.5}}));
  EXPECT_EQ(only<send_params>(closed).to, (std::vector{w(0), w(1)}));
}

TEST(Deadline, RoundThatIsFullDoesNotWaitForItsDeadline) {
  round_rule rule = after_one_round(5);
  rule.on(push_from(1, 1, 200));
  rule.on(push_from(0, 1, 205));
  EXPECT_EQ(only<apply>(rule.on(push_from(2, 1, 206))).sum.size(), 3u);
}

TEST(Deadline, DeadlineWithoutAPushWaitsForTheFirst) {
  round_rule rule = after_one_round(5);
  EXPECT_EQ(rule.on(expired{{1}, 210}), rule_effects{});
  EXPECT_EQ(only<apply>(rule.on(push_from(1, 1, 250))).sum, (std::vector<term>{{t(201), 1}}));
}

TEST(Deadline, LateArrivalsCountInTheNextDeadline) {
  round_rule rule = after_one_round(5);
  rule.on(push_from(0, 1, 200));
  rule.on(push_from(1, 1, 200));
  rule.on(expired{{1}, 210});
  rule.on(push_from(2, 1, 400)); // it took 300
  rule.on(push_from(0, 2, 410)); // 200 since the close
  rule.on(push_from(1, 2, 410));
  // 100 five times, 200 twice, 300 twice: median 100, distances 0 (5), 100 (2), 200 (2): MAD 0. One more of 400 and of 500 ...
  EXPECT_EQ(only<arm_timer>(rule.on(push_from(2, 2, 700))).delay, 110);
  rule.on(push_from(0, 3, 1100));
  rule.on(push_from(1, 3, 1100));
  // ... 100 (5), 200 (2), 300 (2), 400 (3): twelve, the seventh is 200; distances 100 (5 + 2), 0 (2), 200 (3): MAD 100.
  EXPECT_EQ(only<arm_timer>(rule.on(push_from(2, 3, 1100))).delay, 200 + 3 * 100);
}

TEST(Deadline, NobodyIsLeftBehindMoreThanMTimesInARow) {
  round_rule rule = after_one_round(2);
  const auto fast_round = [&rule](std::uint64_t base) {
    const auto at = static_cast<nanoseconds>(1000 * base);
    rule.on(push_from(0, base, at));
    rule.on(push_from(1, base, at));
    return only<apply>(rule.on(expired{{1}, at + 10})).sum.size();
  };
  EXPECT_EQ(fast_round(1), 2u);
  EXPECT_EQ(fast_round(2), 2u);
  EXPECT_EQ(fast_round(3), 0u) << "worker 2 is waited for";
  EXPECT_EQ(rule.waiting_for(), (std::vector{w(2)}));
  rule.on(push_from(2, 1, 3100)); // late for its round; now it works on version 3
  EXPECT_EQ(only<apply>(rule.on(push_from(2, 3, 3200))).sum.size(), 3u);
  EXPECT_EQ(fast_round(4), 2u) << "from the beginning";
  EXPECT_EQ(fast_round(5), 2u);
  EXPECT_EQ(fast_round(6), 0u);
}

TEST(Deadline, WhoIsOwedARoundAndIsThereIsNotWaitedFor) {
  round_rule rule = after_one_round(1);
  rule.on(push_from(0, 1, 1000));
  rule.on(push_from(1, 1, 1000));
  EXPECT_EQ(only<apply>(rule.on(expired{{1}, 1010})).sum.size(), 2u) << "without worker 2";
  rule.on(push_from(2, 1, 1020));
  rule.on(push_from(0, 2, 1100));
  EXPECT_EQ(only<apply>(rule.on(expired{{1}, 1110})).sum.size(), 0u) << "it is owed this one";
  EXPECT_EQ(only<apply>(rule.on(push_from(2, 2, 1120))).sum.size(), 2u) << "and now nobody is: worker 1 was there last time";
}

TEST(Deadline, MissesThatDoNotFollowEachOtherAreForgiven) {
  round_rule rule = after_one_round(1);
  for (std::uint64_t base = 1; base < 10; base += 2) {
    const auto at = static_cast<nanoseconds>(1000 * base);
    rule.on(push_from(0, base, at));
    rule.on(push_from(1, base, at));
    ASSERT_EQ(count<apply>(rule.on(expired{{1}, at + 10})), 1u) << base;
    rule.on(push_from(2, base, at + 20));
    rule.on(push_from(0, base + 1, at + 30));
    rule.on(push_from(1, base + 1, at + 40));
    ASSERT_EQ(count<apply>(rule.on(push_from(2, base + 1, at + 50))), 1u);
  }
}

TEST(Deadline, WithoutAMissAllowedItIsSynchronous) {
  round_rule rule = after_one_round(0);
  rule.on(push_from(0, 1, 200));
  rule.on(push_from(1, 1, 200));
  EXPECT_EQ(rule.on(expired{{1}, 210}), rule_effects{});
  EXPECT_EQ(only<apply>(rule.on(push_from(2, 1, 900))).sum.size(), 3u);
}

TEST(Deadline, PushWithoutSamplesSaysNothingAboutTimes) {
  deadline subject{3, 5};
  subject.arrived({.id = {w(0), {}, {}}, .samples = 0}, 1);
  EXPECT_FALSE(subject.patience(round_of(1)));
}

TEST(Deadline, WaitsForAGradientAndForNobodyWithoutSamples) {
  deadline subject{3, 5};
  open_round round = round_of(4);
  round.plan = plan_of(1, {0, 1, 2, 3}, 10, 2); // of two samples: workers 2 and 3 have none
  round.out_of_patience = true;
  for (const std::uint32_t empty : {2, 3})
    round.pushed[{w(empty), {}}] = {};
  EXPECT_FALSE(subject.close(round)) << "nothing to step with";
  round.out_of_patience = false;
  round.pushed = {{{w(0), {}}, {.samples = 1}}};
  EXPECT_FALSE(subject.close(round));
  round.pushed[{w(1), {}}] = {.samples = 1};
  EXPECT_TRUE(subject.close(round)) << "no gradient is left to come";
}

} // namespace
} // namespace troupe::protocols
