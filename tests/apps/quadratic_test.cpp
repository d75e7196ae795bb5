// SPDX-License-Identifier: BSD-3-Clause
// The simulator's quadratic steps as the real optimizer does: its arithmetic in double against that of tensors in float.
#include <cmath>
#include <vector>

#include <gtest/gtest.h>

#include "apps/quadratic_options.hpp"

namespace troupe::apps {
namespace {

namespace sim = protocols::sim;

/// After so many steps of two workers on 100 samples, 10 a step, by both.
void expect_the_same_steps(const optimizer_spec& how) {
  actors::job job;
  job.optimizer = how;
  auto options = quadratic_options_of(job, 100);
  sim::quadratic maths{options};
  const auto shard = maths.make_shard(0, 1);
  const auto worker = maths.make_worker({});
  const auto queue = kernels::open_backend({});
  std::vector<float> p(options.minimum.size());
  optimizer real{how, *queue, std::ssize(p)};
  for (std::uint64_t step = 0; step < 30; ++step) {
    const sim::batch all{.step = step, .position = 10 * step, .samples = 10, .parts = {{10 * step, 10 * step + 10}}};
    const sim::operand g{.tensor = worker->gradient_at(shard->parameters(), all).value};
    const std::vector<float> slope(sim::elements_of(g.tensor).begin(), sim::elements_of(g.tensor).end());
    const kernels::term term{slope.data(), 1};
    real.apply({&term, 1}, p.data(), p.data(), learning_rate(how, static_cast<double>(10 * step) / 100, 2));
    shard->step({&g, 1}, {.samples_before = 10 * step, .workers = 2}, nullptr);
    for (std::size_t k = 0; k < p.size(); ++k)
      ASSERT_NEAR(p[k], sim::elements_of(shard->parameters())[k], 2e-5) << "step " << step;
  }
}

TEST(Quadratic, HasTheJobsOptimizer) {
  expect_the_same_steps({.lr = 0.1});
  expect_the_same_steps({.lr = 0.1, .momentum = 0.9});
  expect_the_same_steps({.lr = 0.1, .momentum = 0.9, .nesterov = true, .weight_decay = 0.01});
  expect_the_same_steps({.name = "adamw", .lr = 0.1, .weight_decay = 0.1, .beta1 = 0.8, .beta2 = 0.99, .epsilon = 1e-3});
}

TEST(Quadratic, HasTheJobsLearningRates) {
  expect_the_same_steps({.lr = 0.1, .schedule = "step", .gamma = 0.5, .step_epochs = 1});
  expect_the_same_steps({.lr = 0.1, .schedule = "cosine", .total_epochs = 3, .warmup_epochs = 1});
  expect_the_same_steps({.lr = 0.1, .warmup_epochs = 1, .scale_with_workers = true});
}

TEST(Quadratic, ReplicasStepAsShardsDo) {
  actors::job job;
  for (const optimizer_spec& how : {optimizer_spec{.lr = 0.1, .momentum = 0.9, .nesterov = true, .weight_decay = 0.01},
                                    optimizer_spec{.name = "adamw", .lr = 0.1}, optimizer_spec{.lr = 0.1, .warmup_epochs = 1}}) {
    job.optimizer = how;
    sim::quadratic maths{quadratic_options_of(job, 100)};
    const auto shard = maths.make_shard(0, 1);
    const auto worker = maths.make_worker({});
    worker->adopt(shard->parameters());
    const sim::operand first{.tensor = shard->parameters()}, own{.from = sim::operand::source::own};
    worker->mix({&first, 1});
    for (std::uint64_t step = 0; step < 20; ++step) {
      const sim::batch all{
          .step = step, .position = 10 * step, .samples = 10, .workers = 2, .parts = {{10 * step, 10 * step + 10}}};
      const sim::operand g{.tensor = worker->gradient_at(shard->parameters(), all).value};
      shard->step({&g, 1}, {.samples_before = 10 * step, .workers = 2}, nullptr);
      worker->local_step(all, {});
    }
    const sim::tensor moved = worker->sum({&own, 1});
    for (std::size_t k = 0; k < 4; ++k)
      EXPECT_DOUBLE_EQ(sim::elements_of(moved)[k], sim::elements_of(shard->parameters())[k]);
  }
}

} // namespace
} // namespace troupe::apps
