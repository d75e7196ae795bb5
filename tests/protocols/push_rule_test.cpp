// SPDX-License-Identifier: BSD-3-Clause
// Protocols that apply each push alone: asynchronous SGD, bounded staleness, delay compensation.
#include "protocols/push_rule.hpp"

#include <algorithm>
#include <limits>

#include <gtest/gtest.h>

#include "protocols/async_sgd.hpp"
#include "protocols/dc_async.hpp"
#include "protocols/random_stream.hpp"
#include "protocols/ssp.hpp"
#include "tests/protocols/lone_pushes.hpp"

namespace troupe::protocols {
namespace {

/// The `clock`-th push of incarnation 0, ticket 100 clock + worker.
/// Who is answered, in order.
std::vector<worker_id> answered(const rule_effects& effects) {
  std::vector<worker_id> out;
  for (const send_params& each : all<send_params>(effects))
    out.insert(out.end(), each.to.begin(), each.to.end());
  return out;
}

// -- the engine

TEST(Async, FirstPlanHandsOutASliceToEach) {
  async_sgd rule;
  EXPECT_EQ(rule.on(plan_of(1, {0, 1, 4})), (rule_effects{answer(0, 0, 0, 0), answer(1, 0, 10, 0), answer(4, 0, 20, 0)}));
  EXPECT_EQ(rule.waiting_for(), (std::vector{w(0), w(1), w(4)}));
}

TEST(Async, PushIsAppliedAloneAtItsShareOfTheRateAndAnsweredAtOnce) {
  async_sgd rule;
  rule.on(plan_of(1, {0, 1, 2, 3}, 10));
  push short_one = lone_push(2, 1, 70);
  short_one.samples = 5;
  short_one.loss = 1.5;
  short_one.compute = 60;
  report made{
      .event = report::kind::round_closed, .ver = v(1), .worker = w(2), .loss = 1.5, .contributions = 1, .compute = 60, .at = 70};
  made.timings = {{w(2), 60, 70, 5}};
  EXPECT_EQ(rule.on(short_one),
            (rule_effects{
                apply{.sum = {{t(102), 1}}, .ver = v(1), .epoch = e(1), .workers = 4, .step = {.lr_scale = 0.125}, .samples = 5},
                made, answer(2, 1, 40, 1)}))
      << "5 samples of 4 * 10";
  EXPECT_EQ(rule.current(), v(1));
}

TEST(Async, LabelsThatAreIgnoredTakeFromItsShare) {
  async_sgd rule;
  rule.on(plan_of(1, {0, 1, 2, 3}, 10));
  push some = lone_push(2, 1, 70);
  some.samples = 10;
  some.ignored = 5;
  EXPECT_EQ(only<apply>(rule.on(some)).step.lr_scale, 0.125);
}

TEST(Async, SlicesAreHandedOutOnceAnEpochWhateverTheSpeeds) {
  async_sgd rule;
  std::map<std::uint64_t, int> begun;
  const auto hear = [&begun](const rule_effects& effects) {
    for (const send_params& each : all<send_params>(effects))
      ++begun[each.position];
  };
  hear(rule.on(plan_of(1, {0, 1, 2}, 10, 95))); // nine slices of 10 and one of 5
  std::uint64_t clock[] = {0, 0, 0};
  for (int i = 0; i < 27; ++i) {
    const std::uint32_t worker = i % 9 == 0 ? 2 : i % 3 == 0 ? 1 : 0;
    hear(rule.on(lone_push(worker, ++clock[worker])));
  }
  ASSERT_EQ(begun.size(), 30u);
  for (const auto& [position, times] : begun) {
    EXPECT_EQ(times, 1) << position;
    EXPECT_EQ(position % 95 % 10, 0u);
  }
  EXPECT_EQ(begun.rbegin()->first, 2 * 95u + 90);
}

TEST(Async, StalenessIsTheVersionsMadeSinceTheParametersWereSent) {
  async_sgd rule;
  rule.on(plan_of(1, {0, 1, 2}));
  const auto staleness = [&rule](std::uint32_t worker, std::uint64_t clock) {
    return only<report>(rule.on(lone_push(worker, clock))).staleness;
  };
  EXPECT_EQ(staleness(0, 1), 0u);
  EXPECT_EQ(staleness(1, 1), 1u);
  EXPECT_EQ(staleness(2, 1), 2u);
  // From now on each is n - 1 late, in turn.
  for (std::uint64_t clock = 2; clock < 6; ++clock)
    for (std::uint32_t worker = 0; worker < 3; ++worker)
      EXPECT_EQ(staleness(worker, clock), 2u);
  EXPECT_EQ(staleness(0, 6), 2u);
  EXPECT_EQ(staleness(0, 7), 0u) << "nobody came between";
}

TEST(Async, TimeIsFromTheSendingOfTheParameters) {
  async_sgd rule;
  rule.on(plan_of(1, {0, 1}));
  rule.on(lone_push(0, 1, 100));
  rule.on(lone_push(1, 1, 130));
  EXPECT_EQ(only<report>(rule.on(lone_push(0, 2, 180))).timings.at(0).elapsed, 80);
}

TEST(Async, PushThatIsNotFiniteIsDiscardedAndItsWorkerGoesOn) {
  async_sgd rule;
  rule.on(plan_of(1, {0}));
  push wild = lone_push(0);
  wild.finite = false;
  EXPECT_EQ(rule.on(wild), (rule_effects{discard{t(100)}, report{.event = report::kind::push_not_finite}, answer(0, 0, 10, 1)}));
  EXPECT_EQ(rule.current(), v(0));
}

TEST(Async, EmptySliceAdvancesNothing) {
  async_sgd rule;
  rule.on(plan_of(1, {0}));
  push empty = lone_push(0);
  empty.samples = 0;
  EXPECT_EQ(rule.on(empty), (rule_effects{discard{t(100)}, answer(0, 0, 10, 1)}));
}

TEST(Async, ForeignerIsRefusedWithTheReason) {
  async_sgd rule;
  rule.on(plan_of(1, {0}));
  report why{.event = report::kind::push_refused, .worker = w(5)};
  why.text = "its worker takes no part";
  EXPECT_EQ(rule.on(lone_push(5)), (rule_effects{discard{t(105)}, why}));
  push other = lone_push(0);
  other.id.incarnation = {1};
  why.worker = w(0);
  EXPECT_EQ(rule.on(other), (rule_effects{discard{t(100)}, why}));
}

TEST(Async, MemberMayPushUnderAnOlderPlan) {
  async_sgd rule;
  rule.on(plan_of(1, {0, 1}));
  rule.on(plan_of(2, {0, 1, 2}));
  const rule_effects out = rule.on(lone_push(0));
  EXPECT_DOUBLE_EQ(only<apply>(out).step.lr_scale, 1.0 / 3) << "n is the newest plan's";
  EXPECT_EQ(only<send_params>(out), answer(0, 1, 30, 1, 2));
}

TEST(Async, JoinerIsSentTheNewestAtOnceAndNobodyElseIsDisturbed) {
  async_sgd rule;
  rule.on(plan_of(1, {0, 1}));
  rule.on(lone_push(0));
  EXPECT_EQ(rule.on(plan_of(2, {0, 1, 2})), (rule_effects{answer(2, 1, 30, 0, 2)}));
  EXPECT_EQ(rule.on(plan_of(2, {0, 1, 2, 3})), rule_effects{}) << "an epoch that is known";
}

TEST(Async, DeadAreForgottenAndTheirPushesForeign) {
  async_sgd rule;
  rule.on(plan_of(1, {0, 1}));
  EXPECT_EQ(rule.on(worker_down{w(1), {}}), rule_effects{});
  EXPECT_EQ(rule.waiting_for(), (std::vector{w(0)}));
  EXPECT_EQ(only<report>(rule.on(lone_push(1))).event, report::kind::push_refused);
}

// -- bounded staleness

TEST(Ssp, FastestMayBeSClocksAheadAndThenWaits) {
  ssp rule{2};
  rule.on(plan_of(1, {0, 1}));
  EXPECT_EQ(answered(rule.on(lone_push(0, 1))), (std::vector{w(0)})) << "1 - 0";
  EXPECT_EQ(answered(rule.on(lone_push(0, 2))), (std::vector{w(0)})) << "2 - 0";
  const rule_effects third = rule.on(lone_push(0, 3));
  EXPECT_EQ(count<apply>(third), 1u) << "it is applied all the same";
  EXPECT_EQ(answered(third), std::vector<worker_id>{}) << "3 - 0";
  EXPECT_EQ(rule.waiting_for(), (std::vector{w(1)}));
  EXPECT_EQ(rule.on(lone_push(1, 1)).back(), (rule_effect{answer(1, 4, 50, 1)}));
}

TEST(Ssp, WhoWaitsIsAnsweredByThePushThatBringsTheSlowestNear) {
  ssp rule{1};
  rule.on(plan_of(1, {0, 1, 2}));
  for (const std::uint32_t fast : {0u, 1u}) {
    rule.on(lone_push(fast, 1));
    EXPECT_EQ(answered(rule.on(lone_push(fast, 2))), std::vector<worker_id>{});
  }
  EXPECT_EQ(all<send_params>(rule.on(lone_push(2, 1))),
            (std::vector{answer(0, 5, 50, 2), answer(1, 5, 60, 2), answer(2, 5, 70, 1)}));
}

TEST(Ssp, BoundZeroIsLockstep) {
  ssp rule{0};
  rule.on(plan_of(1, {0, 1}));
  for (std::uint64_t clock = 1; clock < 4; ++clock) {
    EXPECT_EQ(answered(rule.on(lone_push(1, clock))), std::vector<worker_id>{});
    EXPECT_EQ(answered(rule.on(lone_push(0, clock))), (std::vector{w(0), w(1)}));
  }
}

TEST(Ssp, WorkerThatWaitsAndPushesAgainIsRefusedWithTheReason) {
  ssp rule{0};
  rule.on(plan_of(1, {0, 1}));
  rule.on(lone_push(0, 1));
  report why{.event = report::kind::push_refused};
  why.text = "its worker has pushed already and was not answered yet";
  EXPECT_EQ(rule.on(lone_push(0, 2)), (rule_effects{discard{t(200)}, why}));
  EXPECT_EQ(answered(rule.on(lone_push(1, 1))), (std::vector{w(0), w(1)})) << "its clock is still 1";
}

TEST(Ssp, WildAndEmptyPushesAreClocksToo) {
  ssp rule{0};
  rule.on(plan_of(1, {0, 1}));
  rule.on(lone_push(0, 1));
  push wild = lone_push(1, 1);
  wild.finite = false;
  EXPECT_EQ(answered(rule.on(wild)), (std::vector{w(0), w(1)}));
}

TEST(Ssp, DeathOfTheSlowestLetsTheOthersGo) {
  ssp rule{0};
  rule.on(plan_of(1, {0, 1, 2}));
  rule.on(lone_push(0, 1));
  rule.on(lone_push(1, 1));
  EXPECT_EQ(answered(rule.on(worker_down{w(2), {}})), (std::vector{w(0), w(1)}));
}

TEST(Ssp, PlanWithoutTheSlowestLetsTheOthersGo) {
  ssp rule{0};
  rule.on(plan_of(1, {0, 1}));
  rule.on(lone_push(0, 1));
  EXPECT_EQ(rule.on(plan_of(2, {0})), (rule_effects{answer(0, 1, 20, 1, 2)}));
}

TEST(Ssp, JoinerBeginsAtTheClockOfTheSlowest) {
  ssp rule{1};
  rule.on(plan_of(1, {0, 1}));
  for (std::uint64_t clock = 1; clock <= 5; ++clock) {
    rule.on(lone_push(0, clock));
    rule.on(lone_push(1, clock));
  }
  EXPECT_EQ(answered(rule.on(plan_of(2, {0, 1, 2}))), (std::vector{w(2)}));
  EXPECT_EQ(answered(rule.on(lone_push(0, 6))), (std::vector{w(0)})) << "6 - 5";
  EXPECT_EQ(answered(rule.on(lone_push(0, 7))), std::vector<worker_id>{}) << "7 - 5";
}

/// Plays random pushes, deaths, comebacks and joins; counts clocks on its own and looks at each answer.
void play_ssp(std::uint64_t bound, std::uint64_t seed) {
  SCOPED_TRACE(testing::Message() << "bound " << bound << ", seed " << seed);
  ssp rule{bound};
  random_stream random{seed};
  plan newest = plan_of(0, {0, 1, 2, 3});
  std::map<member, std::uint64_t> clocks, pushes;
  std::set<member> computing;
  const auto slowest = [&clocks] {
    std::uint64_t out = std::numeric_limits<std::uint64_t>::max();
    for (const auto& [who, clock] : clocks)
      out = std::min(out, clock);
    return clocks.empty() ? 0 : out;
  };
  const auto hear = [&](const rule_effects& effects) {
    for (const send_params& each : all<send_params>(effects))
      for (const worker_id to : each.to) {
        const member who = newest.workers.at(static_cast<std::size_t>(newest.rank_of(to)));
        EXPECT_LE(clocks.at(who) - slowest(), bound) << "worker " << to.value;
        EXPECT_TRUE(computing.insert(who).second) << "worker " << to.value << " computes already";
      }
    for (const auto& [who, clock] : clocks)
      if (!computing.contains(who)) {
        EXPECT_GT(clock - slowest(), bound) << "worker " << who.worker.value << " waits for nothing";
      }
  };
  const auto announce = [&] {
    ++newest.epoch.value;
    const std::uint64_t begin = slowest();
    for (const member& who : newest.workers)
      clocks.try_emplace(who, begin);
    hear(rule.on(newest));
  };
  announce();
  for (int i = 0; i < 300 && !testing::Test::HasFailure(); ++i) {
    if (newest.workers.size() > 1 && random.hit(0.03)) {
      const auto at = newest.workers.begin() + static_cast<std::ptrdiff_t>(random.below(newest.workers.size()));
      const member gone = *at;
      newest.workers.erase(at);
      clocks.erase(gone);
      computing.erase(gone);
      hear(rule.on(worker_down{gone.worker, gone.incarnation}));
      announce();
    } else if (random.hit(0.03)) {
      const worker_id back{static_cast<std::uint32_t>(random.below(6))};
      if (newest.rank_of(back) >= 0)
        continue;
      newest.workers.push_back({back, {newest.epoch.value}});
      std::ranges::sort(newest.workers);
      announce();
    } else {
      // A few are much faster than the others.
      auto at = computing.begin();
      std::advance(at, random.below(random.hit(0.7) ? 1 : computing.size()));
      const member from = *at;
      computing.erase(at);
      ++clocks[from];
      push next{.epoch = newest.epoch, .id = {from.worker, from.incarnation, {++pushes[from]}}, .gradient = t(1), .samples = 10};
      next.finite = !random.hit(0.1);
      hear(rule.on(next));
    }
    ASSERT_FALSE(computing.empty()) << "nobody can go on";
  }
}

TEST(Ssp, BoundIsNeverBrokenWhoeverDiesOrComes) {
  for (std::uint64_t seed = 1; seed <= 40 && !HasFailure(); ++seed)
    for (const std::uint64_t bound : {0u, 1u, 4u})
      play_ssp(bound, seed);
}

// -- delay compensation

TEST(DcAsync, PushIsCompensatedWithWhatItsWorkerWasSentLast) {
  dc_async rule{0.04, false};
  EXPECT_EQ(rule.on(plan_of(1, {0, 1})), (rule_effects{retain{t(1)}, answer(0, 0, 0, 0), retain{t(2)}, answer(1, 0, 10, 0)}));
  const rule_effects first = rule.on(lone_push(1));
  EXPECT_EQ(only<apply>(first).compensate, (delay_compensation{0.04, false, t(2)}));
  EXPECT_DOUBLE_EQ(only<apply>(first).step.lr_scale, 0.5);
  // The old backup goes once it has been used, the new one is what is sent: after the step.
  ASSERT_EQ(first.size(), 5u);
  EXPECT_TRUE(std::holds_alternative<apply>(first[0]));
  EXPECT_EQ(first[2], (rule_effect{release{t(2)}}));
  EXPECT_EQ(first[3], (rule_effect{retain{t(3)}}));
  EXPECT_EQ(first[4], (rule_effect{answer(1, 1, 20, 1)}));
  EXPECT_EQ(only<apply>(rule.on(lone_push(1, 2))).compensate.backup, t(3));
  EXPECT_EQ(only<apply>(rule.on(lone_push(0))).compensate.backup, t(1)) << "one for each worker, not one for all";
}

/// f(w) = 2 w^2, whose gradient is 4 w. Where lambda g g is the curvature, 4, the compensated gradient is that at the parameters
/// that it is applied to, however late it comes; without, it is that at those that were sent.
TEST(DcAsync, GradientOfAQuadraticIsCompensatedWhole) {
  dc_async rule{0.25, false}; // lambda g g = 4 at g = 4: at w = 1
  double w = 1;
  std::map<ticket, double> kept;
  std::vector<double> used;
  const auto perform = [&](const rule_effects& effects) {
    for (const rule_effect& effect : effects) {
      if (const auto* step = std::get_if<apply>(&effect)) {
        const double g = 4; // both were computed at w = 1
        used.push_back(g + step->compensate.lambda * g * g * (w - kept.at(step->compensate.backup)));
        w -= 0.1 * step->step.lr_scale * used.back();
      } else if (const auto* keep = std::get_if<retain>(&effect)) {
        kept[keep->as] = w;
      }
    }
  };
  perform(rule.on(plan_of(1, {0, 1})));
  perform(rule.on(lone_push(0)));
  EXPECT_DOUBLE_EQ(w, 0.8) << "1 - 0.1 * 1/2 * 4: in time";
  perform(rule.on(lone_push(1)));
  EXPECT_DOUBLE_EQ(used.back(), 3.2) << "4 * 0.8: one version late";
  EXPECT_DOUBLE_EQ(w, 0.64);
}

TEST(DcAsync, AdaptiveLambdaTravels) {
  dc_async rule{2, true};
  rule.on(plan_of(1, {0}));
  EXPECT_EQ(only<apply>(rule.on(lone_push(0))).compensate, (delay_compensation{2, true, t(1)}));
}

TEST(DcAsync, EveryBackupThatIsRetainedIsReleased) {
  dc_async rule{0.04, true};
  std::set<ticket> kept;
  const auto hear = [&kept](const rule_effects& effects) {
    for (const rule_effect& each : effects) {
      if (const auto* keep = std::get_if<retain>(&each)) {
        EXPECT_TRUE(kept.insert(keep->as).second) << "a ticket given twice";
      } else if (const auto* gone = std::get_if<release>(&each)) {
        EXPECT_EQ(kept.erase(gone->tensor), 1u) << "a ticket that nobody keeps";
      } else if (const auto* step = std::get_if<apply>(&each)) {
        EXPECT_TRUE(kept.contains(step->compensate.backup));
      }
    }
  };
  hear(rule.on(plan_of(1, {0, 1, 2})));
  EXPECT_EQ(kept.size(), 3u);
  for (std::uint64_t clock = 1; clock < 5; ++clock)
    hear(rule.on(lone_push(0, clock)));
  push wild = lone_push(1);
  wild.finite = false;
  hear(rule.on(wild));
  EXPECT_EQ(kept.size(), 3u) << "one for each, whatever came";
  hear(rule.on(worker_down{w(1), {}}));
  EXPECT_EQ(kept.size(), 2u);
  plan back = plan_of(2, {0, 1, 3});
  back.workers[1].incarnation = {1};
  hear(rule.on(back));
  EXPECT_EQ(kept.size(), 3u) << "worker 2 left, two came";
  for (const auto& [worker, incarnation] : {std::pair{0u, 0u}, {1u, 1u}, {3u, 0u}})
    hear(rule.on(worker_down{w(worker), {incarnation}}));
  EXPECT_TRUE(kept.empty());
  hear(rule.on(worker_down{w(0), {}}));
}

} // namespace
} // namespace troupe::protocols
