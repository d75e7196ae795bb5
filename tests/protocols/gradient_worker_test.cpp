// SPDX-License-Identifier: BSD-3-Clause
// The worker that pushes one gradient per parameters.
#include "protocols/params_worker.hpp"

#include <gtest/gtest.h>

#include "tests/protocols/making.hpp"

namespace troupe::protocols {
namespace {

params_worker gradient_worker(member self) {
  return params_worker{self, [](const protocol_spec&) { return std::make_unique<gradient_task>(); }, true};
}

params params_of(std::uint64_t ver, std::uint32_t epoch = 1, std::uint64_t as = 0) {
  return {.epoch = e(epoch), .ver = v(ver), .key = ver, .position = 20 * ver, .parameters = t(as ? as : 50 + ver)};
}

push stream_of(std::uint64_t clock, std::uint64_t base, std::uint32_t epoch = 1) {
  return {.epoch = e(epoch), .id = {w(1), {}, {clock}}, .base = v(base)};
}

/// Worker 1 of workers 0, 1, 4: rank 1 of 3.
params_worker worker_1() {
  params_worker out = gradient_worker({w(1), {}});
  out.on(plan_of(1, {0, 1, 4}));
  return out;
}

TEST(GradientWorker, ParametersBringItsSliceOfTheGlobalBatch) {
  params_worker subject = worker_1();
  EXPECT_EQ(subject.on(params_of(3)),
            (worker_effects{
                adopt{v(3), t(53)},
                compute{.step = 1, .position = 60, .batches = 3, .cuts = 3, .parts = {{1, 1.0}}, .stream_as = stream_of(1, 3)}}));
}

TEST(GradientWorker, WhatIsComputedIsPushedAgainstItsBase) {
  params_worker subject = worker_1();
  subject.on(params_of(3));
  push expected = stream_of(1, 3);
  expected.gradient = t(9);
  expected.samples = 10;
  expected.loss = 0.5;
  expected.compute = 777;
  expected.finite = false;
  EXPECT_EQ(subject.on(computed{.step = 1, .gradient = t(9), .samples = 10, .loss = 0.5, .compute = 777, .finite = false}),
            (worker_effects{send_push{expected}}));
}

TEST(GradientWorker, TheLossOfAPushIsTheMeanOverTheLabelsThatCount) {
  push total;
  accumulate(total, {.samples = 10, .loss = 2});
  accumulate(total, {.samples = 40, .loss = 1, .ignored = 10});
  EXPECT_EQ(total.loss, 1.25);
  EXPECT_EQ(total.counted(), 40);
  accumulate(total, {.samples = 5, .loss = 7, .ignored = 5});
  EXPECT_EQ(total.loss, 1.25);
  EXPECT_EQ(total.samples, 55);
}

TEST(GradientWorker, ItsClockAdvancesWithEveryPush) {
  params_worker subject = worker_1();
  subject.on(params_of(0));
  subject.on(computed{.step = 1});
  EXPECT_EQ(only<compute>(subject.on(params_of(1))).step, 2u);
  EXPECT_EQ(only<send_push>(subject.on(computed{.step = 2})).push.id.clock, clock_tick{2});
}

TEST(GradientWorker, LifeOfThePushIsItsOwn) {
  params_worker subject = gradient_worker({w(0), {3}});
  plan with = plan_of(1, {0});
  with.workers[0].incarnation = {3};
  subject.on(with);
  EXPECT_EQ(only<compute>(subject.on(params_of(0))).stream_as->id.incarnation, incarnation{3});
}

TEST(GradientWorker, OldOrRepeatedParametersAreNothing) {
  params_worker subject = worker_1();
  subject.on(params_of(3));
  subject.on(computed{.step = 1});
  EXPECT_EQ(subject.on(params_of(3)), worker_effects{});
  EXPECT_EQ(subject.on(params_of(2)), worker_effects{});
}

TEST(GradientWorker, AVersionThatANewLeadSendsAgainIsNotComputedAnew) {
  params_worker subject = worker_1();
  subject.on(params_of(3));
  params again = params_of(3);
  again.key = 1000;
  EXPECT_EQ(subject.on(again), worker_effects{}) << "while it computes";
  EXPECT_EQ(subject.on(computed{.step = 1}).size(), 1U) << "its push alone";
  again.key = 1001;
  EXPECT_EQ(subject.on(again), worker_effects{}) << "once it has answered";
  EXPECT_EQ(only<compute>(subject.on(params_of(4))).step, 2U) << "the next one counts, whatever its key";
}

TEST(GradientWorker, WhereEachPushIsAnsweredTheAnswerMayBeTheVersionThatItHas) {
  params_worker subject{{w(1), {}}, [](const protocol_spec&) { return std::make_unique<gradient_task>(true); }};
  subject.on(plan_of(1, {0, 1, 4}));
  subject.on(params_of(3));
  subject.on(computed{.step = 1});
  params answer = params_of(3);
  EXPECT_EQ(subject.on(answer), worker_effects{});
  answer.key = 4;
  EXPECT_EQ(only<compute>(subject.on(answer)).step, 2U);
}

TEST(GradientWorker, SameVersionUnderANewPlanIsComputedAnew) {
  params_worker subject = worker_1();
  subject.on(params_of(3));
  subject.on(computed{.step = 1});
  subject.on(plan_of(2, {1}));
  const worker_effects out = subject.on(params_of(3, 2));
  EXPECT_EQ(only<compute>(out).cuts, 1u);
  EXPECT_EQ(only<compute>(out).parts, (std::vector<compute::part>{{0, 1.0}}));
}

TEST(GradientWorker, NewerParametersWaitForTheOpenComputation) {
  params_worker subject = worker_1();
  subject.on(params_of(3));
  EXPECT_EQ(subject.on(params_of(4)), worker_effects{});
  EXPECT_EQ(subject.on(params_of(6)), worker_effects{});
  EXPECT_EQ(subject.on(params_of(5)), worker_effects{}) << "the newest counts";
  const worker_effects out = subject.on(computed{.step = 1, .gradient = t(9)});
  EXPECT_EQ(only<send_push>(out).push.base, v(3));
  EXPECT_EQ(only<adopt>(out), (adopt{v(6), t(56)}));
  EXPECT_EQ(only<compute>(out).stream_as, stream_of(2, 6));
}

TEST(GradientWorker, ParametersAheadOfTheirPlanWaitForIt) {
  params_worker subject = worker_1();
  EXPECT_EQ(subject.on(params_of(3, 2)), worker_effects{});
  EXPECT_EQ(only<compute>(subject.on(plan_of(2, {0, 1}))).cuts, 2u);
  EXPECT_EQ(subject.on(plan_of(2, {0, 1})), worker_effects{});
}

TEST(GradientWorker, LateParametersOfAnOlderPlanDoNotReplaceThoseAheadOfTheirs) {
  params_worker subject = worker_1();
  subject.on(params_of(3, 2));
  EXPECT_EQ(subject.on(params_of(2)), worker_effects{});
  EXPECT_EQ(only<compute>(subject.on(plan_of(2, {0, 1}))).stream_as, stream_of(1, 3, 2));
}

TEST(GradientWorker, RoundKeepsThePlanItBeganWith) {
  params_worker subject = worker_1();
  subject.on(plan_of(2, {1}));
  EXPECT_EQ(only<compute>(subject.on(params_of(0, 1))).cuts, 3u);
  subject.on(computed{.step = 1});
  EXPECT_EQ(only<compute>(subject.on(params_of(1, 2))).cuts, 1u);
}

TEST(GradientWorker, PlanWithoutItAsksForNothing) {
  params_worker subject = worker_1();
  subject.on(plan_of(2, {0, 4}));
  EXPECT_EQ(subject.on(params_of(0, 2)), worker_effects{});
}

TEST(GradientWorker, PlanWithAnotherLifeOfItAsksForNothing) {
  params_worker subject = gradient_worker({w(1), {1}});
  subject.on(plan_of(1, {1}));
  EXPECT_EQ(subject.on(params_of(0)), worker_effects{});
}

TEST(GradientWorker, ParametersForItsOlderLifeDoNotHideItsOwn) {
  params_worker subject = gradient_worker({w(1), {1}});
  plan with_it = plan_of(2, {0, 1});
  with_it.workers[1].incarnation = {1};
  params own = params_of(0, 2);
  EXPECT_TRUE(subject.on(params_of(17)).empty()) << "before it has heard of any plan";
  subject.on(with_it);
  EXPECT_TRUE(subject.on(params_of(18)).empty());
  EXPECT_EQ(count<compute>(subject.on(own)), 1u);
}

TEST(GradientWorker, ComputedWithoutComputeIsNothing) {
  params_worker subject = worker_1();
  EXPECT_EQ(subject.on(computed{.step = 0}), worker_effects{});
  subject.on(params_of(0));
  EXPECT_EQ(subject.on(computed{.step = 7}), worker_effects{});
  subject.on(computed{.step = 1});
  EXPECT_EQ(subject.on(computed{.step = 1}), worker_effects{}) << "twice";
}

TEST(GradientWorker, PeersAreNothingToIt) {
  params_worker subject = worker_1();
  EXPECT_EQ(subject.on(peer_message{}), worker_effects{});
}

} // namespace
} // namespace troupe::protocols
