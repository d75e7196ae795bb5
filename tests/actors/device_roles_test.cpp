// SPDX-License-Identifier: BSD-3-Clause
// Workers and shards on devices whose memory and queues are not the host's: the numbers of a run on the CPU, whatever runs when.
#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include <caf/scoped_actor.hpp>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/actors/role_cluster.hpp"

namespace troupe::actors {
namespace {

using cluster = role_cluster;

std::vector<float> trained(const arrangement& setup, std::uint64_t seed) {
  cluster run{setup, seed};
  run.train();
  EXPECT_THAT(run.hears().ends, ::testing::IsEmpty());
  return run.parameters();
}

/// On every arrangement of devices, whatever runs when, the bits of the CPU.
void expect_the_cpus_numbers(arrangement setup) {
  const auto expected = trained(setup, 0);
  ASSERT_TRUE(std::ranges::all_of(expected, [](float p) { return std::isfinite(p); }));
  struct places {
    std::string worker, shard;
    bool apart = false;
  };
  for (const auto& [worker, shard, apart] : std::vector<places>{{"cpu", "cpu"},
                                                                {"sim:0", "cpu"},
                                                                {"cpu", "sim:0"},
                                                                {"sim:0", "sim:0"},
                                                                {"sim:0", "sim:1"},
                                                                {"sim:0", "sim:1", true}}) {
    setup.worker_device = worker;
    setup.shard_device = shard;
    setup.apart = apart;
    for (std::uint64_t seed = 1; seed <= 4; ++seed)
      ASSERT_TRUE(trained(setup, seed) == expected) << setup.protocol << ", workers on " << worker << ", shards on " << shard
                                                    << (apart ? ", apart" : "") << ", seed " << seed;
  }
}

TEST(DeviceRoles, ARoundsStepIsTheCpus) {
  expect_the_cpus_numbers({});
}
TEST(DeviceRoles, SeveralShardsAndAdamw) {
  expect_the_cpus_numbers({.shards = 3, .optimizer = {.name = "adamw", .lr = 0.01}});
}
TEST(DeviceRoles, ATreeOfAggregators) {
  expect_the_cpus_numbers({.workers = 4, .shards = 2, .fan_in = 2, .versions = 6});
}
TEST(DeviceRoles, PushesInFewerBits) {
  expect_the_cpus_numbers({.shards = 2, .layers = {"flatten", "linear 16", "relu", "linear 10"}, .codec = {"onebit", true}});
  expect_the_cpus_numbers({.workers = 4, .shards = 2, .fan_in = 2, .versions = 6, .codec = {"int8", false}});
  expect_the_cpus_numbers(
      {.protocol = "local", .parameters = {{"steps", std::int64_t{3}}}, .versions = 4, .codec = {"int4", true}});
  expect_the_cpus_numbers({.protocol = "async", .workers = 1, .codec = {"fp16", false}});
}
TEST(DeviceRoles, ElasticAveragingInFewerBits) {
  expect_the_cpus_numbers(
      {.protocol = "easgd", .parameters = {{"steps", std::int64_t{3}}}, .workers = 1, .versions = 5, .codec = {"int8", false}});
}
TEST(DeviceRoles, LocalStepsStayOnTheDevice) {
  expect_the_cpus_numbers({.protocol = "local", .parameters = {{"steps", std::int64_t{3}}}, .shards = 2, .versions = 4});
}
TEST(DeviceRoles, PushesOfOneWorkerAppliedAlone) {
  expect_the_cpus_numbers({.protocol = "async", .workers = 1});
}
TEST(DeviceRoles, DelayCompensation) {
  expect_the_cpus_numbers({.protocol = "dc-async", .workers = 1, .optimizer = {.lr = 0.05}});
}
TEST(DeviceRoles, ElasticAveraging) {
  expect_the_cpus_numbers({.protocol = "easgd", .parameters = {{"steps", std::int64_t{3}}}, .workers = 1, .versions = 5});
}
TEST(DeviceRoles, ElasticAveragingWithMomentum) {
  expect_the_cpus_numbers({.protocol = "easgd",
                           .parameters = {{"momentum", 0.9}, {"steps", std::int64_t{2}}},
                           .workers = 1,
                           .versions = 5,
                           .optimizer = {.lr = 0.05, .weight_decay = 0.01}});
}
TEST(DeviceRoles, ProximalAndDualTerms) {
  expect_the_cpus_numbers({.protocol = "admm",
                           .parameters = {{"barrier", std::int64_t{2}}, {"l1", 0.001}, {"steps", std::int64_t{3}}},
                           .versions = 4});
}
TEST(DeviceRoles, CodedSums) {
  expect_the_cpus_numbers({.protocol = "coded", .versions = 6});
}

constexpr double clip_norm = 0.2; // their gradients are about 1 long

TEST(DeviceRoles, AClippedSum) {
  const arrangement setup{.shards = 3, .optimizer = {.lr = 0.05, .momentum = 0.9, .clip_norm = clip_norm}};
  EXPECT_NE(trained(setup, 0), trained({.shards = 3}, 0));
  EXPECT_EQ(trained(setup, 0), trained({.optimizer = setup.optimizer}, 0)) << "of one shard";
  expect_the_cpus_numbers(setup);
}
TEST(DeviceRoles, AClippedPush) {
  const arrangement setup{.protocol = "async", .workers = 1, .optimizer = {.lr = 0.05, .clip_norm = clip_norm}};
  EXPECT_NE(trained(setup, 0), trained({.protocol = "async", .workers = 1, .optimizer = {.lr = 0.05}}, 0));
  expect_the_cpus_numbers(setup);
}
TEST(DeviceRoles, AClippedLocalStep) {
  const arrangement setup{.protocol = "local",
                          .parameters = {{"steps", std::int64_t{3}}},
                          .shards = 2,
                          .versions = 4,
                          .optimizer = {.lr = 0.05, .clip_norm = clip_norm}};
  auto free = setup;
  free.optimizer.clip_norm = 0;
  EXPECT_NE(trained(setup, 0), trained(free, 0));
  expect_the_cpus_numbers(setup);
}

/// The centre after this many exchanges of one worker, by algorithms 1 and 2 of the paper, where 44 samples are cut into batches
/// of 8.
std::vector<double> elastic_centre(std::uint64_t exchanges, std::uint64_t period, double delta, const optimizer_spec& how,
                                   double alpha) {
  const auto data = *load_data({.source = "digits", .train_samples = 44, .test_samples = 1}, 1);
  const auto net = *model::build({.layers = {"flatten", "linear 8", "relu", "linear 10"}}, data.train->format());
  const std::shared_ptr<kernels::backend> queue = kernels::open_backend({});
  const auto compiled = plan::compile(net, *queue, {.max_rows = 8, .training = true});
  batch_loader loader{data.train, 1, [queue](std::size_t bytes) { return queue->allocate_host(bytes); }};
  std::vector<float> at(static_cast<std::size_t>(net.layout().floats())), g(at.size());
  initialize_parameters(net.layout(), 1, at.data());
  std::vector<double> x(at.begin(), at.end()), centre = x, v(x.size());
  std::uint64_t position = 0;
  for (std::uint64_t t = 0, done = 0;; ++t) {
    const auto before = x;
    if (t > 0 && t % period == 0) {
      for (std::size_t k = 0; k < x.size(); ++k) {
        x[k] -= alpha * (before[k] - centre[k]);
        centre[k] += alpha * (before[k] - centre[k]);
      }
      if (++done == exchanges)
        return centre;
    }
    for (std::size_t k = 0; k < x.size(); ++k)
      at[k] = static_cast<float>(before[k] + delta * v[k]);
    const auto rows = global_batch(position, 8, 44);
    const auto loaded = loader.load(rows);
    (*compiled)->enqueue_step({.parameters = at.data(),
                               .gradients = g.data(),
                               .x = loaded.x.data(),
                               .labels = loaded.labels.data(),
                               .rows = loaded.rows});
    queue->synchronize();
    for (std::size_t k = 0; k < x.size(); ++k) {
      v[k] = delta * v[k] - how.lr * (static_cast<double>(g[k]) + how.weight_decay * static_cast<double>(at[k]));
      x[k] += v[k];
    }
    position += static_cast<std::uint64_t>(rows.size());
  }
}

TEST(RolesOfAJob, ElasticAveragingIsThePapersAlgorithm) {
  for (const double delta : {0.0, 0.9})
    for (const std::int64_t period : {1, 3}) {
      const arrangement setup{.protocol = "easgd",
                              .parameters = {{"momentum", delta}, {"steps", period}},
                              .workers = 1,
                              .shards = 2,
                              .versions = 10,
                              .optimizer = {.lr = 0.05, .weight_decay = 0.01}};
      const auto found = trained(setup, 3);
      const auto expected = elastic_centre(10, static_cast<std::uint64_t>(period), delta, setup.optimizer, 0.9);
      for (std::size_t k = 0; k < found.size(); ++k)
        ASSERT_NEAR(found[k], expected[k], 2e-5) << "momentum " << delta << ", H = " << period;
    }
}

// Two workers that compute the same rows draw the same masks, so what is decoded is one gradient.
TEST(RolesOfAJob, ACodedStepWithDropoutIsTheSameWhoeverComes) {
  const arrangement setup{.protocol = "coded",
                          .parameters = {{"scheme", "cyclic"}},
                          .workers = 5,
                          .worker_device = "sim:0",
                          .versions = 1,
                          .layers = {"flatten", "linear 8", "relu", "dropout 0.5", "linear 10"}};
  const auto first = trained(setup, 1);
  const float largest = std::abs(*std::ranges::max_element(first, {}, [](float p) { return std::abs(p); }));
  bool differ = false;
  for (std::uint64_t seed = 2; seed <= 12; ++seed) {
    const auto other = trained(setup, seed);
    differ = differ || other != first;
    for (std::size_t k = 0; k < first.size(); ++k)
      ASSERT_NEAR(other[k], first[k], 1e-6F * largest) << "seed " << seed;
  }
  EXPECT_TRUE(differ) << "others have come";
}

TEST(DeviceRoles, WhoReadsFromElsewhereGetsOneVersionWhileTheJobGoesOn) {
  for (const std::string device : {"cpu", "sim:0"}) {
    arrangement setup{.shards = 2, .versions = 30};
    setup.shard_device = device;
    cluster run{setup, 5};
    caf::scoped_actor reader{run.system()}, other{run.system()};
    EXPECT_FALSE(run.read(reader, 0, 100)) << "never begun";
    run.begin();
    run.run_until([&, steps = 0]() mutable { return ++steps > 1500; });
    std::vector<parameters_piece> readings;
    for (std::size_t shard : {0, 1})
      readings.push_back(*run.read(reader, shard, 0));
    run.drain(); // to the last version
    EXPECT_EQ(run.read(other, 0, 0)->ver, protocols::version{30}) << "the newest, whatever others read";
    for (std::size_t shard : {0, 1}) {
      auto& all = readings[shard];
      ASSERT_GT(all.ver, protocols::version{0});
      ASSERT_LT(all.ver, protocols::version{30});
      while (!all.last) {
        const auto piece = run.read(reader, shard, all.values.size());
        ASSERT_TRUE(piece);
        EXPECT_EQ(piece->ver, all.ver);
        EXPECT_LE(piece->values.size(), 100U);
        all.values.insert(all.values.end(), piece->values.begin(), piece->values.end());
        all.last = piece->last;
      }
      auto until_then = setup;
      until_then.versions = all.ver.value;
      const auto expected = trained(until_then, 6);
      const auto range = run.range(shard);
      EXPECT_TRUE(std::equal(all.values.begin(), all.values.end(), expected.begin() + range.begin, expected.begin() + range.end))
          << device;
      EXPECT_FALSE(run.read(reader, shard, 100)) << "it has ended";
    }
  }
}

TEST(DeviceRoles, WhatLeavesADeviceIsTheVersionThatWasAskedForHoweverLateItIsCopied) {
  for (std::uint32_t shards : {1, 2}) {
    const arrangement setup{.shards = shards, .worker_device = "sim:0", .shard_device = "sim:0", .versions = 20};
    cluster run{setup, 7};
    run.begin();
    run.run_until([steps = 0]() mutable { return ++steps > 1000; });
    run.let_copies_out(false);
    run.ask_for_parameters();
    run.drain(); // to the last version: nobody holds the one that was asked for, but its copy
    ASSERT_TRUE(run.hears().held);
    run.let_copies_out(true);
    run.drain();
    auto until_then = setup;
    until_then.versions = run.hears().evaluated.value;
    ASSERT_GT(until_then.versions, 0U);
    ASSERT_LT(until_then.versions, setup.versions);
    EXPECT_TRUE(run.what_arrived() == trained(until_then, 8)) << shards << " shards, version " << until_then.versions;
  }
}

const arrangement all_on_devices{.worker_device = "sim:0", .shard_device = "sim:0"};

TEST(DeviceRoles, StepsAreReplayedInMemoryThatDoesNotGrow) {
  for (std::uint64_t seed = 1; seed <= 2; ++seed) {
    std::vector<std::size_t> peaks;
    for (std::uint64_t versions : {15, 45}) {
      auto setup = all_on_devices;
      setup.versions = versions;
      cluster run{setup, seed};
      run.train();
      peaks.push_back(run.peak_bytes());
      // Two workers; batches of 8 and of 6 rows; at most three blocks of parameters, and three of gradients.
      EXPECT_LE(run.captures(), 2 * 2 * 3 * 3);
      EXPECT_EQ(run.replays(), static_cast<int>(2 * versions)) << "each step is a replay";
    }
    EXPECT_LE(peaks[1], peaks[0] + peaks[0] / 4) << "seed " << seed;
  }
}

TEST(DeviceRoles, ALostDeviceEndsItsRoleWithTheReason) {
  auto setup = all_on_devices;
  setup.versions = 1000;
  for (const bool shard : {true, false}) {
    cluster run{setup, 3};
    auto& device = run.device(shard ? 0 : 1); // holders come first
    run.begin();
    const std::size_t deep = shard ? 0 : 8; // in the middle of a worker's step: else it may be about to enqueue the next
    run.run_until([&, steps = 0]() mutable { return ++steps > 4000 && device.waiting() > deep; });
    device.lose(); // and whoever waits for it hears nothing
    run.drain();
    EXPECT_THAT(run.hears().ends, ::testing::IsEmpty());
    run.pass_time();
    run.drain();
    EXPECT_THAT(run.hears().ends,
                ::testing::ElementsAre(
                    fmt::format("{} 0: its device sim:0 failed: the simulated device is lost", shard ? "holder" : "worker")));
    run.pass_time(10); // what it left behind is given up
  }
}

TEST(DeviceRoles, WhatIsEnqueuedOutlivesItsActor) {
  auto setup = all_on_devices;
  setup.versions = 1000;
  for (std::uint64_t seed = 1; seed <= 10; ++seed) {
    cluster run{setup, seed};
    run.begin();
    run.run_until([&, steps = std::uint64_t{0}]() mutable { return ++steps > 2000 + 10 * seed && run.device(1).waiting() > 0; });
    run.crash(0);
    run.run_until([&, steps = 0]() mutable { return ++steps > 300 || !run.hears().ends.empty(); }); // the rest in any order
    run.drain();
    EXPECT_THAT(run.hears().ends, ::testing::ElementsAre(::testing::HasSubstr("worker 0")));
    EXPECT_EQ(run.device(1).waiting(), 0U);
  }
}

} // namespace
} // namespace troupe::actors
