// SPDX-License-Identifier: BSD-3-Clause
// Steps that other code computes: what a task has, what becomes of its gradients, and that it outlives its plan.
#include "tensor/foreign.hpp"

#include <algorithm>
#include <limits>
#include <numeric>
#include <vector>

#include <gtest/gtest.h>

#include "tensor/model.hpp"
#include "tests/kernels/deferred_backend.hpp"

namespace troupe {
namespace {

/// Keeps tasks for the test to compute.
class kept_tasks final : public foreign_computer {
public:
  void enqueue(foreign_task task) override { tasks.push_back(std::move(task)); }
  std::vector<foreign_task> tasks;
};

/// Three slots with gaps: 3, 16 and 1 floats.
parameter_layout three_slots() {
  parameter_layout out;
  out.slots.push_back({.name = "a", .dims = shape{3}, .offset = 0, .init = {}});
  out.slots.push_back({.name = "b", .dims = shape{4, 4}, .offset = 16, .init = {}});
  out.slots.push_back({.name = "c", .dims = shape{1}, .offset = 32, .init = {}});
  return out;
}

class Foreign : public ::testing::Test {
protected:
  Foreign() {
    parameters = queue->allocate(48 * sizeof(float));
    gradients = queue->allocate(48 * sizeof(float));
    x = queue->allocate_host(2 * sizeof(std::uint32_t));
    std::ranges::fill(gradients.span<float>(), 7.0F);
    x.as<std::uint32_t>()[0] = 5;
    x.as<std::uint32_t>()[1] = 9;
  }

  step_args args() {
    step_args out;
    out.parameters = parameters.as<const float>();
    out.gradients = gradients.as<float>();
    out.x = x.data();
    out.rows = 2;
    out.blocks = {parameters, gradients, x};
    out.gradient_ready = [this](int slot) { ready.push_back(slot); };
    out.done = [this] { done += 1; };
    return out;
  }

  std::shared_ptr<kernels::backend> queue = kernels::open_backend({});
  std::shared_ptr<kept_tasks> by = std::make_shared<kept_tasks>();
  std::unique_ptr<plan> compiled = plan::compile(model::foreign(three_slots(), by), *queue, {.max_rows = 2, .worker = 3}).value();
  kernels::buffer parameters, gradients, x;
  std::vector<int> ready;
  int done = 0;
};

TEST_F(Foreign, AStepIsHandedOutAndEndsWhenItsComputerSaysSo) {
  compiled->enqueue_step(args());
  ASSERT_EQ(by->tasks.size(), 1U);
  auto& task = by->tasks.front();
  EXPECT_TRUE(task.training);
  EXPECT_EQ(task.worker, 3);
  EXPECT_EQ(std::vector<std::uint32_t>(task.rows.begin(), task.rows.end()), (std::vector<std::uint32_t>{5, 9}));
  EXPECT_EQ(task.parameters, parameters.as<const float>());
  task.ready(1);
  EXPECT_EQ(ready, (std::vector<int>{1}));
  EXPECT_EQ(done, 0);
  task.done({.loss_sum = 3, .counted = 2, .correct = 1});
  EXPECT_EQ(done, 1);
  EXPECT_EQ(compiled->outcome().loss_sum, 3);
  EXPECT_EQ(compiled->outcome().rows, 2);
  EXPECT_EQ(compiled->outcome().counted, 2);
  EXPECT_EQ(compiled->outcome().correct, 1);
  EXPECT_EQ(compiled->outcome().ignored_rows(), 0);
}

TEST_F(Foreign, GapsAndGradientsThatNobodyComputedAreZero) {
  compiled->enqueue_step(args());
  auto& task = by->tasks.front();
  std::fill_n(task.gradients + 16, 16, 2.0F);
  task.ready(1);
  task.done({.loss_sum = 0, .counted = 2});
  auto all = ready;
  std::ranges::sort(all);
  EXPECT_EQ(all, (std::vector<int>{0, 1, 2})); // each once
  const auto values = gradients.span<const float>();
  for (std::size_t i = 0; i < values.size(); ++i)
    EXPECT_EQ(values[i], i >= 16 && i < 32 ? 2.0F : 0.0F) << i;
  EXPECT_TRUE(compiled->outcome().finite);
}

TEST_F(Foreign, AGradientThatIsNoNumberIsSeen) {
  for (const float odd : {std::numeric_limits<float>::quiet_NaN(), -std::numeric_limits<float>::infinity()}) {
    by->tasks.clear();
    compiled->enqueue_step(args());
    auto& task = by->tasks.front();
    std::fill_n(task.gradients, 3, 1.0F);
    task.gradients[2] = odd;
    task.ready(0);
    task.done({.loss_sum = 0, .counted = 2});
    EXPECT_FALSE(compiled->outcome().finite);
  }
}

TEST_F(Foreign, AnEvaluationHasNoGradients) {
  compiled->enqueue_evaluation(args());
  auto& task = by->tasks.front();
  EXPECT_FALSE(task.training);
  EXPECT_EQ(task.gradients, nullptr);
  task.done({.loss_sum = 1, .counted = 2, .correct = 2});
  EXPECT_EQ(done, 1);
  EXPECT_TRUE(ready.empty());
  EXPECT_EQ(gradients.as<const float>()[0], 7.0F); // untouched
}

TEST_F(Foreign, ATaskOutlivesItsPlanAndItsBlocksAndTellsNobody) {
  compiled->enqueue_step(args());
  compiled.reset();
  parameters = gradients = x = {};
  auto& task = by->tasks.front();
  EXPECT_EQ(task.blocks[0].as<const float>(), task.parameters);
  EXPECT_EQ(task.blocks[1].as<float>(), task.gradients);
  EXPECT_EQ(task.blocks[2].as<const std::uint32_t>(), task.rows.data());
  std::fill_n(task.gradients, 3, task.parameters[0]);
  task.ready(0);
  task.done({.loss_sum = 0, .counted = static_cast<std::int64_t>(task.rows.size())});
  EXPECT_TRUE(ready.empty()) << "whom it would tell may be gone";
  EXPECT_EQ(done, 0);
}

TEST_F(Foreign, IsForMemoryOnTheHost) {
  tests::deferred_backend device;
  const auto refused = plan::compile(model::foreign(three_slots(), by), device, {.max_rows = 2});
  ASSERT_FALSE(refused);
  EXPECT_NE(refused.error().message.find("give compute.device = \"cpu\""), std::string::npos);
}

TEST(ForeignRows, AreTheirOwnNumbers) {
  const auto set = foreign_rows(100, 10);
  EXPECT_EQ(set->size(), 10);
  std::vector<std::uint32_t> x(3);
  std::vector<float> labels(3, 1.0F);
  set->gather(std::vector<std::uint32_t>{9, 0, 4}, x.data(), labels.data());
  EXPECT_EQ(x, (std::vector<std::uint32_t>{109, 100, 104}));
  EXPECT_EQ(std::accumulate(labels.begin(), labels.end(), 0.0F), 0.0F);
  const auto net = model::foreign(three_slots(), std::make_shared<kept_tasks>());
  EXPECT_EQ(net.sample(), set->format().sample);
  EXPECT_EQ(net.label_shape(), set->format().labels);
}

} // namespace
} // namespace troupe
