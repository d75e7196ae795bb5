// SPDX-License-Identifier: BSD-3-Clause
// Every rule against central differences, both in double, by the plain interpreter.
#include "tensor/autodiff.hpp"

#include <cmath>

#include <gtest/gtest.h>

#include "kernels/random.hpp"
#include "tensor/model.hpp"
#include "tests/tensor/central_differences.hpp"
#include "tests/tensor/example_models.hpp"

namespace troupe {
namespace {

using testing::expect_gradients;
using testing::interpreter_inputs;

constexpr std::int64_t rows = 3;

std::vector<double> draw(std::size_t count, std::uint32_t stream) {
  std::vector<double> numbers;
  for (std::size_t i = 0; i < count; ++i)
    numbers.push_back(kernels::random_normal({.seed = 7, .stream = stream, .step = 0}, i));
  return numbers;
}

interpreter_inputs random_inputs(const parameter_layout& layout, const data_format& data) {
  interpreter_inputs in{
      .rows = rows, .parameters = {}, .x = draw(static_cast<std::size_t>(rows * data.sample.elements()), 1000), .labels = {}};
  if (data.type == dtype::i32)
    for (std::size_t i = 0; i < in.x.size(); ++i)
      in.x[i] = static_cast<double>((7 * i + 3) % static_cast<std::size_t>(data.ids));
  for (std::size_t slot = 0; slot < layout.slots.size(); ++slot)
    in.parameters.push_back(draw(static_cast<std::size_t>(layout.slots[slot].elements()), static_cast<std::uint32_t>(slot)));
  for (std::int64_t i = 0; i < rows * data.labels.elements(); ++i)
    in.labels.push_back(data.label_type == dtype::i32 ? static_cast<double>(i % data.classes)
                                                      : 0.1 * static_cast<double>(i % 11));
  in.key = {.seed = 3, .stream = 2, .step = 11};
  return in;
}

class AutodiffOfModels : public ::testing::TestWithParam<testing::example_model> {};

TEST_P(AutodiffOfModels, GradientsEqualCentralDifferences) {
  const auto m = model::build(GetParam().spec, GetParam().data);
  ASSERT_TRUE(m) << m.error().message;
  expect_gradients(m->forward(), m->loss(), m->layout(), random_inputs(m->layout(), GetParam().data), 40);
}

INSTANTIATE_TEST_SUITE_P(Examples, AutodiffOfModels, ::testing::ValuesIn(testing::example_models()),
                         [](const auto& info) { return info.param.name; });

/// Graphs that no layer list makes: residual sums, tied weights, the other elementwise functions.
class AutodiffOfGraphs : public ::testing::Test {
protected:
  value_id parameter(shape dims, slot_kind kind = slot_kind::trained) {
    layout.slots.push_back({.name = "w", .dims = dims, .offset = layout.floats(), .init = {}, .kind = kind});
    return *g.apply(ops::parameter{static_cast<int>(layout.slots.size()) - 1, std::move(dims)}, {});
  }
  value_id apply(ops::any op, std::vector<value_id> inputs) { return g.apply(std::move(op), std::move(inputs)).value(); }
  value_id finish(value_id logits) { return *g.apply(ops::cross_entropy{}, {logits, labels}); }
  void check(value_id loss) { expect_gradients(g, loss, layout, random_inputs(layout, {{4}, 3})); }

