// SPDX-License-Identifier: BSD-3-Clause
// The compiled plan against the plain interpreter: values, readiness, repetition, and what a step costs in allocations.
#include "tensor/plan.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <random>

#include <gtest/gtest.h>

#include "tensor/autodiff.hpp"
#include "tests/kernels/deferred_backend.hpp"
#include "tests/tensor/allocations.hpp"
#include "tests/tensor/example_models.hpp"
#include "tests/tensor/interpreter.hpp"
#include "tests/tensor/rig.hpp"

namespace troupe {
namespace {

using testing::expect_step_equals_interpreter;
using testing::rig;
using testing::sum_of;

constexpr int classes = 3;

class PlanOfModels : public ::testing::TestWithParam<testing::example_model> {
protected:
  rig make(std::int64_t max_rows, bool training = true) {
    return rig{model::build(GetParam().spec, GetParam().data).value(), {.max_rows = max_rows, .training = training}};
  }
  rig make(const plan::options& opts, bool discards = false) {
    return rig{model::build(GetParam().spec, GetParam().data).value(), opts, std::make_unique<tests::deferred_backend>(discards)};
  }
};

TEST_P(PlanOfModels, StepEqualsTheInterpreterForAnyRows) {
  auto r = make(7);
  for (std::int64_t rows : {7, 1, 5})
    expect_step_equals_interpreter(r, rows, {.least = 1e-2}); // a bias before a batch norm has a gradient of rounding alone
}

TEST(Plan, TheLossIsTheMeanOverThePredictionsThatCount) {
  rig all{{"linear 6 relu", "linear 3"}, testing::tokens(4, 5), 2};
  const auto expected = all.step(2);
  EXPECT_EQ(expected.predictions, 8);
  EXPECT_EQ(expected.counted, 8);
  EXPECT_EQ(expected.ignored_rows(), 0);
  const auto gradients = all.flat_gradients();
  for (const bool capture : {false, true}) {
    rig some{{"linear 6 relu", "linear 3"},
             testing::tokens(4, 5),
             {.max_rows = 2, .capture = capture},
             std::make_unique<tests::deferred_backend>()};
    for (const std::int64_t counted : {8, 2, 4}) {
      auto args = some.args(2);
      args.counted = counted;
      some.compiled->enqueue_step(args);
      some.queue->synchronize();
      EXPECT_EQ(some.compiled->outcome().loss_sum, expected.loss_sum);
      EXPECT_EQ(some.compiled->outcome().counted, counted);
      EXPECT_EQ(some.compiled->outcome().ignored_rows(), 2 - static_cast<double>(counted) / 4);
      for (std::size_t i = 0; i < gradients.size(); ++i)
        ASSERT_FLOAT_EQ(some.flat_gradients()[i], gradients[i] * 8 / static_cast<float>(counted));
    }
  }
}

TEST(Plan, ARowsDropoutIsItsOwnWhateverRowsAreComputedWithIt) {
  rig r{{"linear 6 relu", "dropout 0.4", "linear 5", "dropout 0.2", "linear 3"}, {{5}, classes}, 7};
  const auto loss = r.step(7).loss_sum;
  const auto whole = r.flat_gradients();
  const auto first_loss = r.step(3).loss_sum;
  const auto first = r.flat_gradients();
  auto rest = r.args(4);
  rest.x = r.x.as<float>() + 3 * 5;
  rest.labels = r.labels.as<std::int32_t>() + 3;
  rest.key.step += 3;
  r.compiled->enqueue_step(rest);
  r.queue->synchronize();
  EXPECT_NEAR(loss, first_loss + r.compiled->outcome().loss_sum, 1e-5);
  const auto second = r.flat_gradients();
  for (std::size_t i = 0; i < whole.size(); ++i)
    EXPECT_NEAR(whole[i], (3 * first[i] + 4 * second[i]) / 7, 1e-6);
}

TEST_P(PlanOfModels, EvaluationEqualsTheInterpreterWithoutDropout) {
  for (bool training : {true, false}) {
    auto r = make(7, training);
    const auto outcome = r.evaluate(6);
    const auto all = testing::interpret(r.source.forward(), r.plain_inputs(6, false));
    EXPECT_NEAR(outcome.loss_sum, sum_of(all[static_cast<std::size_t>(r.source.loss())]),
                1e-4 * static_cast<double>(outcome.predictions));
    EXPECT_TRUE(outcome.finite);
  }
}

TEST_P(PlanOfModels, PredictionsAreThoseOfTheInterpreter) {
  for (const bool training : {true, false}) {
    auto r = make({.max_rows = 7, .training = training, .capture = training, .predictions = true});
    if (training)
      r.step(7);
    const auto outcome = r.evaluate(6);
    const auto all = testing::interpret(r.source.forward(), r.plain_inputs(6, false));
    const auto& expected = all[static_cast<std::size_t>(r.source.predictions())];
    const auto found = r.compiled->predictions();
    ASSERT_EQ(found.size(), expected.size());
    for (std::size_t i = 0; i < found.size(); ++i)
      ASSERT_NEAR(found[i], expected[i], 1e-4 * std::max(1.0, std::abs(expected[i])));
    EXPECT_NEAR(outcome.loss_sum, sum_of(all[static_cast<std::size_t>(r.source.loss())]),
                1e-4 * static_cast<double>(outcome.predictions));
  }
  auto without = make(7, false);
  without.evaluate(6);
  EXPECT_TRUE(without.compiled->predictions().empty());
}

TEST_P(PlanOfModels, EachGradientIsReportedOnceInBackwardOrder) {
  auto r = make(4);
  r.step(4);
  EXPECT_EQ(r.steps_done, 1);
  auto sorted = r.ready;
  std::ranges::sort(sorted);
  std::vector<int> all(r.source.layout().slots.size());
  for (std::size_t i = 0; i < all.size(); ++i)
    all[i] = static_cast<int>(i);
  EXPECT_EQ(sorted, all);
  if (!GetParam().chain)
    return;
  const auto& slots = r.source.layout().slots;
  std::erase_if(r.ready, [&](int slot) { return slots[static_cast<std::size_t>(slot)].kind == slot_kind::statistic; }); // forward
  // Layer by layer from the last: a slot's layer never comes after one below it.
  auto layer_of = [&](int slot) {
    const auto& name = r.source.layout().slots[static_cast<std::size_t>(slot)].name;
    int layer = 0, found = 0;
    for (const auto& s : r.source.layout().slots) {
      layer += s.name.ends_with(".weight") ? 1 : 0;
      found = s.name == name ? layer : found;
    }
    return found;
  };
  for (std::size_t i = 1; i < r.ready.size(); ++i)
    EXPECT_GE(layer_of(r.ready[i - 1]), layer_of(r.ready[i]));
}

TEST_P(PlanOfModels, RepeatsBitForBit) {
  auto r = make(7);
  r.step(7);
  const auto first = r.flat_gradients();
  r.step(3); // leaves other numbers in every buffer
  r.evaluate(7);
  r.step(7);
  EXPECT_EQ(first, r.flat_gradients());
}

/// Everything is enqueued before anything runs; what the plan reads too early or overwrites too soon comes out wrong.
TEST_P(PlanOfModels, EqualsTheCpuQueueOnOneThatRunsLater) {
  auto now = make(7);
  auto later = make({.max_rows = 7});
  for (std::int64_t rows : {7, 2}) {
    const auto expected = now.step(rows);
    const auto found = later.step(rows);
    EXPECT_EQ(found.loss_sum, expected.loss_sum);
    EXPECT_EQ(found.correct, expected.correct);
    EXPECT_EQ(later.flat_gradients(), now.flat_gradients());
    EXPECT_EQ(later.ready, now.ready);
  }
}

TEST_P(PlanOfModels, NothingIsReportedBeforeItHasRun) {
  auto r = make({.max_rows = 4});
  r.compiled->enqueue_step(r.args(4));
  EXPECT_TRUE(r.ready.empty());
  EXPECT_EQ(r.steps_done, 0);
  // Each gradient is complete by the time it is reported: nothing that follows changes it.
  std::vector<std::vector<float>> seen(r.source.layout().slots.size());
  auto slot_values = [&](int slot) {
    const auto& s = r.source.layout().slots[static_cast<std::size_t>(slot)];
    return std::vector<float>(r.gradients.as<float>() + s.offset, r.gradients.as<float>() + s.offset + s.elements());
  };
  r.queue->synchronize();
  auto args = r.args(4);
  args.gradient_ready = [&](int slot) { seen[static_cast<std::size_t>(slot)] = slot_values(slot); };
  std::fill_n(r.gradients.as<float>(), r.source.layout().floats(), 1e30F);
  r.compiled->enqueue_step(args);
  r.queue->synchronize();
  for (std::size_t slot = 0; slot < seen.size(); ++slot)
    EXPECT_EQ(seen[slot], slot_values(static_cast<int>(slot)));
}

TEST_P(PlanOfModels, RecordedStepsEqualEnqueuedOnes) {
  auto plain = make(7);
  auto recorded = make({.max_rows = 7, .capture = true});
  for (std::int64_t rows : {7, 3, 7, 7, 3}) {
    plain.change_input();
    recorded.change_input();              // a replay reads the new batch
    recorded.key.step = ++plain.key.step; // and draws anew
    const auto expected = plain.step(rows);
    const auto found = recorded.step(rows);
    EXPECT_EQ(found.loss_sum, expected.loss_sum);
    EXPECT_EQ(found.rows, rows);
    EXPECT_EQ(recorded.flat_gradients(), plain.flat_gradients());
    EXPECT_EQ(recorded.ready, plain.ready);
    EXPECT_EQ(recorded.evaluate(rows).loss_sum, plain.evaluate(rows).loss_sum);
  }
  const auto& queue = dynamic_cast<tests::deferred_backend&>(*recorded.queue);
  EXPECT_EQ(queue.captures(), 4); // two numbers of rows, trained on and evaluated
  EXPECT_EQ(queue.replays(), 10);
}

TEST_P(PlanOfModels, ReportsMayComeTogether) {
  auto alone = make(4);
  alone.step(4);
  const auto& slots = alone.source.layout().slots;
  for (const std::int64_t least : {std::int64_t{40}, std::int64_t{1} << 40}) {
    auto together = make({.max_rows = 4, .report_bytes = least});
    std::vector<std::vector<int>> reports; // what each operation of the queue reported
    auto args = together.args(4);
    args.gradient_ready = [&](int slot) { reports.back().push_back(slot); };
    together.compiled->enqueue_step(args);
    auto& queue = dynamic_cast<tests::deferred_backend&>(*together.queue);
    do
      reports.emplace_back();
    while (queue.run_one());
    std::erase_if(reports, [](const auto& report) { return report.empty(); });
    std::vector<int> order;
    for (const auto& report : reports) {
      order.insert(order.end(), report.begin(), report.end());
      std::int64_t bytes = 0;
      for (auto slot : report)
        bytes += slots[static_cast<std::size_t>(slot)].elements() * 4;
      EXPECT_TRUE(bytes >= least || &report == &reports.back()) << bytes;
    }
    EXPECT_EQ(order, alone.ready) << "the same order";
    EXPECT_EQ(together.compiled->outcome().loss_sum, alone.compiled->outcome().loss_sum);
  }
}

/// On a queue that drops its work: oneDNN allocates in every call, and that is the backend's affair.
TEST_P(PlanOfModels, StepAllocatesNothing) {
  auto r = make({.max_rows = 7}, true);
  auto args = r.args(7);
  int ready = 0, done = 0;
  args.gradient_ready = [&ready](int) { ++ready; };
  args.done = [&done] { ++done; };
  const testing::allocation_count before;
  r.compiled->enqueue_step(args);
  r.compiled->enqueue_evaluation(args);
  EXPECT_EQ(before.since(), 0);
  EXPECT_EQ(done, 2);
  EXPECT_EQ(ready, static_cast<int>(r.source.layout().slots.size()));
}

TEST(AllocationCount, CountsAnAllocation) {
  const testing::allocation_count before;
  auto made = std::make_unique<std::vector<int>>(100);
  EXPECT_EQ(before.since(), 2);
}

INSTANTIATE_TEST_SUITE_P(Examples, PlanOfModels, ::testing::ValuesIn(testing::example_models()),
                         [](const auto& info) { return info.param.name; });

TEST(Plan, RandomModelsEqualTheInterpreter) {
  const unsigned seed = 20240917;
  std::mt19937 random{seed};
  const std::vector<std::string> flat{"linear 9 relu", "linear 14 gelu", "linear 5",     "tanh",   "relu",
                                      "gelu",          "layernorm",      "dropout 0.25", "sigmoid"};
  for (int round = 0; round < 60; ++round) {
    std::vector<std::string> layers;
    if (random() % 2 == 0) {
      const std::vector<std::string> images{"conv 3 3x3 relu", "conv 4 2x2", "conv 2 3x3 gelu pad 1", "relu",
                                            "layernorm",       "dropout 0.2"};
      for (auto count = random() % 3; count > 0; --count)
        layers.push_back(images[random() % images.size()]);
      layers.push_back(random() % 2 == 0 ? "pool 2" : "avgpool 2");
    }
    layers.push_back("flatten");
    for (auto count = random() % 6; count > 0; --count)
      layers.push_back(flat[random() % flat.size()]);
    layers.push_back("linear 3");
    std::string text;
    for (const auto& layer : layers)
      text += layer + "; ";
    SCOPED_TRACE("seed " + std::to_string(seed) + " round " + std::to_string(round) + ": " + text);
    rig r{layers, {{2, 8, 7}, classes}, 5};
    expect_step_equals_interpreter(r, 5);
    expect_step_equals_interpreter(r, 2);
    if (HasFatalFailure())
      return;
  }
}

TEST(Plan, BuffersAreReused) {
  std::vector<std::string> deep;
  for (int i = 0; i < 30; ++i)
    deep.push_back("linear 64 relu");
  deep.push_back("linear 3");
  rig training{deep, {{64}, classes}, 32}, evaluation{deep, {{64}, classes}, 32, false};
  constexpr std::int64_t layer_bytes = 32 * 64 * 4;
  // Evaluation needs a layer's input and its result at a time; labels and logits are small.
  EXPECT_LT(evaluation.compiled->cost().workspace_bytes, 3 * layer_bytes);
  // Training keeps 31 results, and two gradients at a time.
  EXPECT_LT(training.compiled->cost().workspace_bytes, 34 * layer_bytes);
}

TEST(Plan, CostIsWhatTheShapesSay) {
  rig r{{"linear 33 relu", "linear 3"}, {{20}, classes}, 8, false};
  const auto& cost = r.compiled->cost();
  EXPECT_EQ(cost.parameter_bytes, (20 * 33 + 33 + 33 * 3 + 3) * 4);
  EXPECT_EQ(cost.flops_per_row, 2 * 20 * 33 + 2 * 33 * 3 + 1); // and one for the loss
}

TEST(Plan, FirstLayersInputGradientIsNotComputed) {
  rig forward{{"linear 33 relu", "linear 3"}, {{20}, classes}, 8, false},
      step{{"linear 33 relu", "linear 3"}, {{20}, classes}, 8};
  // Forward, both weights' gradients, the gradient of the hidden layer; small: bias sums, relu.
  const double products = 2 * 20 * 33 + 2 * 33 * 3;
  EXPECT_LT(step.compiled->cost().flops_per_row, 2 * products + 2 * 33 * 3 + 150);
}

TEST(Plan, GradientThatIsNotFiniteIsSeen) {
  rig r{{"linear 6 relu", "linear 3"}, {{5}, classes}, 4};
  EXPECT_TRUE(r.step(4).finite);
  r.x.as<float>()[7] = std::numeric_limits<float>::infinity();
  EXPECT_FALSE(r.step(4).finite);
}

TEST(Plan, GradientThatOverflowsIsSeenThoughTheLossIsFinite) {
  rig r{{"linear 6", "linear 3"}, {{5}, classes}, 4};
  const auto& slots = r.source.layout().slots;
  std::fill_n(r.parameters.as<float>() + slots[0].offset, slots[0].elements(), 0.0F);
  std::fill_n(r.x.as<float>(), 20, 3e38F);
  std::iota(r.parameters.as<float>() + slots[2].offset, r.parameters.as<float>() + slots[2].offset + slots[2].elements(), 100.0F);
  const auto outcome = r.step(4);
  EXPECT_TRUE(std::isfinite(outcome.loss_sum));
  EXPECT_FALSE(outcome.finite);
}

TEST(Plan, NextStepMayBeEnqueuedWhileDoneStillRuns) {
  // As when an actor on another thread is quicker than the thread that calls `done`.
  rig r{{"linear 3"}, {{5}, classes}, {.max_rows = 4}, std::make_unique<tests::deferred_backend>()};
  std::vector<std::string> told;
  auto args = r.args(4);
  args.done = [&told, &r, name = std::string(100, 'a')] {
    r.compiled->enqueue_step(r.args(2));
    told.push_back(name);
  };
  r.compiled->enqueue_step(args);
  args = {};
  r.queue->synchronize();
  EXPECT_EQ(told, std::vector<std::string>{std::string(100, 'a')});
  r.queue->synchronize();
  EXPECT_EQ(r.steps_done, 1);
  EXPECT_EQ(r.compiled->outcome().rows, 2);
}

TEST(Plan, WhatTheCallbacksHoldIsLetGoWithTheStep) {
  rig r{{"linear 3"}, {{5}, classes}, 4};
  auto args = r.args(4);
  auto held = std::make_shared<int>(1);
  args.gradient_ready = [held](int) {};
  args.done = [held] {};
  r.compiled->enqueue_step(args);
  r.queue->synchronize();
  args = {};
  EXPECT_EQ(held.use_count(), 1);
}

TEST(Plan, WorkersTogetherEqualOneOfTheirBatches) {
  // Three slices of 5, 5 and 4 rows, weighted by their samples, against all 14 at once.
  const std::vector<std::string> layers{"linear 33 gelu", "layernorm", "linear 3"};
  rig whole{layers, {{20}, classes}, 14};
  whole.step(14);
  const auto expected = whole.flat_gradients();
  std::vector<double> sum(expected.size(), 0);
  std::int64_t begin = 0;
  for (std::int64_t rows : {5, 5, 4}) {
    auto args = whole.args(rows);
    args.x = whole.x.as<float>() + begin * 20;
    args.labels = whole.labels.as<std::int32_t>() + begin;
    whole.compiled->enqueue_step(args);
    whole.queue->synchronize();
    for (std::size_t i = 0; i < sum.size(); ++i)
      sum[i] += static_cast<double>(whole.gradients.as<float>()[i]) * static_cast<double>(rows) / 14;
    begin += rows;
  }
  for (std::size_t i = 0; i < sum.size(); ++i)
    ASSERT_NEAR(sum[i], expected[i], 1e-6) << i;
}

TEST(Plan, NeedsRoomForARow) {
  rig r{{"linear 3"}, {{5}, classes}, 1};
  auto refused = plan::compile(r.source, *r.queue, {.max_rows = 0});
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, errc::bad_option);
}

} // namespace
} // namespace troupe
