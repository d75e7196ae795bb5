// SPDX-License-Identifier: BSD-3-Clause
// Asynchronous consensus ADMM: barrier, delay, what is summed, and the worker's half, worked by hand.
#include "protocols/admm.hpp"

#include <cmath>
#include <map>

#include <gtest/gtest.h>

#include "protocols/admm_task.hpp"
#include "protocols/lead.hpp"
#include "tests/protocols/making.hpp"

namespace troupe::protocols {
namespace {

/// The push that this worker computed against that z; ticket 100 (base + 1) + worker.
push push_from(std::uint32_t worker, std::uint64_t base = 0) {
  return {
      .epoch = e(1), .id = {w(worker), {}, {base + 1}}, .base = v(base), .gradient = t(100 * (base + 1) + worker), .samples = 10};
}

send_params z_to(std::uint32_t to, std::uint64_t ver, std::uint64_t position, std::uint32_t epoch = 1) {
  return {.to = {w(to)}, .ver = v(ver), .epoch = e(epoch), .position = position, .period = 1};
}

std::vector<worker_id> answered(const rule_effects& effects) {
  std::vector<worker_id> out;
  for (const send_params& each : all<send_params>(effects))
    out.insert(out.end(), each.to.begin(), each.to.end());
  return out;
}

bool closes(const rule_effects& effects) {
  return count<apply>(effects) == 1;
}

TEST(Admm, FirstPlanSendsZToAll) {
  admm rule{{}};
  EXPECT_EQ(rule.on(plan_of(1, {0, 1})), (rule_effects{z_to(0, 0, 0), z_to(1, 0, 0)}));
  EXPECT_EQ(rule.waiting_for(), (std::vector{w(0), w(1)}));
}

TEST(Admm, RoundClosesWithTheBarriersNumberOfPushes) {
  admm rule{{.rho = 2, .l1 = 0.5, .barrier = 2}};
  rule.on(plan_of(1, {0, 1, 2}));
  push first = push_from(2), second = push_from(0);
  first.loss = 1;
  first.compute = 30;
  second.loss = 3;
  second.compute = 20;
  second.at = 70;
  EXPECT_EQ(rule.on(first), rule_effects{});
  report closed{
      .event = report::kind::round_closed, .ver = v(1), .worker = w(2), .loss = 2, .contributions = 2, .compute = 30, .at = 70};
  closed.timings = {{w(0), 20, 0, 10}, {w(2), 30, 0, 10}};
  EXPECT_EQ(rule.on(second),
            (rule_effects{apply{.sum = {{t(100), 0.5}, {t(102), 0.5}},
                                .ver = v(1),
                                .epoch = e(1),
                                .workers = 3,
                                .step = {.method = step_rule::kind::linear, .parameter_weight = 0, .threshold = 0.25},
                                .samples = 20,
                                .keep = true},
                          closed, z_to(0, 1, 30), z_to(2, 1, 30)}))
      << "z = soft(mean u, l1 / rho), for those that pushed";
  EXPECT_EQ(rule.current(), v(1));
}

TEST(Admm, BarrierIsHalfTheWorkersUpwardsUnlessGivenAndCappedAtTheLiving) {
  const auto pushes_to_close = [](std::size_t barrier) {
    admm rule{{.barrier = barrier}};
    rule.on(plan_of(1, {0, 1, 2, 3, 4}));
    std::uint32_t pushed = 0;
    while (!closes(rule.on(push_from(pushed++))))
      if (pushed == 5)
        return 0u;
    return pushed;
  };
  EXPECT_EQ(pushes_to_close(0), 3u);
  EXPECT_EQ(pushes_to_close(1), 1u);
  EXPECT_EQ(pushes_to_close(4), 4u);
  EXPECT_EQ(pushes_to_close(9), 5u);
}

TEST(Admm, NewestOfEveryWorkerStaysInTheMean) {
  admm rule{{.barrier = 1}};
  rule.on(plan_of(1, {0, 1, 2}));
  EXPECT_EQ(only<apply>(rule.on(push_from(0))).sum, (std::vector<term>{{t(100), 1}})) << "of the others nothing is known";
  EXPECT_EQ(only<apply>(rule.on(push_from(1))).sum, (std::vector<term>{{t(100), 0.5}, {t(101), 0.5}}));
  const rule_effects third = rule.on(push_from(0, 1));
  EXPECT_EQ(third.at(0), (rule_effect{discard{t(100)}})) << "replaced";
  EXPECT_EQ(only<apply>(third).sum, (std::vector<term>{{t(200), 0.5}, {t(101), 0.5}}));
  EXPECT_EQ(only<apply>(third).samples, 10) << "of what is new, each once";
  EXPECT_EQ(only<report>(third).contributions, 1u);
}

TEST(Admm, StalenessIsTheRoundsSinceTheBaseOfWhatIsNew) {
  admm rule{{.barrier = 1}};
  rule.on(plan_of(1, {0, 1}));
  EXPECT_EQ(only<report>(rule.on(push_from(0, 0))).staleness, 0u);
  EXPECT_EQ(only<report>(rule.on(push_from(0, 1))).staleness, 0u);
  EXPECT_EQ(only<report>(rule.on(push_from(1, 0))).staleness, 2u);
  EXPECT_EQ(only<report>(rule.on(push_from(0, 2))).staleness, 1u);
}

TEST(Admm, EverybodyIsInOneOfAnyTauRoundsInARow) {
  admm rule{{.barrier = 1, .delay = 3}};
  rule.on(plan_of(1, {0, 1}));
  EXPECT_TRUE(closes(rule.on(push_from(0, 0))));
  EXPECT_TRUE(closes(rule.on(push_from(0, 1))));
  EXPECT_FALSE(closes(rule.on(push_from(0, 2)))) << "two rounds have closed without worker 1: it is in the third";
  EXPECT_EQ(rule.waiting_for(), (std::vector{w(1)}));
  const rule_effects closed = rule.on(push_from(1, 0));
  EXPECT_EQ(only<apply>(closed).sum, (std::vector<term>{{t(300), 0.5}, {t(101), 0.5}}));
  EXPECT_EQ(answered(closed), (std::vector{w(0), w(1)}));
  EXPECT_TRUE(closes(rule.on(push_from(0, 3))));
  EXPECT_TRUE(closes(rule.on(push_from(0, 4))));
  EXPECT_FALSE(closes(rule.on(push_from(0, 5)))) << "counted from its last";
}

TEST(Admm, TauOfOneWaitsForEverybodyInEveryRound) {
  admm rule{{.barrier = 1, .delay = 1}};
  rule.on(plan_of(1, {0, 1}));
  for (std::uint64_t base = 0; base < 3; ++base) {
    EXPECT_FALSE(closes(rule.on(push_from(0, base))));
    EXPECT_TRUE(closes(rule.on(push_from(1, base))));
  }
}

TEST(Admm, DeathOfWhomTheRoundWaitedForClosesIt) {
  admm rule{{.barrier = 1, .delay = 1}};
  rule.on(plan_of(1, {0, 1}));
  rule.on(push_from(0, 0));
  EXPECT_TRUE(closes(rule.on(worker_down{w(1), {}})));
}

TEST(Admm, PushOfTheDeadLeavesTheMean) {
  admm rule{{.barrier = 1}};
  rule.on(plan_of(1, {0, 1}));
  rule.on(push_from(1));
  EXPECT_EQ(rule.on(worker_down{w(1), {}}), (rule_effects{discard{t(101)}}));
  EXPECT_EQ(only<apply>(rule.on(push_from(0))).sum, (std::vector<term>{{t(100), 1}}));
  EXPECT_EQ(rule.on(worker_down{w(1), {}}), rule_effects{});
  EXPECT_EQ(rule.on(worker_down{w(0), {}}), (rule_effects{discard{t(100)}})) << "and no round of nobody";
}

TEST(Admm, PlanDropsWhoIsNotInItAndSendsZToWhoIsNew) {
  admm rule{{.barrier = 1}};
  rule.on(plan_of(1, {0, 1}));
  rule.on(push_from(1));
  EXPECT_EQ(rule.on(plan_of(2, {0, 2})), (rule_effects{discard{t(101)}, z_to(2, 1, 0, 2)}));
  EXPECT_EQ(rule.on(plan_of(2, {0})), rule_effects{}) << "an epoch that is known";
}

TEST(Admm, PlaceInTheDataIsEachWorkersOwn) {
  admm rule{{.barrier = 1}};
  plan two = plan_of(1, {0, 1}, 10, 50);
  two.period = 3;
  rule.on(two);
  // Three batches of 20, 20 and 10 that were asked for at first.
  EXPECT_EQ(only<send_params>(rule.on(push_from(0, 0))).position, 50u);
  EXPECT_EQ(only<send_params>(rule.on(push_from(0, 1))).position, 100u);
  EXPECT_EQ(only<send_params>(rule.on(push_from(1, 0))).position, 50u);
  EXPECT_EQ(only<send_params>(rule.on(push_from(1, 3))).period, 3u);
}

// Each begins again with what it was sent last: z may have its answer to what came before.
TEST(Admm, AJobThatGoesOnBeginsWhereEachWorkerWas) {
  admm first{{.barrier = 1}}, second{{.barrier = 1}};
  plan two = plan_of(1, {0, 1}, 10, 50);
  two.period = 3;
  first.on(two);
  first.on(push_from(0, 0));
  first.on(push_from(0, 1));
  lead_state whole;
  whole.rule = first.state();
  second.restore(at_rest(whole).rule);
  second.check();
  EXPECT_EQ(second.current(), v(2));
  two.workers.push_back({w(2), {}});
  std::map<worker_id, std::uint64_t> begins;
  for (const auto& sending : all<send_params>(second.on(two)))
    begins[sending.to.front()] = sending.position;
  EXPECT_EQ(begins, (std::map<worker_id, std::uint64_t>{{w(0), 100}, {w(1), 0}, {w(2), 0}}));
  second.check();
}

TEST(Admm, PushThatIsNotFiniteCountsAsComeAndTheLastSoundOneStays) {
  admm rule{{.barrier = 1}};
  rule.on(plan_of(1, {0, 1}));
  rule.on(push_from(0));
  push wild = push_from(0, 1);
  wild.finite = false;
  const rule_effects closed = rule.on(wild);
  EXPECT_EQ(closed.at(0), (rule_effect{discard{t(200)}}));
  EXPECT_EQ(closed.at(1), (rule_effect{report{.event = report::kind::push_not_finite, .ver = v(1)}}));
  EXPECT_EQ(only<apply>(closed).sum, (std::vector<term>{{t(100), 1}}));
  EXPECT_EQ(only<apply>(closed).samples, 0) << "nothing new";
  EXPECT_EQ(only<send_params>(closed), z_to(0, 2, 40));
  EXPECT_EQ(only<apply>(rule.on(push_from(1))).sum, (std::vector<term>{{t(100), 0.5}, {t(101), 0.5}}));
}

TEST(Admm, WorkerWhosePushesAreNeverFiniteDoesNotHoldTheOthersUp) {
  admm rule{{.barrier = 2, .delay = 1}};
  rule.on(plan_of(1, {0, 1}));
  for (std::uint64_t base = 0; base < 5; ++base) {
    push wild = push_from(1, base);
    wild.finite = false;
    EXPECT_FALSE(closes(rule.on(wild)));
    const rule_effects closed = rule.on(push_from(0, base));
    EXPECT_EQ(only<apply>(closed).sum, (std::vector<term>{{t(100 * (base + 1)), 1}}));
    EXPECT_EQ(all<report>(closed).back().contributions, 1u);
  }
}

TEST(Admm, EmptyPushCountsAsCome) {
  admm rule{{.barrier = 2}};
  rule.on(plan_of(1, {0, 1}));
  push empty = push_from(0);
  empty.samples = 0;
  EXPECT_EQ(rule.on(empty), (rule_effects{discard{t(100)}}));
  EXPECT_EQ(only<apply>(rule.on(push_from(1))).sum, (std::vector<term>{{t(101), 1}}));
}

TEST(Admm, EmptyPushIsNoneOfTheBarriers) {
  admm rule{{.barrier = 1}};
  rule.on(plan_of(1, {0, 1, 2}));
  push empty = push_from(0);
  empty.samples = 0;
  EXPECT_FALSE(closes(rule.on(empty)));
  EXPECT_EQ(only<apply>(rule.on(push_from(1))).sum, (std::vector<term>{{t(101), 1}}));
}

TEST(Admm, WhatIsForeignRepeatedOrFromTheFutureIsRefusedWithItsReason) {
  admm rule{{.barrier = 2}};
  rule.on(plan_of(1, {0, 1}));
  report why{.event = report::kind::push_refused, .worker = w(5)};
  why.text = "its worker takes no part";
  EXPECT_EQ(rule.on(push_from(5)), (rule_effects{discard{t(105)}, why}));
  rule.on(push_from(0));
  push again = push_from(0);
  again.gradient = t(7);
  why.worker = w(0);
  why.text = "its worker has pushed already and was not answered yet";
  EXPECT_EQ(rule.on(again), (rule_effects{discard{t(7)}, why}));
  why = {.event = report::kind::push_refused, .ver = v(9), .worker = w(1)};
  why.text = "it is from the future";
  EXPECT_EQ(rule.on(push_from(1, 9)), (rule_effects{discard{t(1001)}, why, z_to(1, 0, 20)})) << "told where the job is";
}

TEST(Admm, EveryPushThatIsKeptIsDiscardedOnce) {
  admm rule{{.barrier = 2, .delay = 3}};
  std::multiset<ticket> discarded;
  const auto hear = [&discarded](const rule_effects& effects) {
    for (const discard& each : all<discard>(effects))
      discarded.insert(each.tensor);
  };
  rule.on(plan_of(1, {0, 1, 2}));
  std::set<ticket> pushed;
  for (std::uint64_t base = 0; base < 6; ++base)
    for (std::uint32_t worker = 0; worker < (base % 3 == 2 ? 3 : 2); ++worker) {
      const push next = push_from(worker, base);
      pushed.insert(next.gradient);
      hear(rule.on(next));
    }
  for (std::uint32_t worker = 0; worker < 3; ++worker)
    hear(rule.on(worker_down{w(worker), {}}));
  EXPECT_EQ(discarded, (std::multiset<ticket>{pushed.begin(), pushed.end()}));
}

// -- the worker's half

/// Worker 3 of 0 and 3: rank 1 of 2.
params_worker worker_3(double rho) {
  params_worker out{{w(3), {}}, [rho](const protocol_spec&) { return std::make_unique<admm_task>(rho); }};
  out.on(plan_of(1, {0, 3}, 10, 50));
  return out;
}

params z(std::uint64_t key, std::uint64_t position, std::uint32_t period) {
  return {.epoch = e(1), .ver = v(key), .key = key, .position = position, .period = period, .parameters = t(50 + key)};
}

local_step step_at(std::uint64_t number, std::uint64_t position, double rho) {
  return {
      .gradient = {.step = number, .position = position, .batches = 2, .cuts = 2, .parts = {{1, 1}}}, .proximal = rho, .dual = 1};
}

TEST(AdmmTask, StepsOnTheAugmentedLagrangianThenTheDualStepThenThePush) {
  params_worker subject = worker_3(4);
  EXPECT_EQ(subject.on(z(1, 0, 2)), (worker_effects{adopt{v(1), t(51)}, mix{{{t(51), 1}}}, step_at(1, 0, 4)}));
  EXPECT_EQ(subject.on(computed{.step = 1, .samples = 10, .loss = 1}), (worker_effects{step_at(2, 20, 4)}));
  const worker_effects out = subject.on(computed{.step = 2, .samples = 10, .loss = 3});
  push expected{.epoch = e(1), .id = {w(3), {}, {1}}, .base = v(1), .samples = 20, .loss = 2};
  EXPECT_EQ(out, (worker_effects{dual{4}, send_push{expected, {{own_parameters, 1}, {dual_variable, 0.25}}}})) << "x + l / rho";
}

TEST(AdmmTask, ItsOwnParametersGoOnFromWhereTheyWere) {
  params_worker subject = worker_3(4);
  subject.on(z(1, 0, 1));
  subject.on(computed{.step = 1, .samples = 10});
  EXPECT_EQ(subject.on(z(2, 20, 1)), (worker_effects{adopt{v(2), t(52)}, step_at(2, 20, 4)}));
}

// From a checkpoint, as its own parameters and dual variable are.
TEST(AdmmTask, WhoseReplicaIsThereGoesOnFromThat) {
  params_worker subject = worker_3(4);
  subject.goes_on({.samples = 100, .has_replica = true});
  EXPECT_EQ(subject.on(z(1, 0, 1)), (worker_effects{adopt{v(1), t(51)}, step_at(1, 0, 4)}));
  plan other = plan_of(2, {1, 3});
  other.protocol.parameters["rho"] = 5.0;
  subject.on(computed{.step = 1, .samples = 10});
  subject.on(other);
  params next = z(2, 20, 1);
  next.epoch = e(2);
  EXPECT_EQ(count<mix>(subject.on(next)), 1u) << "a task of other parameters begins at z";
  params_worker joiner = worker_3(4);
  joiner.goes_on({.samples = 100});
  EXPECT_EQ(count<mix>(joiner.on(z(1, 0, 1))), 1u);
}

TEST(AdmmTask, ReplicaThatDivergedLeavesItsDualAloneAndBeginsAgainAtZ) {
  params_worker subject = worker_3(4);
  subject.on(z(1, 0, 1));
  const worker_effects out = subject.on(computed{.step = 1, .samples = 10, .finite = false});
  EXPECT_EQ(count<dual>(out), 0u);
  EXPECT_FALSE(only<send_push>(out).push.finite);
  EXPECT_EQ(only<mix>(subject.on(z(2, 20, 1))).terms, (std::vector<term>{{t(52), 1}}));
  subject.on(computed{.step = 2, .samples = 10});
  EXPECT_EQ(count<mix>(subject.on(z(3, 40, 1))), 0u);
}

/// Both halves on one number: f_i(x) = (x - a_i)^2 / 2, whose argmin the worker takes exactly. The optimum of
/// mean_i f_i(x) + l1 |x| is soft(mean a, l1).
double optimum_by_admm(const std::vector<double>& a, double rho, double l1, std::size_t barrier, std::uint64_t delay) {
  admm rule{{.rho = rho, .l1 = l1, .barrier = barrier, .delay = delay}};
  plan all_of{.epoch = e(1), .batch = 1, .data_size = 1000};
  for (std::uint32_t i = 0; i < a.size(); ++i)
    all_of.workers.push_back({w(i), {}});
  std::map<ticket, double> kept;
  std::vector<double> x(a.size()), l(a.size()), anchor(a.size());
  std::vector<std::uint64_t> base(a.size()), clock(a.size());
  std::set<std::uint32_t> computing;
  double centre = 0;
  const auto perform = [&](const rule_effects& effects) {
    for (const rule_effect& effect : effects) {
      if (const auto* step = std::get_if<apply>(&effect)) {
        double mean = 0;
        for (const term& part : step->sum)
          mean += part.weight * kept.at(part.tensor);
        centre = std::copysign(std::max(std::abs(mean) - step->step.threshold, 0.0), mean);
      } else if (const auto* gone = std::get_if<discard>(&effect)) {
        kept.erase(gone->tensor);
      } else if (const auto* send = std::get_if<send_params>(&effect)) {
        const std::uint32_t to = send->to.at(0).value;
        anchor[to] = centre;
        base[to] = send->ver.value;
        computing.insert(to);
      }
    }
  };
  perform(rule.on(all_of));
  for (std::uint64_t turn = 0; turn < 4000; ++turn) {
    // Worker 0 is the slowest: it is heard only where nobody else can go on, or every tenth time.
    const std::uint32_t who = turn % 10 == 0 ? *computing.begin() : *computing.rbegin();
    computing.erase(who);
    x[who] = (a[who] - l[who] + rho * anchor[who]) / (1 + rho);
    l[who] += rho * (x[who] - anchor[who]);
    push next{.epoch = e(1), .id = {w(who), {}, {++clock[who]}}, .base = v(base[who]), .gradient = t(turn + 1), .samples = 1};
    kept[next.gradient] = x[who] + l[who] / rho;
    perform(rule.on(next));
  }
  return centre;
}

TEST(Admm, AsynchronousRoundsReachTheOptimumOfASeparableProblem) {
  const std::vector<double> a{4, 1, -2, 3}; // mean 1.5
  EXPECT_NEAR(optimum_by_admm(a, 1, 0, 4, 8), 1.5, 1e-9);
  EXPECT_NEAR(optimum_by_admm(a, 1, 0.5, 4, 8), 1.0, 1e-9) << "soft(1.5, 0.5)";
  EXPECT_NEAR(optimum_by_admm(a, 1, 2, 4, 8), 0, 1e-9) << "soft(1.5, 2)";
  EXPECT_NEAR(optimum_by_admm(a, 2, 0.5, 1, 8), 1.0, 1e-6) << "barrier 1: worker 0 is up to eight rounds old";
  EXPECT_NEAR(optimum_by_admm(a, 2, 0.5, 2, 3), 1.0, 1e-6);
}

} // namespace
} // namespace troupe::protocols
