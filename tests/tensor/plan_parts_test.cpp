// SPDX-License-Identifier: BSD-3-Clause
// Steps in parts, values computed twice, statistics, and what a plan costs.
#include <algorithm>
#include <cmath>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "tensor/plan.hpp"
#include "tests/kernels/deferred_backend.hpp"
#include "tests/tensor/allocations.hpp"
#include "tests/tensor/example_models.hpp"
#include "tests/tensor/random_graph.hpp"
#include "tests/tensor/rig.hpp"

namespace troupe {
namespace {

using testing::rig;

/// Rows [begin, end) of a rig's batch as a part of a step over all `rows`.
step_args part_of(rig& r, std::int64_t begin, std::int64_t end, std::int64_t rows) {
  auto args = r.args(end - begin);
  const auto& m = r.source;
  args.x = r.x.as<float>() + begin * m.sample().elements();
  args.labels = r.labels.as<float>() + begin * m.label_shape().elements();
  args.key.step += static_cast<std::uint64_t>(begin);
  args.accumulate = begin > 0;
  args.mean_over = rows * m.forward().at(m.loss()).dims.elements();
  args.share = static_cast<double>(end - begin) / static_cast<double>(rows);
  if (end < rows)
    args.gradient_ready = nullptr;
  return args;
}

bool has_batchnorm(const model& m) {
  return std::ranges::any_of(m.forward().nodes(), [](const auto& n) { return std::holds_alternative<ops::batchnorm>(n.op); });
}

/// Three parts give the gradients of their rows together, and the last one reports them. Where values are normalised over the
/// batch, a part is a batch of its own: then this is only the sum of what the parts give alone.
void expect_parts_equal_the_whole(const model& m, double tolerance) {
  rig whole{m, {.max_rows = 6}};
  const auto loss = whole.step(6).loss_sum;
  const auto expected = whole.flat_gradients();
  rig parts{m, {.max_rows = 3, .accumulate = true}, std::make_unique<tests::deferred_backend>()};
  parts.x = whole.x;
  parts.labels = whole.labels;
  std::fill_n(parts.gradients.as<float>(), expected.size(), 1e30F);
  double sum = 0;
  for (const auto& [begin, end] : {std::pair<std::int64_t, std::int64_t>{0, 3}, {3, 4}, {4, 6}}) {
    EXPECT_TRUE(parts.ready.empty());
    parts.compiled->enqueue_step(part_of(parts, begin, end, 6));
    parts.queue->synchronize();
    sum += parts.compiled->outcome().loss_sum;
    EXPECT_TRUE(parts.compiled->outcome().finite);
  }
  auto slots = parts.ready;
  std::ranges::sort(slots);
  EXPECT_EQ(std::ssize(slots), std::ssize(m.layout().slots));
  EXPECT_EQ(std::ranges::adjacent_find(slots), slots.end());
  if (has_batchnorm(m))
    return;
  EXPECT_NEAR(sum, loss, 1e-4 * whole.compiled->outcome().predictions);
  for (const auto& slot : m.layout().slots) {
    double largest = 2e-2;
    for (std::int64_t i = slot.offset; i < slot.offset + slot.elements(); ++i)
      largest = std::max(largest, std::abs(static_cast<double>(expected[static_cast<std::size_t>(i)])));
    for (std::int64_t i = slot.offset; i < slot.offset + slot.elements(); ++i)
      ASSERT_NEAR(parts.gradients.as<float>()[i], expected[static_cast<std::size_t>(i)], tolerance * largest)
          << slot.name << " " << i;
  }
}

class PartsOfModels : public ::testing::TestWithParam<testing::example_model> {};

TEST_P(PartsOfModels, PartsAddUpToTheStepOfAllRows) {
  expect_parts_equal_the_whole(model::build(GetParam().spec, GetParam().data).value(), 1e-4);
}

/// The norm of the difference, as a part of that of `expected`.
double distance(const std::vector<float>& found, const std::vector<float>& expected) {
  double difference = 0, norm = 1e-30;
  for (std::size_t i = 0; i < expected.size(); ++i) {
    difference += std::pow(static_cast<double>(found[i]) - static_cast<double>(expected[i]), 2);
    norm += std::pow(static_cast<double>(expected[i]), 2);
  }
  return std::sqrt(difference / norm);
}

TEST_P(PartsOfModels, AStepInPiecesIsTheStep) {
  const auto m = model::build(GetParam().spec, GetParam().data).value();
  rig whole{m, {.max_rows = 8}};
  rig now{m, {.max_rows = 8, .piece_rows = 3}};
  rig later{m, {.max_rows = 8, .piece_rows = 3}, std::make_unique<tests::deferred_backend>()};
  rig recorded{m, {.max_rows = 8, .piece_rows = 3, .capture = true}, std::make_unique<tests::deferred_backend>()};
  for (const std::int64_t rows : {8, 2, 5, 8}) {
    const auto outcome = whole.step(rows);
    for (auto* pieces : {&now, &later, &recorded}) {
      pieces->ready.clear();
      const auto& found = pieces->step(rows);
      EXPECT_EQ(pieces->flat_gradients(), now.flat_gradients());
      auto slots = pieces->ready;
      std::ranges::sort(slots);
      EXPECT_EQ(std::ssize(slots), std::ssize(m.layout().slots));
      EXPECT_EQ(std::ranges::adjacent_find(slots), slots.end()) << "each once, of the last piece";
      if (has_batchnorm(m))
        continue;
      EXPECT_NEAR(found.loss_sum, outcome.loss_sum, 1e-5 * outcome.predictions);
      EXPECT_EQ(found.correct, outcome.correct);
      EXPECT_EQ(found.counted, outcome.counted);
      EXPECT_EQ(found.rows, rows);
      EXPECT_LT(distance(pieces->flat_gradients(), whole.flat_gradients()), 1e-6);
    }
    EXPECT_NEAR(now.evaluate(rows).loss_sum, whole.evaluate(rows).loss_sum, 1e-5 * outcome.predictions);
  }
}

TEST_P(PartsOfModels, APartAllocatesNothing) {
  const auto m = model::build(GetParam().spec, GetParam().data).value();
  rig r{m, {.max_rows = 6, .accumulate = true}, std::make_unique<tests::deferred_backend>(true)};
  auto args = part_of(r, 0, 4, 6);
  args.accumulate = true;
  args.gradient_ready = nullptr;
  int done = 0;
  args.done = [&done] { ++done; };
  const testing::allocation_count before;
  r.compiled->enqueue_step(args);
  EXPECT_EQ(before.since(), 0);
  EXPECT_EQ(done, 1);
}

TEST_P(PartsOfModels, RecomputedBlocksGiveTheSameBits) {
  const auto m = model::build(GetParam().spec, GetParam().data).value();
  rig kept{m, {.max_rows = 5}};
  rig again{m, {.max_rows = 5, .recompute = true}, std::make_unique<tests::deferred_backend>()};
  rig recorded{m, {.max_rows = 5, .capture = true, .recompute = true}, std::make_unique<tests::deferred_backend>()};
  for (const std::int64_t rows : {5, 2, 5}) {
    const auto loss = kept.step(rows).loss_sum;
    EXPECT_EQ(again.step(rows).loss_sum, loss);
    EXPECT_EQ(again.flat_gradients(), kept.flat_gradients());
    EXPECT_EQ(recorded.step(rows).loss_sum, loss);
    EXPECT_EQ(recorded.flat_gradients(), kept.flat_gradients());
  }
}

INSTANTIATE_TEST_SUITE_P(Examples, PartsOfModels, ::testing::ValuesIn(testing::example_models()),
                         [](const auto& info) { return info.param.name; });

TEST(RandomGraphs, PartsAddUpToTheStepOfAllRows) {
  const auto seed = testing::seed_or(20250304);
  std::mt19937 random{seed};
  for (int round = 0; round < 100 && !::testing::Test::HasFailure(); ++round) {
    SCOPED_TRACE(fmt::format("TROUPE_TEST_SEED={} round {}", seed, round));
    expect_parts_equal_the_whole(testing::random_model(random), 1e-3);
  }
}

model transformer(std::int64_t blocks, std::int64_t length, std::int64_t width = 16) {
  const model_spec spec{.layers = {}, .network = {.kind = "gpt", .depth = blocks, .heads = 2, .width = width}};
  return model::build(spec, testing::text(length, 5)).value();
}

std::int64_t workspace(const model& m, const plan::options& opts) {
  const auto queue = kernels::open_backend({});
  return plan::compile(m, *queue, opts).value()->cost().workspace_bytes;
}

TEST(Plan, MemoryOfAttentionIsLinearInItsLength) {
  const auto short_one = workspace(transformer(2, 512), {.max_rows = 1}),
             long_one = workspace(transformer(2, 4096), {.max_rows = 1});
  EXPECT_NEAR(static_cast<double>(long_one), 8.0 * static_cast<double>(short_one), 0.02 * static_cast<double>(long_one));
  EXPECT_LT(long_one, 4096LL * 4096 * 4) << "not even one matrix of scores";
}

TEST(Plan, RecomputedBlocksKeepTheirInputsAlone) {
  const auto m = transformer(12, 64);
  const auto kept = workspace(m, {.max_rows = 4}), again = workspace(m, {.max_rows = 4, .recompute = true});
  EXPECT_LT(static_cast<double>(again), 0.4 * static_cast<double>(kept));
}

TEST(Plan, LayersInBracesAreBlocks) {
  const std::vector<std::string> body{"linear 64 relu", "linear 64 tanh", "linear 8"};
  for (const auto* brace : {"residual {", "repeat 1 {"}) {
    std::vector<std::string> list{"linear 8"};
    for (int i = 0; i < 8; ++i) {
      list.emplace_back(brace);
      list.insert(list.end(), body.begin(), body.end());
      list.emplace_back("}");
    }
    list.emplace_back("linear 3");
    const auto m = model::build({list}, {{5}, 3}).value();
    const auto kept = workspace(m, {.max_rows = 64}), again = workspace(m, {.max_rows = 64, .recompute = true});
    EXPECT_LT(static_cast<double>(again), 0.4 * static_cast<double>(kept)) << brace;
  }
}

TEST(Plan, PartsOfAQuarterTakeAQuarterOfTheMemory) {
  const auto m = transformer(4, 64);
  const auto whole = workspace(m, {.max_rows = 16}), quarter = workspace(m, {.max_rows = 4, .accumulate = true});
  EXPECT_LT(static_cast<double>(quarter), 0.3 * static_cast<double>(whole));
  EXPECT_EQ(workspace(m, {.max_rows = 16, .piece_rows = 4}), quarter);
}

TEST(Plan, LogitsBecomeTheirGradientInPlace) {
  // Twice as wide a vocabulary costs its logits once.
  const data_format small = testing::text(4, 1000), large = testing::text(4, 2000);
  const model_spec spec{{"embedding 4", "head tied"}};
  const auto more = workspace(model::build(spec, large).value(), {.max_rows = 8})
                    - workspace(model::build(spec, small).value(), {.max_rows = 8});
  EXPECT_LE(more, 1000 * 4 * 8 * 4 + 4096);
}

TEST(Plan, AGradientThatIsAddedToAnotherIsAccumulatedByTheProductThatMakesIt) {
  // A tied table: the product of the head begins its gradient in the slot, and the embedding adds to that.
  rig r{model::build({{"embedding 4", "linear 4 tanh", "head tied"}}, testing::text(3, 6)).value(), {.max_rows = 2}};
  testing::expect_step_equals_interpreter(r, 2);
  const auto table = 6 * 4 * 4;
  const auto with = r.compiled->cost().workspace_bytes;
  rig apart{model::build({{"embedding 4", "linear 4 tanh", "head"}}, testing::text(3, 6)).value(), {.max_rows = 2}};
  EXPECT_LT(with - apart.compiled->cost().workspace_bytes, table) << "no second gradient of the table";
}

TEST(Plan, StatisticsAreReportedInForwardAndMoveByTheBatch) {
  rig r{model::build({{"batchnorm", "linear 3"}}, {{2}, 3}).value(), {.max_rows = 4}};
  const auto& slots = r.source.layout().slots;
  const std::vector<float> x{1, 0, 2, 0, 3, 0, 6, 4};
  std::ranges::copy(x, r.x.as<float>());
  const auto mean = r.source.layout().find("batchnorm1.running_mean"),
             variance = r.source.layout().find("batchnorm1.running_var");
  float* parameters = r.parameters.as<float>();
  parameters[slots[static_cast<std::size_t>(mean)].offset] = 5;
  parameters[slots[static_cast<std::size_t>(variance)].offset] = 2;
  r.step(4);
  // Mean 3, squares off it 4 + 1 + 0 + 9, over three: 14 / 3.
  EXPECT_FLOAT_EQ(r.gradients.as<float>()[slots[static_cast<std::size_t>(mean)].offset], 0.1F * (5 - 3));
  EXPECT_FLOAT_EQ(r.gradients.as<float>()[slots[static_cast<std::size_t>(variance)].offset], 0.1F * (2 - 14.0F / 3));
  EXPECT_TRUE((r.ready[0] == mean && r.ready[1] == variance) || (r.ready[1] == mean && r.ready[0] == variance));
}

TEST(Plan, PartsMoveAStatisticByTheirMeanWeightedByRows) {
  const auto m = model::build({{"batchnorm", "linear 3"}}, {{2}, 3}).value();
  rig r{m, {.max_rows = 3, .accumulate = true}};
  const auto offset = m.layout().slots[static_cast<std::size_t>(m.layout().find("batchnorm1.running_mean"))].offset;
  std::vector<float> alone;
  for (const auto& [begin, end] : {std::pair<std::int64_t, std::int64_t>{0, 3}, {3, 5}}) {
    auto args = part_of(r, begin, end, end - begin); // as a step of its own
    args.accumulate = false;
    r.compiled->enqueue_step(args);
    r.queue->synchronize();
    alone.push_back(r.gradients.as<float>()[offset]);
  }
  for (const auto& [begin, end] : {std::pair<std::int64_t, std::int64_t>{0, 3}, {3, 5}})
    r.compiled->enqueue_step(part_of(r, begin, end, 5)), r.queue->synchronize();
  EXPECT_NEAR(r.gradients.as<float>()[offset], 0.6F * alone[0] + 0.4F * alone[1], 1e-6);
}

TEST(Plan, ABatchNormNeedsTwoValuesOfAChannel) {
  const auto queue = kernels::open_backend({});
  const auto m = model::build({{"linear 4", "batchnorm", "linear 3"}}, {{5}, 3}).value();
  const auto refused = plan::compile(m, *queue, {.max_rows = 1});
  ASSERT_FALSE(refused);
  EXPECT_EQ(
      refused.error().message,
      "layer 2 \"batchnorm\": a batch norm needs two values of each channel to have a variance, and a batch of one row (rows, 4) "
      "has one; take a larger batch, or a \"groupnorm\"");
  EXPECT_NE(plan::compile(m, *queue, {.max_rows = 4, .piece_rows = 1}).error().message.find("take a larger micro-batch"),
            std::string::npos);
  EXPECT_NE(plan::compile(m, *queue, {.max_rows = 5, .piece_rows = 4}).error().message.find("take a larger micro-batch"),
            std::string::npos);
  EXPECT_TRUE(plan::compile(m, *queue, {.max_rows = 1, .training = false}));
  EXPECT_TRUE(plan::compile(model::build({{"conv 2 2x2", "batchnorm", "flatten", "linear 3"}}, {{1, 4, 4}, 3}).value(), *queue,
                            {.max_rows = 1}));
}

TEST(Plan, IgnoredLabelsHaveNoLossAndNoGradient) {
  rig r{model::build({{"linear 6 relu", "linear 3"}}, testing::tokens(4, 5)).value(), {.max_rows = 3}};
  for (auto place : {0, 5, 6, 11})
    r.labels.as<std::int32_t>()[place] = ignored_label;
  testing::expect_step_equals_interpreter(r, 3);
  EXPECT_EQ(r.compiled->outcome().counted, 8);
  EXPECT_EQ(r.compiled->outcome().ignored_rows(), 1);
  std::fill_n(r.labels.as<std::int32_t>(), 12, ignored_label);
  EXPECT_EQ(r.step(3).loss_sum, 0);
  EXPECT_EQ(r.compiled->outcome().counted, 0);
  EXPECT_TRUE(std::ranges::all_of(r.flat_gradients(), [](float g) { return g == 0; }));
}

TEST(Plan, CostIsSaidByLayer) {
  rig r{model::build({{"linear 33 relu", "linear 3"}}, {{20}, 3}).value(), {.max_rows = 8}};
  const auto& layers = r.compiled->cost().layers;
  ASSERT_EQ(layers.size(), 4U); // the inputs, two layers, the loss
  EXPECT_EQ(layers[1].layer, "layer 1 \"linear 33 relu\"");
  EXPECT_EQ(layers[1].result, "(rows, 33)");
  EXPECT_EQ(layers[1].parameters, 20 * 33 + 33);
  // Forward and the weight's gradient, no gradient of x; relu's backward and the sum of the bias are small.
  EXPECT_NEAR(layers[1].flops_per_row, 2 * 2 * 20 * 33, 100);
  EXPECT_EQ(layers[1].kept_bytes_per_row, 33 * 4);
  EXPECT_EQ(layers[2].result, "(rows, 3)");
  double sum = 0;
  for (const auto& layer : layers)
    sum += layer.flops_per_row;
  EXPECT_DOUBLE_EQ(sum, r.compiled->cost().flops_per_row);
}

// By weight: forward takes 2, then 3 times as much (of 660 each), and backward 3 and 3 for the last layer's two products, but 2
// for the first one's, which needs no gradient of x.
TEST(Plan, CostSaysWhenAStepIsAtEachParameter) {
  rig r{model::build({{"linear 33 relu", "linear 30"}}, {{20}, 30}).value(), {.max_rows = 8}};
  const auto& slots = r.compiled->cost().slots;
  ASSERT_EQ(slots.size(), 4U); // two weights, each before its bias
  const double all = 2 + 3 + 3 + 3 + 2;
  EXPECT_EQ(slots[0].needed, 0);
  EXPECT_EQ(slots[1].needed, 0) << "its product adds it";
  EXPECT_NEAR(slots[2].needed, 2 / all, 0.03);
  EXPECT_GT(slots[2].ready, 5 / all);
  EXPECT_LT(slots[2].ready, 11 / all + 0.03);
  EXPECT_LT(slots[3].ready, 11 / all + 0.03);
  EXPECT_GT(slots[0].ready, 11 / all);
  EXPECT_EQ(std::max(slots[0].ready, slots[1].ready), 1);
}

TEST(Plan, AnEvaluationIsAtNoGradient) {
  rig r{model::build({{"linear 3"}}, {{20}, 3}).value(), {.max_rows = 8, .training = false}};
  EXPECT_TRUE(r.compiled->cost().slots.empty());
}

} // namespace
} // namespace troupe