  graph g;
  parameter_layout layout;
  value_id x = *g.apply(ops::input{{4}}, {});
  value_id labels = *g.apply(ops::input{{}, dtype::i32}, {});
};

TEST_F(AutodiffOfGraphs, EveryOrientationOfAProduct) {
  auto a = *g.apply(ops::matmul{false, false}, {x, parameter({4, 5})});
  auto w = *g.apply(ops::matmul{true, false}, {parameter({2, 5}), parameter({2, 3})});
  auto v = *g.apply(ops::matmul{true, true}, {parameter({4, 5}), parameter({3, 4})});
  auto u = *g.apply(ops::matmul{false, true}, {parameter({5, 2}), parameter({3, 2})});
  auto sum = *g.apply(ops::binary{kernels::binary_op::add}, {*g.apply(ops::binary{kernels::binary_op::add}, {w, v}), u});
  check(finish(*g.apply(ops::matmul{}, {a, sum})));
}

TEST_F(AutodiffOfGraphs, ResidualSumAddsBothGradients) {
  auto h = *g.apply(ops::matmul{}, {x, parameter({4, 3})});
  auto branch = *g.apply(ops::unary{kernels::unary_op::tanh}, {h});
  check(finish(*g.apply(ops::binary{kernels::binary_op::add}, {h, branch})));
}

TEST_F(AutodiffOfGraphs, TiedWeightsGetTheSum) {
  auto w = parameter({4, 4});
  auto h = *g.apply(ops::unary{kernels::unary_op::tanh}, {*g.apply(ops::matmul{}, {x, w})});
  auto h2 = *g.apply(ops::matmul{false, true}, {h, w});
  check(finish(*g.apply(ops::matmul{}, {h2, parameter({4, 3})})));
}

TEST_F(AutodiffOfGraphs, SumOfParametersGivesEachAGradientOfItsOwn) {
  auto w = *g.apply(ops::binary{kernels::binary_op::add}, {parameter({4, 3}), parameter({4, 3})});
  check(finish(*g.apply(ops::matmul{}, {x, w})));
}

TEST_F(AutodiffOfGraphs, ElementwiseFunctions) {
  using enum kernels::unary_op;
  auto h = *g.apply(ops::matmul{}, {x, parameter({4, 3})});
  auto positive = *g.apply(ops::unary{exp}, {h});
  for (auto function : {log, sqrt, square, negate, copy, gelu}) {
    auto branch = *g.apply(ops::unary{function}, {positive});
    h = *g.apply(ops::binary{kernels::binary_op::subtract}, {h, branch});
  }
  check(finish(h));
}

TEST_F(AutodiffOfGraphs, ProductsAndQuotients) {
  auto a = *g.apply(ops::matmul{}, {x, parameter({4, 3})});
  auto b = *g.apply(ops::unary{kernels::unary_op::exp}, {*g.apply(ops::matmul{}, {x, parameter({4, 3})})});
  auto q = *g.apply(ops::binary{kernels::binary_op::divide}, {a, b});
  check(finish(*g.apply(ops::binary{kernels::binary_op::multiply}, {q, b})));
  check(finish(*g.apply(ops::binary{kernels::binary_op::divide}, {q, b})));
}

TEST_F(AutodiffOfGraphs, OperandsOfOtherExtentsGetTheSumOfWhatTheyAreRepeatedTo) {
  using enum kernels::binary_op;
  // (rows, 2, 3): x W, by a value a row, a column, a whole sample and a single number.
  const auto h = apply(ops::reshape{{2, 3}}, {apply(ops::matmul{}, {x, parameter({4, 6})})});
  const auto row = apply(ops::reshape{{2, 1}}, {apply(ops::matmul{}, {x, parameter({4, 2})})});
  auto y = apply(ops::binary{multiply}, {h, row});
  y = apply(ops::binary{add}, {y, parameter({3})});
  y = apply(ops::binary{subtract}, {parameter({2, 3}), y});
  y = apply(ops::binary{divide}, {y, apply(ops::unary{kernels::unary_op::exp}, {parameter({1})})});
  y = apply(ops::binary{multiply}, {parameter({2, 1}), y});
  check(finish(apply(ops::reshape{{3}}, {apply(ops::sum_to{{1, 3}, true, 0.5F}, {y})})));
}

TEST_F(AutodiffOfGraphs, SumsAndRepetitionsAreEachOthersGradients) {
  const auto h = apply(ops::reshape{{2, 3}}, {apply(ops::matmul{}, {x, parameter({4, 6})})});
  const auto sums = apply(ops::unary{kernels::unary_op::tanh}, {apply(ops::sum_to{{2, 1}, true, 0.25F}, {h})});
  const auto over_rows = apply(ops::unary{kernels::unary_op::tanh}, {apply(ops::sum_to{{3}, false, 0.5F}, {h})});
  const auto again = apply(ops::expand{{2, 3}, true, 1.5F}, {sums});
  const auto y = apply(ops::binary{kernels::binary_op::multiply}, {again, apply(ops::expand{{2, 3}, true}, {over_rows})});
  check(finish(apply(ops::matmul{}, {apply(ops::reshape{{6}}, {y}), parameter({6, 3})})));
}

TEST_F(AutodiffOfGraphs, EachOfANodesResultsHasAGradientOfItsOwn) {
  // Three parts, of which one is read twice, one once and one not at all.
  const auto h = apply(ops::reshape{{7, 2}}, {apply(ops::matmul{}, {x, parameter({4, 14})})});
  const auto made = *g.add(ops::split{0, {3, 1, 3}}, {h});
  const auto twice = g.output(made, 2), once = g.output(made, 0);
  auto y = apply(ops::binary{kernels::binary_op::multiply}, {twice, once});
  y = apply(ops::concat{1}, {y, apply(ops::unary{kernels::unary_op::tanh}, {twice})});
  y = apply(ops::permute{{1, 0}}, {y}); // (4, 3)
  check(finish(apply(ops::matmul{}, {apply(ops::reshape{{12}}, {y}), parameter({12, 3})})));
}

TEST_F(AutodiffOfGraphs, EveryOrientationOfAProductForEachMatrix) {
  const auto a = apply(ops::reshape{{2, 3, 2}}, {apply(ops::matmul{}, {x, parameter({4, 12})})});
  const auto b = apply(ops::reshape{{2, 3, 2}}, {apply(ops::matmul{}, {x, parameter({4, 12})})});
  const auto turned = apply(ops::permute{{0, 2, 1}}, {b});
  const auto one = apply(ops::batched_matmul{true, false, 0.5F}, {a, b});          // (2, 2, 2)
  const auto two = apply(ops::batched_matmul{true, true, 1}, {a, turned});         // (2, 2, 2)
  const auto three = apply(ops::batched_matmul{false, true, 1}, {turned, turned}); // (2, 2, 2)
  const auto scores = apply(ops::softmax{}, {apply(ops::binary{kernels::binary_op::add}, {one, two})});
  const auto y = apply(ops::batched_matmul{false, false, 2}, {scores, three});
  check(finish(apply(ops::matmul{}, {apply(ops::reshape{{8}}, {y}), parameter({8, 3})})));
}

TEST_F(AutodiffOfGraphs, AttentionOfQueriesKeysAndValuesApart) {
  const auto of = [&](std::int64_t width) {
    return apply(ops::reshape{{3, width}}, {apply(ops::matmul{}, {x, parameter({4, 3 * width})})});
  };
  const auto q = of(8), k = of(4), v = of(4);
  const auto y = apply(ops::attention{.heads = 4, .key_heads = 2, .causal = true, .rate = 0.2F, .stream = 3}, {q, k, v});
  check(finish(apply(ops::matmul{}, {apply(ops::reshape{{24}}, {y}), parameter({24, 3})})));
}

TEST_F(AutodiffOfGraphs, RotaryPositionsOfNeighbours) {
  const auto h = apply(ops::reshape{{3, 6}}, {apply(ops::matmul{}, {x, parameter({4, 18})})});
  const auto y = apply(ops::rotary{.heads = 1, .head_size = 4, .base = 100, .interleaved = true}, {h});
  check(finish(apply(ops::matmul{}, {apply(ops::reshape{{18}}, {y}), parameter({18, 3})})));
}

TEST_F(AutodiffOfGraphs, AFrozenParameterHasNoGradientAndWhatIsBelowItDoes) {
  const auto below = parameter({4, 4}), frozen = parameter({4, 3}, slot_kind::frozen);
  const auto h = apply(ops::unary{kernels::unary_op::tanh}, {apply(ops::matmul{}, {x, below})});
  const auto gradients = differentiate(g, finish(apply(ops::matmul{}, {h, frozen})), layout);
  EXPECT_NE(gradients[0], value_id::none);
  EXPECT_EQ(gradients[1], value_id::none);
}

TEST_F(AutodiffOfGraphs, BelowWhatIsFrozenNothingIsDifferentiated) {
  const auto loss =
      finish(apply(ops::matmul{},
                   {apply(ops::unary{kernels::unary_op::tanh}, {apply(ops::matmul{}, {x, parameter({4, 4}, slot_kind::frozen)})}),
                    parameter({4, 3})}));
  const auto before = g.nodes().size();
  differentiate(g, loss, layout);
  EXPECT_EQ(g.nodes().size(), before + 1); // the last weight's alone
}

TEST_F(AutodiffOfGraphs, IgnoredLabelsTakeNoPart) {
  const auto loss = finish(apply(ops::matmul{}, {x, parameter({4, 3})}));
  auto in = random_inputs(layout, {{4}, 3});
  in.labels[1] = ignored_label;
  expect_gradients(g, loss, layout, in);
}

TEST_F(AutodiffOfGraphs, TheInputOfTheFirstLayerGetsNoGradient) {
  auto loss = finish(*g.apply(ops::matmul{}, {x, parameter({4, 3})}));
  const auto before = g.nodes().size();
  differentiate(g, loss, layout);
  ASSERT_EQ(g.nodes().size(), before + 1); // the weight's alone
}

TEST_F(AutodiffOfGraphs, ParameterThatTheLossDoesNotReadHasNone) {
  auto w = parameter({4, 3});
  parameter({7});
  auto gradients = differentiate(g, finish(*g.apply(ops::matmul{}, {x, w})), layout);
  EXPECT_NE(gradients[0], value_id::none);
  EXPECT_EQ(gradients[1], value_id::none);
}

} // namespace
} // namespace troupe
