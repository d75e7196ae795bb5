// SPDX-License-Identifier: BSD-3-Clause
// The simulator itself: times, faults, sameness, and the quadratic's numbers, worked by hand.
#include <cmath>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "protocols/sim/null_numerics.hpp"
#include "protocols/sim/quadratic.hpp"
#include "protocols/sim/simulate.hpp"
#include "tests/protocols/simulated_job.hpp"

namespace troupe::protocols::sim {
namespace {

constexpr nanoseconds ms = 1'000'000;

std::vector<double> final_parameters(const options& job, const quadratic_options& problem) {
  struct last_evaluated final : listener {
    void heard(nanoseconds, endpoint, endpoint to, const message& msg) override {
      if (to.kind == endpoint::role::evaluator)
        ranges[std::get<params_envelope>(msg).from.value] = std::get<params_envelope>(msg).range;
    }
    std::map<std::uint32_t, tensor> ranges;
  } last;
  quadratic maths{problem};
  listener* const listeners[] = {&last};
  const result out = simulate(job, maths, listeners);
  EXPECT_FALSE(out.failed) << out.reason;
  std::vector<double> all;
  for (const auto& [shard, range] : last.ranges)
    all.insert(all.end(), elements_of(range).begin(), elements_of(range).end());
  return all;
}

quadratic_options smooth(double lr, double momentum = 0) {
  return {.curvature = {1, 0.5}, .minimum = {1, -1}, .noise = 0, .data_size = 100, .lr = lr, .momentum = momentum};
}

// -- time

// Parameters 1 ms, a step, a push 1 ms: three rounds.
TEST(Simulate, RoundTakesAStepAndTwoLatencies) {
  EXPECT_EQ(without_numerics(simulated_job("sync", 1, 3)).virtual_time, 36 * ms);
}

// With 30 ms one way, three steps of each worker are under way to the lead when the job is held.
TEST(Simulate, EveryStepOfGossipIsAGradientAlsoOneThatIsUnderWayAtTheEnd) {
  options job = simulated_job("gossip", 3, 41);
  job.inject.link.latency_ms = 30;
  const result out = without_numerics(job);
  EXPECT_GT(out.steps, 41U);
  EXPECT_EQ(out.gradients, out.steps);
}

// 1,000 bytes at 8 Mbit/s: 1 ms.
TEST(Simulate, MessageOfOneTakesItsBytesOnce) {
  options job = simulated_job("sync", 1, 3);
  job.model_bytes = 1000;
  job.inject.link.mbit = 8;
  const result out = without_numerics(job);
  EXPECT_EQ(out.virtual_time, 42 * ms);
  EXPECT_EQ(out.bytes, 6000u);
}

// 1,024 floats: their 4,096 bytes take 4.096 ms; in int8 1,024 bytes and the scales of 4 blocks take 1.04 ms.
TEST(Simulate, AnEncodedPushTakesTheBytesOfItsForm) {
  options job = simulated_job("sync", 1, 3);
  job.model_bytes = 4096;
  job.push_form = kernels::form::int8;
  job.inject.link.mbit = 8;
  const result out = without_numerics(job);
  EXPECT_EQ(out.bytes, 3 * (4096u + 1040u));
  EXPECT_EQ(out.virtual_time, 3 * (1 + 1 + 10) * ms + 3 * (4096 + 1040) * ms / 1000);
}

// The first parameters are whole; what builds on them is a code.
TEST(Simulate, EncodedParametersTakeTheBytesOfTheirFormButForTheFirst) {
  options job = simulated_job("sync", 1, 3);
  job.model_bytes = 4096;
  job.params_form = kernels::form::int8;
  job.inject.link.mbit = 8;
  const result out = without_numerics(job);
  EXPECT_EQ(out.bytes, 4096u + 2 * 1040u + 3 * 4096u);
  EXPECT_EQ(out.virtual_time, 3 * (1 + 1 + 10) * ms + (4096 + 2 * 1040 + 3 * 4096) * ms / 1000);
}

// Each worker's pushes together take what its budget allows in that time, and each is answered by all parameters.
TEST(Simulate, PushesOfABudgetTakeWhatItAllows) {
  for (const double megabits : {30.0, 60.0}) {
    options job = simulated_job("ssp", 4, 4000);
    job.model_bytes = 4 * 50 * 4096;
    job.push_form = kernels::form::sparse_bf16; // a whole push takes 435 kB
    job.job.shards = 2;
    job.budget.emplace(megabits, 32, job.push_form, 50 * 4096);
    job.inject.link.mbit = 1000;
    job.inject.stragglers.push_back({.distribution = straggler_spec::law::jitter, .spread = 0.5});
    const result out = without_numerics(job);
    const double pushed = static_cast<double>(out.bytes - out.gradients * job.model_bytes);
    EXPECT_NEAR(pushed / (4 * megabits / 8000 * static_cast<double>(out.virtual_time)), 1, 0.02) << megabits;
  }
}

// Both pushes share the server's link, both sets of parameters do: 2 ms instead of 1 each.
TEST(Simulate, HostsShareTheServersLink) {
  options job = simulated_job("sync", 2, 3);
  job.model_bytes = 1000;
  job.inject.link.mbit = 8;
  EXPECT_EQ(without_numerics(job).virtual_time, 48 * ms);
}

// Two shards send half of the model each, over links of their own.
TEST(Simulate, ShardsHaveLinksOfTheirOwn) {
  options job = simulated_job("sync", 2, 1);
  job.model_bytes = 2000;
  job.job.shards = 2;
  job.inject.link.mbit = 8;
  // From each shard two halves leave, 2 ms, and each worker takes two halves in, 2 ms at the same time; likewise the pushes. The
  // orders of shard 0 reach shard 1 a latency later.
  EXPECT_EQ(without_numerics(job).virtual_time, (1 + 2 + 1 + 10 + 2 + 1 + 1) * ms);
}

// Both get the first parameters after 2 ms and the latency. What tells the lead of a step is a trailer: the last one leaves with
// the third step of each, and takes the latency. Whoever is alone sends nobody a replica.
TEST(Simulate, WhatCarriesNoTensorTakesTheLatencyAlone) {
  options job = simulated_job("gossip", 2, 6);
  job.model_bytes = 1000;
  job.inject.link.mbit = 8;
  EXPECT_EQ(without_numerics(job).virtual_time, (2 + 1 + 3 * 10 + 1) * ms);
  job = simulated_job("gossip", 1, 3);
  job.model_bytes = 100'000; // 100 ms: ten steps
  job.inject.link.mbit = 8;
  const result alone = without_numerics(job);
  EXPECT_EQ(alone.virtual_time, (100 + 1 + 3 * 10 + 1) * ms);
  EXPECT_EQ(alone.bytes, 100'000U);
}

TEST(Simulate, ColocatedWorkersReachTheirOwnShardAtOnce) {
  options job = simulated_job("sync", 1, 3);
  job.colocated = true;
  job.model_bytes = 1000;
  job.inject.link.mbit = 8;
  const result out = without_numerics(job);
  EXPECT_EQ(out.virtual_time, 30 * ms);
  EXPECT_EQ(out.bytes, 0u);
}

// Two of four workers are beside the shard. The others share a host: their parameters take 1 ms, once, and their pushes 2.
TEST(Simulate, ParametersComeToAHostOnce) {
  options job = simulated_job("sync", 4, 3);
  job.colocated = true;
  job.nodes = 2;
  job.model_bytes = 1000;
  job.inject.link.mbit = 8;
  const result out = without_numerics(job);
  EXPECT_EQ(out.virtual_time, 3 * ((1 + 1) + 10 + (2 + 1)) * ms);
  EXPECT_EQ(out.bytes, 3U * (1000 + 2 * 1000));
  job.inject.link.mbit = 0;
  EXPECT_EQ(without_numerics(job).bytes, out.bytes);
}

// Two nodes with two workers each: parameters take 2 ms to leave the shard, once a node; within a node a push takes no time; the
// arrival and the close a latency each; two sums, 2 ms.
TEST(Simulate, WithAnAggregatorOnEachNodeAllGoesOnceANode) {
  options job = simulated_job("sync", 4, 3);
  job.protocol.fan_in = fan_in_of_nodes;
  job.blocks = {2, 2};
  job.model_bytes = 1000;
  job.inject.link.mbit = 8;
  const result out = without_numerics(job);
  EXPECT_EQ(out.virtual_time, 3 * ((2 + 1) + 10 + 1 + 1 + (2 + 1)) * ms);
  EXPECT_EQ(out.bytes, 3U * (2 * 1000 + 2 * 1000));
}

TEST(Simulate, MeasuredTimesAreDrawnInOrder) {
  options job = simulated_job("sync", 1, 3);
  job.model_bytes = 4;
  job.measured = {.compute = {{5 * ms, 7 * ms}}, .message = ms / 2, .apply = 3 * ms};
  // Two messages of 1.5 ms and a step of 5, 7, 5; the parameters of versions 1 and 2 leave 3 ms after their decision.
  EXPECT_EQ(without_numerics(job).virtual_time, 3 * 3 * ms + (5 + 7 + 5) * ms + 2 * 3 * ms);
}

TEST(Simulate, EvaluationStopsTheTrainingClock) {
  options job = simulated_job("sync", 2, 6);
  job.job.shards = 2; // so that an evaluation takes virtual time: orders and parameters travel
  const nanoseconds alone = without_numerics(job).virtual_time;
  job.job.evaluate_every_samples = 4;
  const result often = without_numerics(job);
  EXPECT_EQ(often.curve.size(), 6u);
  EXPECT_EQ(often.virtual_time, alone);
}

// Two pushes share an aggregator's link, 2 ms and the latency; the arrival and the close take a latency each, two sums at the
// shard 2 ms and one, four sets of parameters 4 ms and one.
TEST(Simulate, ATreeTakesALatencyForEachOfItsMessages) {
  options job = simulated_job("sync", 4, 3);
  job.protocol.fan_in = 2;
  job.model_bytes = 1000;
  job.inject.link.mbit = 8;
  EXPECT_EQ(without_numerics(job).virtual_time, 3 * ((4 + 1) + 10 + (2 + 1) + 1 + 1 + (2 + 1)) * ms);
}

/// Evaluated at each version, or once.
void expect_evaluations_to_take_no_time(options job) {
  SCOPED_TRACE(fmt::format("{}, fan-in {}, {} shards", job.protocol.name, job.protocol.fan_in, job.job.shards));
  job.model_bytes = 1000;
  job.inject.link = {.latency_ms = 7, .mbit = 8};
  const result once = without_numerics(job);
  job.job.evaluate_every_samples = 2;
  const result often = without_numerics(job);
  EXPECT_EQ(often.curve.size(), often.steps);
  EXPECT_EQ(often.virtual_time, once.virtual_time);
}

// Sums on their way to the held version take their time; what asks for it, and whoever goes on meanwhile, takes none.
TEST(Simulate, EvaluationsTakeNoTimeWhateverIsOnItsWay) {
  for (const std::uint32_t shards : {1U, 2U})
    for (const auto* protocol : {"sync", "local", "async", "easgd"}) {
      options job = simulated_job(protocol, 4, 6);
      job.job.shards = shards;
      expect_evaluations_to_take_no_time(job);
      if (job.protocol.name != "sync")
        continue;
      job.protocol.fan_in = 2;
      expect_evaluations_to_take_no_time(job);
      job.job.workers = 8; // two levels
      expect_evaluations_to_take_no_time(job);
    }
}

TEST(Simulate, EvaluationsOfGossipTakeNoTime) {
  options job = simulated_job("gossip", 2, 40);
  job.inject.link.latency_ms = 7;
  const nanoseconds once = without_numerics(job).virtual_time;
  job.job.evaluate_every_samples = 4;
  EXPECT_EQ(without_numerics(job).virtual_time, once);
}

TEST(Simulate, ComputingAndWaitingAddUp) {
  options job = simulated_job("sync", 2, 4);
  job.inject.stragglers = {{.worker = worker_id{1}, .factor = 3}};
  const result out = without_numerics(job);
  EXPECT_EQ(out.workers.at({0}).computing, 40 * ms);
  EXPECT_EQ(out.workers.at({1}).computing, 120 * ms);
  EXPECT_EQ(out.workers.at({0}).waiting, 3 * 22 * ms) << "the other's 20 ms longer, and two ways";
  EXPECT_EQ(out.workers.at({1}).waiting, 3 * 2 * ms);
}

/// What the workers of a gossip job send when they are asked for their replicas.
struct replicas_asked_for final : listener {
  void heard(nanoseconds, endpoint, endpoint to, const message& msg) override {
    if (const auto* replica = std::get_if<peer_envelope>(&msg); replica != nullptr && to == the_evaluator)
      sent[replica->head.from.worker.value] = {elements_of(replica->data).begin(), elements_of(replica->data).end()};
  }
  std::map<std::uint32_t, std::vector<double>> sent;
};

// A step of 0.1 towards (1, -1) with curvatures 1 and 0.5.
TEST(Simulate, GossipIsEvaluatedBetweenSteps) {
  options job = simulated_job("gossip", 2, 1);
  job.inject.stragglers = {{.worker = worker_id{1}, .factor = 1000}};
  quadratic maths{smooth(0.1)};
  replicas_asked_for replicas;
  listener* const listeners[] = {&replicas};
  EXPECT_EQ(simulate(job, maths, listeners).steps, 1U);
  EXPECT_EQ(replicas.sent[0], (std::vector{0.1, -0.05}));
  EXPECT_EQ(replicas.sent[1], (std::vector{0.0, 0.0})) << "its step has hardly begun";
}

// The news of the first step comes after 25 ms, when everybody has made two more, of 2 samples each.
TEST(Simulate, StepsThatTheLeadHasNotHeardOfCountWithWhatTheyAreIn) {
  options job = simulated_job("gossip", 2, 1);
  job.inject.link.latency_ms = 25;
  const result out = without_numerics(job);
  EXPECT_EQ(out.virtual_time, (25 + 10 + 25) * ms);
  EXPECT_EQ(out.steps, 6U);
  EXPECT_EQ(out.samples, 12U);
  EXPECT_EQ(out.curve.back().ver.value, 6U);
  EXPECT_EQ(out.curve.back().samples, 12U);
}

// -- what would not end

TEST(Simulate, JobThatEndsByTimeAloneIsGivenUpWhereStepsTakeNone) {
  options job = simulated_job("deadline", 2, 0);
  job.job.stop.seconds = 0.05;
  job.inject.step_ms = 1e-9;
  job.inject.link = {};
  job.max_events_at_rest = 1'000;
  const result out = without_numerics(job);
  EXPECT_TRUE(out.stalled);
  EXPECT_THAT(out.reason, testing::HasSubstr("virtual time stands still at 0 s: steps take no time"));
}

TEST(Simulate, StepsThatTakeNoTimeAreEndlessBesideALinkThatDoes) {
  options job = simulated_job("gossip", 2, 3);
  job.inject.step_ms = 1e-300;
  job.inject.link.latency_ms = 1e6;
  job.stall_after = 0;
  job.max_events_at_rest = 1'000;
  EXPECT_THAT(without_numerics(job).reason, testing::HasSubstr("virtual time stands still"));
}

TEST(Simulate, JobThatEndsByItsStepsMayTakeNoTime) {
  options job = simulated_job("sync", 2, 1'000);
  job.inject.step_ms = 0;
  job.inject.link = {};
  job.max_events_at_rest = 1'000;
  const result out = without_numerics(job);
  EXPECT_FALSE(out.stalled) << out.reason;
  EXPECT_EQ(out.steps, 1'000u);
}

TEST(Simulate, TimesThatNoNanosecondsHoldEndWithASentence) {
  options job = simulated_job("sync", 2, 100);
  job.inject.link = {.latency_ms = 5e299, .mbit = 1};
  job.stall_after = 0;
  job.inject.faults = {{.type = fault_spec::kind::reorder, .prob = 0.999}};
  const result out = without_numerics(job);
  EXPECT_TRUE(out.stalled);
  EXPECT_THAT(out.reason, testing::HasSubstr("no job lasts"));
}

// -- faults

TEST(Simulate, PausedWorkerGoesOnWhereItWas) {
  options job = simulated_job("sync", 2, 3);
  job.inject.faults = {{.type = fault_spec::kind::pause, .worker = {1}, .at_s = 0.006, .for_s = 0.1}};
  EXPECT_EQ(without_numerics(job).virtual_time, 136 * ms);
}

// Its push of the first round arrives when the partition ends, at 50 ms.
TEST(Simulate, WhatWasSentInAPartitionArrivesAfterwards) {
  options job = simulated_job("sync", 2, 3);
  job.inject.faults = {{.type = fault_spec::kind::partition, .worker = {1}, .at_s = 0.005, .for_s = 0.045}};
  const result out = without_numerics(job);
  EXPECT_EQ(out.virtual_time, (50 + 24) * ms);
  EXPECT_EQ(out.discarded, 0u);
}

TEST(Simulate, WorkerThatComesBackIsANewLife) {
  options job = simulated_job("sync", 2, 10);
  job.inject.faults = {{.type = fault_spec::kind::crash, .worker = {1}, .at_s = 0.03, .back_after_s = 0.03}};
  const result out = without_numerics(job);
  EXPECT_FALSE(out.failed) << out.reason;
  ASSERT_EQ(out.notes.size(), 2u);
  EXPECT_EQ(out.notes[1], "0.060 s: worker 1'1 joins");
}

TEST(Simulate, IsInterruptedBetweenTwoEvents) {
  options job = simulated_job("sync", 1, 3);
  std::uint64_t asked = 0;
  job.interrupted = [&asked] { return asked++ == 5; };
  const result out = without_numerics(job);
  EXPECT_TRUE(out.interrupted);
  EXPECT_FALSE(out.failed);
  EXPECT_EQ(asked, 6u);
  EXPECT_LT(out.steps, 3u);
}

TEST(Simulate, JobThatCannotGoOnSaysWhomItWaitsFor) {
  options job = simulated_job("sync", 2, 10);
  job.inject.faults = {{.type = fault_spec::kind::partition, .worker = {1}, .at_s = 0.005, .for_s = 1000}};
  job.stall_after = 100 * ms;
  const result out = without_numerics(job);
  EXPECT_TRUE(out.stalled);
  EXPECT_NE(out.reason.find("waiting for worker 1"), std::string::npos) << out.reason;
}

// -- sameness

options busy_job(const std::string& protocol) {
  options job = simulated_job(protocol, 6, 60);
  job.job.shards = 2;
  job.job.evaluate_every_samples = 100;
  job.model_bytes = 4000;
  job.inject.link.mbit = 50;
  job.inject.stragglers = {{.factor = 4, .prob = 0.25}, {.distribution = straggler_spec::law::jitter, .spread = 0.2}};
  job.inject.faults = {{.type = fault_spec::kind::crash, .worker = {2}, .at_s = 0.1, .back_after_s = 0.1},
                       {.type = fault_spec::kind::pause, .worker = {3}, .at_s = 0.2, .for_s = 0.05}};
  return job;
}

// The same number in every build: nothing in it was made by floating point.
TEST(Simulate, DigestIsTheSameOnEveryRunAndBuild) {
  const auto digest = [](const std::string& protocol, std::uint64_t seed) {
    options job = busy_job(protocol);
    job.seed = seed;
    quadratic maths{{.data_size = 100}};
    return simulate(job, maths).digest;
  };
  EXPECT_EQ(digest("sync", 1), 5294273361642316334u);
  EXPECT_EQ(digest("ssp", 1), 4040592444589885001u);
  EXPECT_EQ(digest("easgd", 1), 6169435197269193932u);
  EXPECT_EQ(digest("sync", 1), digest("sync", 1));
  EXPECT_NE(digest("sync", 1), digest("sync", 2));
}

TEST(Simulate, ListenersChangeNothing) {
  options job = busy_job("async");
  null_numerics nothing;
  listener silent;
  listener* const listeners[] = {&silent};
  EXPECT_EQ(simulate(job, nothing).digest, simulate(job, nothing, listeners).digest);
}

// -- the quadratic

// x = 0, lr 0.5: x1 = 0.5 * 1, then 0.5 + 0.5 * 0.5; with curvature 0.5 a quarter of the way each time.
TEST(Simulate, SynchronousSgdOnAQuadraticIsPlainSgd) {
  const auto x = final_parameters(simulated_job("sync", 4, 2), smooth(0.5));
  ASSERT_EQ(x.size(), 2u);
  EXPECT_DOUBLE_EQ(x[0], 0.75);
  EXPECT_DOUBLE_EQ(x[1], -(1 - 0.75 * 0.75));
}

TEST(Simulate, MomentumIsTheShards) {
  // v1 = -1, x1 = 0.5; v2 = 0.5 * -1 - 0.5 = -1, x2 = 1.
  EXPECT_DOUBLE_EQ(final_parameters(simulated_job("sync", 4, 2), smooth(0.5, 0.5)).at(0), 1.0);
}

TEST(Simulate, ShardsTogetherMakeWhatOneMakes) {
  for (const std::string protocol : {"sync", "local", "coded"}) {
    options job = simulated_job(protocol, 4, 5);
    const quadratic_options noisy{.data_size = 100, .momentum = 0.9};
    const auto one = final_parameters(job, noisy);
    job.job.shards = 3;
    EXPECT_EQ(final_parameters(job, noisy), one) << protocol;
  }
}

TEST(Simulate, LocalSgdOfOneStepBackupOfAllAndCodesAreSynchronousSgd) {
  const quadratic_options noisy{.data_size = 100};
  const auto sync = final_parameters(simulated_job("sync", 4, 6), noisy);
  options local = simulated_job("local", 4, 6);
  local.protocol.parameters["steps"] = std::int64_t{1};
  options backup = simulated_job("backup", 4, 6);
  backup.protocol.parameters["quorum"] = std::int64_t{4};
  for (const options& job : {local, backup, simulated_job("coded", 4, 6)}) {
    const auto other = final_parameters(job, noisy);
    ASSERT_EQ(other.size(), sync.size());
    for (std::size_t k = 0; k < sync.size(); ++k)
      EXPECT_NEAR(other[k], sync[k], 1e-12) << job.protocol.name;
  }
}

// Seven pushes of others come between a worker's parameters and its push.
TEST(Simulate, AsynchronousStalenessIsTheNumberOfTheOthers) {
  EXPECT_NEAR(without_numerics(simulated_job("async", 8, 4000)).staleness_mean(), 7, 0.05);
}

// Minimum of the mean of two curvatures' losses: a consensus at which the worker's data agree.
TEST(Simulate, AdmmComesToTheMinimum) {
  options job = simulated_job("admm", 4, 400);
  job.protocol.parameters["steps"] = std::int64_t{5};
  const auto x = final_parameters(job, smooth(0.2));
  EXPECT_NEAR(x.at(0), 1, 1e-3);
  EXPECT_NEAR(x.at(1), -1, 1e-3);
}

TEST(Simulate, ElasticAveragingComesToTheMinimum) {
  const auto x = final_parameters(simulated_job("easgd", 4, 400), smooth(0.2));
  EXPECT_NEAR(x.at(0), 1, 1e-3);
  EXPECT_NEAR(x.at(1), -1, 1e-3);
}

// Nine samples, of which four workers share one in every second step.
TEST(Simulate, BatchWithFewerSamplesThanWorkersMakesItsStep) {
  options job = simulated_job("sync", 4, 6);
  job.job.data_size = 9;
  quadratic_options maths = smooth(0.25);
  maths.data_size = 9;
  const auto sync = final_parameters(job, maths);
  for (const std::string protocol : {"backup", "deadline", "coded", "local", "auto"}) {
    job.protocol = {.name = protocol};
    if (protocol == "local")
      job.protocol.parameters = {{"steps", std::int64_t{1}}, {"sample_fraction", 0.25}};
    const auto other = final_parameters(job, maths);
    ASSERT_EQ(other.size(), sync.size());
    for (std::size_t k = 0; k < sync.size(); ++k)
      EXPECT_NEAR(other[k], sync[k], 1e-12) << protocol;
  }
}

} // namespace
} // namespace troupe::protocols::sim
