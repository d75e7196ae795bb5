// SPDX-License-Identifier: BSD-3-Clause
// Local SGD: sampling, closing, the worker's steps, worked by hand.
#include "protocols/local_sgd.hpp"

#include <cmath>
#include <limits>

#include <gtest/gtest.h>

#include "protocols/catalog.hpp"
#include "tests/protocols/making.hpp"

namespace troupe::protocols {
namespace {

plan plan_of_n(std::uint32_t n) {
  plan out = plan_of(1, {});
  for (std::uint32_t i = 0; i < n; ++i)
    out.workers.push_back({w(i), {}});
  return out;
}

std::set<member> members(std::initializer_list<std::uint32_t> workers) {
  std::set<member> out;
  for (const std::uint32_t worker : workers)
    out.insert({w(worker), {}});
  return out;
}

std::set<member> drawn(double fraction, std::uint32_t n, std::uint64_t base, std::uint64_t seed = 7) {
  local_sgd subject{{.sample_fraction = fraction}, seed};
  const plan with = plan_of_n(n);
  return subject.begin({.plan = with, .base = v(base)}, {with.workers.begin(), with.workers.end()});
}

TEST(LocalSgd, SampleIsCeilOfTheFractionOfTheWorkersAtLeastOne) {
  EXPECT_EQ(drawn(1, 8, 0).size(), 8u);
  EXPECT_EQ(drawn(0.5, 8, 0).size(), 4u);
  EXPECT_EQ(drawn(0.3, 8, 0).size(), 3u) << "2.4";
  EXPECT_EQ(drawn(0.01, 8, 0).size(), 1u);
  EXPECT_EQ(drawn(1e-10, 8, 0).size(), 1u) << "8e-10 is less than what absorbs the rounding";
  EXPECT_EQ(drawn(0.28, 25, 0).size(), 7u) << "0.28 * 25 is 7.000000000000001 in double";
  EXPECT_EQ(drawn(0.07, 100, 0).size(), 7u);
}

TEST(LocalSgd, SampleIsTheSameForTheSameSeedAndVersionAndAnotherForAnother) {
  std::set<std::set<member>> different;
  for (std::uint64_t round = 0; round < 20; ++round) {
    EXPECT_EQ(drawn(0.5, 8, round), drawn(0.5, 8, round));
    different.insert(drawn(0.5, 8, round));
  }
  EXPECT_GT(different.size(), 15u) << "of 70 sets of four";
  EXPECT_NE(drawn(0.5, 8, 0, 7), drawn(0.5, 8, 0, 8));
}

TEST(LocalSgd, EveryWorkerIsDrawnAsOften) {
  std::map<member, int> times;
  for (std::uint64_t round = 0; round < 4000; ++round)
    for (const member& who : drawn(0.25, 8, round))
      ++times[who];
  ASSERT_EQ(times.size(), 8u);
  // Each 1000 times in the mean, with a deviation of sqrt(4000 * 1/4 * 3/4) = 27: five of them.
  for (const auto& [who, count] : times)
    EXPECT_NEAR(count, 1000, 137) << "worker " << who.worker.value;
}

TEST(LocalSgd, TheDeadAreNotDrawnAndTheOthersStandIn) {
  local_sgd subject{{.sample_fraction = 0.5}, 7};
  const plan with = plan_of_n(8);
  EXPECT_EQ(subject.begin({.plan = with}, members({2, 3, 5, 6})), members({2, 3, 5, 6})) << "four of eight";
  EXPECT_EQ(subject.begin({.plan = with}, members({2, 5})), members({2, 5}));
}

open_round round_of_two() {
  open_round out{.plan = plan_of_n(2), .live = members({0, 1})};
  out.pushed[{w(0), {}}] = {.gradient = t(100), .samples = 10};
  return out;
}

TEST(LocalSgd, RoundClosesWhenAllHavePushedWeightedBySamples) {
  local_sgd subject{{}, 7};
  open_round round = round_of_two();
  EXPECT_FALSE(subject.close(round));
  round.pushed[{w(1), {}}] = {.gradient = t(101), .samples = 30};
  const auto how = subject.close(round);
  ASSERT_TRUE(how);
  EXPECT_EQ(how->weights, (std::map<member, double>{{{w(0), {}}, 0.25}, {{w(1), {}}, 0.75}}));
  EXPECT_EQ(how->samples, 40);
  EXPECT_EQ(how->step, (step_rule{.method = step_rule::kind::outer, .lr = 1, .momentum = 0}));
}

/// The step of a closed round under the job file's parameters.
step_rule step_of(std::map<std::string, spec_value> parameters, const char* name = "local") {
  const protocol_spec spec{.name = name, .parameters = std::move(parameters)};
  const auto rule = find_protocol(name)->make_rule(spec, 1);
  plan alone = plan_of(1, {0});
  alone.protocol = spec;
  rule->on(alone);
  return only<apply>(rule->on(push{.epoch = e(1), .id = {w(0), {}, {1}}, .gradient = t(1), .samples = 10})).step;
}

TEST(LocalSgd, OuterStepIsWhatTheJobFileSays) {
  using kind = step_rule::kind;
  EXPECT_EQ(step_of({}), (step_rule{.method = kind::outer, .lr = 1, .momentum = 0}));
  EXPECT_EQ(step_of({{"outer", "momentum"}}), (step_rule{.method = kind::outer, .lr = 1, .momentum = 0.9}));
  EXPECT_EQ(step_of({{"outer", "nesterov"}}), (step_rule{.method = kind::outer, .lr = 0.7, .momentum = 0.9, .nesterov = true}));
  EXPECT_EQ(step_of({{"outer", "nesterov"}, {"outer_lr", 0.5}, {"outer_momentum", 0.8}}),
            (step_rule{.method = kind::outer, .lr = 0.5, .momentum = 0.8, .nesterov = true}));
  EXPECT_EQ(step_of({{"outer_lr", 0.5}, {"outer_momentum", 0.8}}), (step_rule{.method = kind::outer, .lr = 0.5, .momentum = 0}))
      << "the average has no momentum";
  EXPECT_EQ(step_of({{"outer", "momentum"}}, "adacomm"), (step_rule{.method = kind::outer, .lr = 1, .momentum = 0.9}));
}

/// Worker 4 of 0, 4, 6: rank 1 of 3; data of 50 samples, global batches of 30.
params_worker worker_4(std::uint32_t epoch = 1) {
  params_worker out{{w(4), {}}, [](const protocol_spec&) { return std::make_unique<local_task>(); }};
  out.on(plan_of(epoch, {0, 4, 6}, 10, 50));
  return out;
}

local_step step_at(std::uint64_t number, std::uint64_t position) {
  return {.gradient = {.step = number, .position = position, .batches = 3, .cuts = 3, .parts = {{1, 1}}}};
}

TEST(LocalTask, StepsOverItsSliceOfEachGlobalBatchThenPushesWhatItMovedBy) {
  params_worker subject = worker_4();
  EXPECT_EQ(subject.on(params{.epoch = e(1), .ver = v(2), .key = 3, .position = 0, .period = 3, .parameters = t(50)}),
            (worker_effects{adopt{v(2), t(50)}, mix{{{t(50), 1}}}, step_at(1, 0)}));
  EXPECT_EQ(subject.on(computed{.step = 1, .samples = 10, .loss = 3, .compute = 100}), (worker_effects{step_at(2, 30)}));
  EXPECT_EQ(subject.on(computed{.step = 2, .samples = 6, .loss = 1, .compute = 100}), (worker_effects{step_at(3, 50)}))
      << "the second batch was cut short by the epoch's end";
  const push expected{.epoch = e(1), .id = {w(4), {}, {1}}, .base = v(2), .samples = 26, .loss = 56.0 / 26, .compute = 300};
  const send_push sent = only<send_push>(subject.on(computed{.step = 3, .samples = 10, .loss = 2, .compute = 100}));
  EXPECT_EQ(sent.sum, (std::vector<term>{{t(50), 1}, {own_parameters, -1}})) << "w - w_i: as a gradient points";
  EXPECT_DOUBLE_EQ(sent.push.loss, expected.loss) << "(30 + 6 + 20) / 26";
  push rest = sent.push;
  rest.loss = expected.loss;
  EXPECT_EQ(rest, expected);
}

TEST(LocalTask, NextRoundBeginsAtTheCentreAgainAndStepsAreNumberedThrough) {
  params_worker subject = worker_4();
  subject.on(params{.epoch = e(1), .ver = v(0), .key = 1, .position = 0, .period = 1, .parameters = t(50)});
  subject.on(computed{.step = 1, .samples = 10});
  EXPECT_EQ(subject.on(params{.epoch = e(1), .ver = v(1), .key = 2, .position = 30, .period = 2, .parameters = t(51)}),
            (worker_effects{adopt{v(1), t(51)}, mix{{{t(51), 1}}}, step_at(2, 30)}));
}

TEST(LocalTask, OneStepThatIsNotFiniteSpoilsThePush) {
  params_worker subject = worker_4();
  subject.on(params{.epoch = e(1), .key = 1, .period = 2, .parameters = t(50)});
  subject.on(computed{.step = 1, .samples = 10, .finite = false});
  EXPECT_FALSE(only<send_push>(subject.on(computed{.step = 2, .samples = 10})).push.finite);
  subject.on(params{.epoch = e(1), .ver = v(1), .key = 2, .period = 1, .parameters = t(51)});
  EXPECT_TRUE(only<send_push>(subject.on(computed{.step = 3, .samples = 10})).push.finite) << "of that round only";
}

TEST(LocalTask, EmptySliceSaysNothingAboutTheLoss) {
  params_worker subject = worker_4();
  subject.on(params{.epoch = e(1), .key = 1, .period = 2, .parameters = t(50)});
  subject.on(computed{.step = 1, .samples = 10, .loss = 2});
  const push sent =
      only<send_push>(subject.on(computed{.step = 2, .samples = 0, .loss = std::numeric_limits<double>::quiet_NaN()})).push;
  EXPECT_EQ(sent.loss, 2);
  EXPECT_EQ(sent.samples, 10);
}

TEST(LocalTask, RoundKeepsItsPeriodAndItsPlanWhateverComesMeanwhile) {
  params_worker subject = worker_4();
  subject.on(params{.epoch = e(1), .key = 1, .period = 2, .parameters = t(50)});
  subject.on(plan_of(2, {4}, 10, 50));
  EXPECT_EQ(subject.on(computed{.step = 1, .samples = 10}), (worker_effects{step_at(2, 30)}));
}

TEST(LocalSgd, WhoHasNoSamplesIsDrawnLast) {
  local_sgd subject{{.sample_fraction = 0.5}, 1};
  open_round round{.plan = plan_of(1, {0, 1, 2, 3}, 10, 1)}; // of one sample: worker 0's
  const std::set<member> all(round.plan.workers.begin(), round.plan.workers.end());
  for (std::uint64_t version = 0; version < 20; ++version) {
    round.base = v(version);
    const auto chosen = subject.begin(round, all);
    EXPECT_EQ(chosen.size(), 2u);
    EXPECT_TRUE(chosen.contains({w(0), {}})) << version;
  }
}

} // namespace
} // namespace troupe::protocols
