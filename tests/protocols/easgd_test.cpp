// SPDX-License-Identifier: BSD-3-Clause
// Elastic averaging SGD: both halves of an exchange, worked by hand.
#include "protocols/easgd.hpp"

#include <gtest/gtest.h>

#include "tests/protocols/making.hpp"

namespace troupe::protocols {
namespace {

/// The `clock`-th push of life 0, ticket 100 clock + worker.
push push_from(std::uint32_t worker, std::uint64_t clock = 1, nanoseconds at = 0) {
  return {.epoch = e(1), .id = {w(worker), {}, {clock}}, .gradient = t(100 * clock + worker), .samples = 10, .at = at};
}

send_params answer(std::uint32_t to, std::uint64_t ver, std::uint64_t position, std::uint64_t answers) {
  return {.to = {w(to)}, .ver = v(ver), .epoch = e(1), .position = position, .period = 1, .answers = {answers}};
}

TEST(Easgd, PusherIsSentTheCentreAsItWasBeforeItsExchange) {
  easgd rule;
  rule.on(plan_of(1, {0, 1}));
  push exchange = push_from(1, 1, 50);
  exchange.weight = 0.25;
  exchange.loss = 2;
  report made{.what = report::kind::round_closed, .ver = v(1), .worker = w(1), .loss = 2, .contributions = 1, .at = 50};
  made.timings = {{w(1), 0, 50, 10}};
  EXPECT_EQ(rule.on(exchange),
            (rule_effects{answer(1, 0, 20, 1),
                          apply{.sum = {{t(101), 0.25}},
                                .ver = v(1),
                                .epoch = e(1),
                                .workers = 2,
                                .step = {.what = step_rule::kind::linear, .parameter_weight = 0.75},
                                .samples = 10},
                          made}))
      << "c = 3/4 c + 1/4 x";
}

TEST(Easgd, CentreUsesTheWeightThatTravelledWhateverThePlan) {
  easgd rule;
  rule.on(plan_of(1, {0, 1}));
  rule.on(plan_of(2, {0, 1, 2}));
  push exchange = push_from(1);
  exchange.weight = 0.45;
  const apply step = only<apply>(rule.on(exchange));
  EXPECT_EQ(step.sum, (std::vector<term>{{t(101), 0.45}}));
  EXPECT_DOUBLE_EQ(step.step.parameter_weight, 0.55);
}

TEST(Easgd, StalenessCountsOthersExchangesOnly) {
  easgd rule;
  rule.on(plan_of(1, {0, 1}));
  EXPECT_EQ(only<report>(rule.on(push_from(0, 1))).staleness, 0u);
  EXPECT_EQ(only<report>(rule.on(push_from(1, 1))).staleness, 1u);
  EXPECT_EQ(only<report>(rule.on(push_from(0, 2))).staleness, 2u) << "it was sent version 0, before its own exchange";
}

TEST(Easgd, ReplicaThatIsNotFiniteIsDiscardedAndAnsweredWithTheCentre) {
  easgd rule;
  rule.on(plan_of(1, {0}));
  push wild = push_from(0);
  wild.finite = false;
  EXPECT_EQ(rule.on(wild),
            (rule_effects{discard{t(100)}, report{.what = report::kind::push_not_finite}, answer(0, 0, 10, 1)}));
}

TEST(Easgd, PeriodMovesThePlaceInTheData) {
  easgd rule;
  plan three = plan_of(1, {0, 1}, 10, 45);
  three.period = 3;
  const auto first = all<send_params>(rule.on(three));
  EXPECT_EQ(first.at(0).position, 0u);
  EXPECT_EQ(first.at(0).period, 3u);
  EXPECT_EQ(first.at(1).position, 30u);
  // 10, 5 (the epoch's end), 10.
  EXPECT_EQ(only<send_params>(rule.on(push_from(0))).position, 55u);
}

params_worker easgd_worker(double beta, double momentum = 0) {
  params_worker out{{w(1), {}}, [beta, momentum](const protocol_spec&) { return std::make_unique<easgd_task>(beta, momentum); }};
  out.on(plan_of(1, {0, 1}, 10, 45));
  return out;
}

params centre(std::uint64_t key, std::uint64_t position, std::uint32_t period, std::uint64_t as, std::uint32_t epoch = 1) {
  return {.epoch = e(epoch), .ver = v(key), .key = key, .position = position, .period = period, .parameters = t(as)};
}

local_step slice_at(std::uint64_t number, std::uint64_t position, double momentum = -1) {
  return {.what = {.step = number, .position = position, .batches = 1, .cuts = 1, .parts = {{0, 1}}}, .momentum = momentum};
}

TEST(EasgdTask, BeginsAtTheCentreStepsOnItsOwnSlicesAndPushesItsReplica) {
  params_worker subject = easgd_worker(0.9);
  EXPECT_EQ(subject.on(centre(3, 30, 2, 50)), (worker_effects{adopt{v(3), t(50)}, mix{{{t(50), 1}}}, slice_at(1, 30)}));
  EXPECT_EQ(subject.on(computed{.step = 1, .samples = 10}), (worker_effects{slice_at(2, 40)}));
  const send_push sent = only<send_push>(subject.on(computed{.step = 2, .samples = 5}));
  EXPECT_EQ(sent.sum, (std::vector<term>{{own_parameters, 1}}));
  EXPECT_DOUBLE_EQ(sent.what.weight, 0.45) << "alpha = beta / n";
  EXPECT_EQ(sent.what.samples, 15);
}

TEST(EasgdTask, MovesTowardsTheCentreByTheAlphaOfItsPush) {
  params_worker subject = easgd_worker(0.8);
  subject.on(centre(1, 0, 1, 50));
  EXPECT_DOUBLE_EQ(only<send_push>(subject.on(computed{.step = 1, .samples = 10})).what.weight, 0.4);
  plan four = plan_of(2, {0, 1, 2, 3}, 10, 45);
  subject.on(four);
  // The push went with 0.4, and so goes its answer; the next one goes with 0.8 / 4.
  EXPECT_EQ(only<mix>(subject.on(centre(2, 10, 1, 51, 2))).terms, (std::vector<term>{{own_parameters, 0.6}, {t(51), 0.4}}));
  EXPECT_DOUBLE_EQ(only<send_push>(subject.on(computed{.step = 2, .samples = 10})).what.weight, 0.2);
  EXPECT_EQ(only<mix>(subject.on(centre(3, 20, 1, 52, 2))).terms, (std::vector<term>{{own_parameters, 0.8}, {t(52), 0.2}}));
}

TEST(EasgdTask, ReplicaThatDivergedBeginsAgainAtTheCentre) {
  params_worker subject = easgd_worker(0.8);
  subject.on(centre(1, 0, 1, 50));
  subject.on(computed{.step = 1, .samples = 10, .finite = false});
  EXPECT_EQ(only<mix>(subject.on(centre(2, 10, 1, 51))).terms, (std::vector<term>{{t(51), 1}}));
  subject.on(computed{.step = 2, .samples = 10});
  EXPECT_EQ(only<mix>(subject.on(centre(3, 20, 1, 52))).terms.size(), 2u) << "once";
}

TEST(EasgdTask, MomentumFormStepsWithItsOwn) {
  params_worker subject = easgd_worker(0.9, 0.99);
  EXPECT_EQ(only<local_step>(subject.on(centre(1, 0, 1, 50))), slice_at(1, 0, 0.99));
}

/// One number as the model, both halves by their own arithmetic: after every exchange both sides have moved by the same, towards
/// each other (equation 4 of the paper: x - alpha (x - c), c + alpha (x - c)).
TEST(Easgd, BothSidesMoveByTheSame) {
  easgd rule;
  params_worker worker = easgd_worker(0.8);
  double c = 1, x = 0;
  rule.on(plan_of(1, {0, 1}, 10, 45));
  worker.on(centre(1, 0, 1, 50));
  x = c;
  for (std::uint64_t clock = 1; clock < 5; ++clock) {
    x += 2; // a local step
    push sent = only<send_push>(worker.on(computed{.step = clock, .samples = 10})).what;
    sent.gradient = t(clock);
    const double before = c, pushed = x;
    const rule_effects out = rule.on(sent);
    const apply step = only<apply>(out);
    c = step.step.parameter_weight * c + step.sum.at(0).weight * pushed;
    const mix moved = only<mix>(worker.on(centre(1 + clock, 10 * clock, 1, 50)));
    x = moved.terms.at(0).weight * x + moved.terms.at(1).weight * before;
    EXPECT_DOUBLE_EQ(pushed - x, 0.4 * (pushed - before));
    EXPECT_DOUBLE_EQ(c - before, 0.4 * (pushed - before));
  }
}

} // namespace
} // namespace troupe::protocols
