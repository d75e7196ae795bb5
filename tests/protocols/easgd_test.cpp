// SPDX-License-Identifier: BSD-3-Clause
// Elastic averaging SGD: both halves of an exchange, worked by hand.
#include "protocols/easgd.hpp"

#include <cmath>

#include <gtest/gtest.h>

#include "protocols/sim/quadratic.hpp"
#include "tests/protocols/lone_pushes.hpp"
#include "tests/protocols/simulated_job.hpp"

namespace troupe::protocols {
namespace {

/// The `clock`-th push of incarnation 0, ticket 100 clock + worker.
TEST(Easgd, PusherIsSentTheCentreAsItWasBeforeItsExchange) {
  easgd rule;
  rule.on(plan_of(1, {0, 1}));
  push exchange = lone_push(1, 1, 50);
  exchange.weight = 0.25;
  exchange.loss = 2;
  report made{.event = report::kind::round_closed, .ver = v(1), .worker = w(1), .loss = 2, .contributions = 1, .at = 50};
  made.timings = {{w(1), 0, 50, 10}};
  EXPECT_EQ(rule.on(exchange), (rule_effects{answer(1, 0, 40, 1),
                                             apply{.sum = {{t(101), 0.25}},
                                                   .ver = v(1),
                                                   .epoch = e(1),
                                                   .workers = 2,
                                                   .step = {.method = step_rule::kind::linear, .parameter_weight = 0.75},
                                                   .samples = 10},
                                             made}))
      << "c = 3/4 c + 1/4 x";
}

TEST(Easgd, CentreUsesTheWeightThatTravelledWhateverThePlan) {
  easgd rule;
  rule.on(plan_of(1, {0, 1}));
  rule.on(plan_of(2, {0, 1, 2}));
  push exchange = lone_push(1);
  exchange.weight = 0.45;
  const apply step = only<apply>(rule.on(exchange));
  EXPECT_EQ(step.sum, (std::vector<term>{{t(101), 0.45}}));
  EXPECT_DOUBLE_EQ(step.step.parameter_weight, 0.55);
}

TEST(Easgd, StalenessCountsOthersExchangesOnly) {
  easgd rule;
  rule.on(plan_of(1, {0, 1}));
  EXPECT_EQ(only<report>(rule.on(lone_push(0, 1))).staleness, 0u);
  EXPECT_EQ(only<report>(rule.on(lone_push(1, 1))).staleness, 1u);
  EXPECT_EQ(only<report>(rule.on(lone_push(0, 2))).staleness, 2u) << "it was sent version 0, before its own exchange";
}

TEST(Easgd, ReplicaThatIsNotFiniteIsDiscardedAndAnsweredWithTheCentre) {
  easgd rule;
  rule.on(plan_of(1, {0}));
  push wild = lone_push(0);
  wild.finite = false;
  EXPECT_EQ(rule.on(wild), (rule_effects{discard{t(100)}, report{.event = report::kind::push_not_finite}, answer(0, 0, 20, 1)}));
}

TEST(Easgd, WorkerIsHandedOneSliceMoreAtFirstForTheStepWithItsExchange) {
  easgd rule;
  plan two = plan_of(1, {0, 1}, 10, 45);
  two.period = 2;
  const auto first = all<send_params>(rule.on(two));
  EXPECT_EQ(first.at(0).position, 0u);
  EXPECT_EQ(first.at(0).period, 3u);
  EXPECT_EQ(first.at(1).position, 30u);
  EXPECT_EQ(first.at(1).period, 3u);
  // 10, 5 (the epoch's end), 10.
  const auto second = only<send_params>(rule.on(lone_push(0)));
  EXPECT_EQ(second.position, 55u);
  EXPECT_EQ(second.period, 2u);
  EXPECT_EQ(only<send_params>(rule.on(lone_push(0, 2))).position, 75u);
}

params_worker easgd_worker(double beta, double momentum = 0) {
  params_worker out{{w(1), {}}, [beta, momentum](const protocol_spec&) { return std::make_unique<easgd_task>(beta, momentum); }};
  out.on(plan_of(1, {0, 1}, 10, 45));
  return out;
}

params centre(std::uint64_t key, std::uint64_t position, std::uint32_t slices, std::uint64_t as, std::uint32_t epoch = 1) {
  return {.epoch = e(epoch), .ver = v(key), .key = key, .position = position, .period = slices, .parameters = t(as)};
}

local_step slice_at(std::uint64_t number, std::uint64_t position, double momentum = -1) {
  return {.gradient = {.step = number, .position = position, .batches = 1, .cuts = 1, .parts = {{0, 1}}}, .momentum = momentum};
}

TEST(EasgdTask, BeginsAtTheCentreAndPushesItsReplicaAsItIsBeforeTheLastStep) {
  params_worker subject = easgd_worker(0.9);
  EXPECT_EQ(subject.on(centre(3, 20, 3, 50)), (worker_effects{adopt{v(3), t(50)}, mix{{{t(50), 1}}}, slice_at(1, 20)}));
  EXPECT_EQ(subject.on(computed{.step = 1, .samples = 10}), (worker_effects{slice_at(2, 30)}));
  const worker_effects exchange = subject.on(computed{.step = 2, .samples = 10});
  ASSERT_EQ(exchange.size(), 2u);
  const send_push sent = std::get<send_push>(exchange.at(0));
  EXPECT_EQ(sent.sum, (std::vector<term>{{own_parameters, 1}}));
  EXPECT_TRUE(sent.keep);
  EXPECT_DOUBLE_EQ(sent.push.weight, 0.45) << "alpha = beta / n";
  EXPECT_EQ(sent.push.samples, 20);
  EXPECT_EQ(std::get<local_step>(exchange.at(1)), slice_at(3, 40)) << "while the push is under way";
}

TEST(EasgdTask, MovesTowardsTheCentreFromWhereItPushedOnceItsStepIsDone) {
  for (const bool centre_is_first : {false, true}) {
    params_worker subject = easgd_worker(0.8);
    subject.on(centre(1, 0, 2, 50));
    subject.on(computed{.step = 1, .samples = 10});
    worker_effects moved;
    if (centre_is_first) {
      EXPECT_EQ(subject.on(centre(2, 20, 2, 51)), worker_effects{});
      moved = subject.on(computed{.step = 2, .samples = 5});
    } else {
      EXPECT_EQ(subject.on(computed{.step = 2, .samples = 5}), worker_effects{});
      moved = subject.on(centre(2, 20, 2, 51));
    }
    EXPECT_EQ(moved, (worker_effects{adopt{v(2), t(51)}, mix{{{own_parameters, 1}, {pushed_sum, -0.4}, {t(51), 0.4}}},
                                     slice_at(3, 20)}));
    EXPECT_EQ(only<send_push>(subject.on(computed{.step = 3, .samples = 10})).push.samples, 15) << "5 during the exchange";
  }
}

TEST(EasgdTask, AnswerIsMixedByTheAlphaOfItsPush) {
  params_worker subject = easgd_worker(0.8);
  subject.on(centre(1, 0, 2, 50));
  EXPECT_DOUBLE_EQ(only<send_push>(subject.on(computed{.step = 1, .samples = 10})).push.weight, 0.4);
  subject.on(computed{.step = 2, .samples = 10});
  plan four = plan_of(2, {0, 1, 2, 3}, 10, 45);
  subject.on(four);
  // The push went with 0.4, and so goes its answer; the next one goes with 0.8 / 4. With one slice it pushes at once.
  const worker_effects next = subject.on(centre(2, 10, 1, 51, 2));
  EXPECT_EQ(only<mix>(next).terms, (std::vector<term>{{own_parameters, 1}, {pushed_sum, -0.4}, {t(51), 0.4}}));
  EXPECT_DOUBLE_EQ(only<send_push>(next).push.weight, 0.2);
  subject.on(computed{.step = 3, .samples = 10});
  EXPECT_EQ(only<mix>(subject.on(centre(3, 20, 1, 52, 2))).terms,
            (std::vector<term>{{own_parameters, 1}, {pushed_sum, -0.2}, {t(52), 0.2}}));
}

TEST(EasgdTask, ReplicaThatDivergedBeginsAgainAtTheCentre) {
  params_worker subject = easgd_worker(0.8);
  subject.on(centre(1, 0, 2, 50));
  EXPECT_FALSE(only<send_push>(subject.on(computed{.step = 1, .samples = 10, .finite = false})).push.finite);
  subject.on(computed{.step = 2, .samples = 7});
  const worker_effects again = subject.on(centre(2, 10, 1, 51));
  EXPECT_EQ(only<mix>(again).terms, (std::vector<term>{{t(51), 1}}));
  EXPECT_EQ(only<send_push>(again).push.samples, 0) << "the step during the exchange is lost";
  subject.on(computed{.step = 3, .samples = 10});
  const worker_effects next = subject.on(centre(3, 20, 1, 52));
  EXPECT_TRUE(all<mix>(next).empty()) << "it has sent no replica that could be drawn to the centre";
  EXPECT_EQ(only<send_push>(next).push.samples, 10) << "step 3";
  subject.on(computed{.step = 4, .samples = 10});
  EXPECT_EQ(only<mix>(subject.on(centre(4, 30, 1, 53))).terms.size(), 3u) << "once";
}

TEST(EasgdTask, MomentumFormStepsWithItsOwn) {
  params_worker subject = easgd_worker(0.9, 0.99);
  EXPECT_EQ(only<local_step>(subject.on(centre(1, 0, 2, 50))), slice_at(1, 0, 0.99));
}

/// A simulated job of one number, f(x) = 1/2 (x - 1)^2, without noise: how far the centre is from the minimum.
double distance_after(std::uint64_t exchanges, std::uint32_t workers, std::int64_t period, double momentum) {
  sim::options job = sim::simulated_job("easgd", workers, exchanges);
  job.protocol.parameters = {{"steps", period}, {"beta", 0.5}, {"momentum", momentum}};
  job.job.data_size = 1000;
  job.inject.link = {};
  sim::quadratic maths{{.curvature = {1}, .minimum = {1}, .noise = 0, .data_size = 1000, .lr = 0.25}};
  const sim::result out = sim::simulate(job, maths);
  EXPECT_EQ(out.steps, exchanges);
  return std::sqrt(2 * out.curve.back().found.test_loss);
}

/// The same by the paper's algorithms 1 and 2, with their letters; workers take their turns in order.
double by_the_paper(std::uint64_t exchanges, std::uint32_t workers, std::int64_t period, double delta) {
  const double eta = 0.25, alpha = 0.5 / workers;
  double centre = 0;
  std::vector<double> x(workers, 0.0), velocity(workers, 0.0);
  for (std::uint64_t t = 0, done = 0;; ++t)
    for (std::size_t i = 0; i < workers; ++i) {
      const double before = x[i];
      if (t > 0 && t % static_cast<std::uint64_t>(period) == 0) {
        x[i] -= alpha * (before - centre);
        centre += alpha * (before - centre);
        if (++done == exchanges)
          return std::abs(centre - 1);
      }
      velocity[i] = delta * velocity[i] - eta * (before + delta * velocity[i] - 1);
      x[i] += velocity[i];
    }
}

// n = 1, H = 1, eta = 1/4, alpha = 1/2: x_1 = 1/4; c_1 = 1/8, x_2 = 1/4 - 1/8 + 3/16 = 5/16; c_2 = 7/32.
TEST(Easgd, TwoExchangesByHand) {
  EXPECT_DOUBLE_EQ(distance_after(1, 1, 1, 0), 7.0 / 8);
  EXPECT_DOUBLE_EQ(distance_after(2, 1, 1, 0), 25.0 / 32);
}

TEST(Easgd, IsThePapersAlgorithm1) {
  for (const std::uint64_t exchanges : {1, 3, 10}) {
    EXPECT_NEAR(distance_after(exchanges, 1, 1, 0), by_the_paper(exchanges, 1, 1, 0), 1e-12);
    EXPECT_NEAR(distance_after(exchanges, 2, 3, 0), by_the_paper(exchanges, 2, 3, 0), 1e-12);
  }
}

TEST(Easgd, WithMomentumIsThePapersAlgorithm2) {
  for (const std::uint64_t exchanges : {1, 3, 10}) {
    EXPECT_NEAR(distance_after(exchanges, 1, 1, 0.5), by_the_paper(exchanges, 1, 1, 0.5), 1e-12);
    EXPECT_NEAR(distance_after(exchanges, 2, 3, 0.5), by_the_paper(exchanges, 2, 3, 0.5), 1e-12);
  }
}

// Parameters 5 ms, two steps of 10 ms, a push 5 ms: c is there as the third step ends. Two more steps, a push, ...
TEST(Easgd, ExchangeHidesBehindAStep) {
  sim::options job;
  job.protocol = {.name = "easgd", .parameters = {{"steps", std::int64_t{2}}}};
  job.job.workers = 1;
  job.job.batch = 2;
  job.job.data_size = 1000;
  job.job.evaluate_every_samples = 1'000'000;
  job.job.stop.steps = 3;
  job.inject.step_ms = 10;
  job.inject.link.latency_ms = 5;
  sim::null_numerics nothing;
  EXPECT_EQ(sim::simulate(job, nothing).virtual_time, 70'000'000) << "5 + 3 * 2 * 10 + 5";
}

} // namespace
} // namespace troupe::protocols
