// SPDX-License-Identifier: BSD-3-Clause
// Every rule against central differences, both in double, by the plain interpreter.
#include "tensor/autodiff.hpp"

#include <cmath>

#include <gtest/gtest.h>

#include "kernels/random.hpp"
#include "tensor/model.hpp"
#include "tests/tensor/central_differences.hpp"

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

interpreter_inputs random_inputs(const std::vector<shape>& parameters, const data_format& data) {
  interpreter_inputs in{
      .rows = rows, .parameters = {}, .x = draw(static_cast<std::size_t>(rows * data.sample.elements()), 1000), .labels = {}};
  for (std::size_t slot = 0; slot < parameters.size(); ++slot)
    in.parameters.push_back(draw(static_cast<std::size_t>(parameters[slot].elements()), static_cast<std::uint32_t>(slot)));
  for (std::int64_t i = 0; i < rows * data.labels.elements(); ++i)
    in.labels.push_back(static_cast<double>(i % data.classes));
  in.key = {.seed = 3, .stream = 2, .step = 11};
  return in;
}

struct model_case {
  std::string name;
  std::vector<std::string> layers;
  data_format data;
};

class AutodiffOfModels : public ::testing::TestWithParam<model_case> {};

TEST_P(AutodiffOfModels, GradientsEqualCentralDifferences) {
  auto m = model::build({GetParam().layers}, GetParam().data);
  ASSERT_TRUE(m) << m.error().message;
  std::vector<shape> dims;
  for (const auto& slot : m->layout().slots)
    dims.push_back(slot.dims);
  expect_gradients(m->forward(), m->loss(), random_inputs(dims, GetParam().data));
}

INSTANTIATE_TEST_SUITE_P(
    Layers, AutodiffOfModels,
    ::testing::Values(
        model_case{"linear", {"linear 3"}, {{5}, 3}}, //
        model_case{"relu", {"linear 4 relu", "linear 3"}, {{5}, 3}}, model_case{"tanh", {"linear 4 tanh", "linear 3"}, {{5}, 3}},
        model_case{"sigmoid", {"linear 4 sigmoid", "linear 3"}, {{5}, 3}},
        model_case{"gelu", {"linear 4 gelu", "linear 3"}, {{5}, 3}},
        model_case{"activations", testing::every_activation(), {{5}, 3}},
        model_case{"layernorm", {"linear 4", "layernorm", "linear 3"}, {{5}, 3}},
        model_case{"layernorm_first", {"layernorm", "linear 3"}, {{5}, 3}},
        model_case{"dropout", {"linear 6 relu", "dropout 0.4", "linear 5", "dropout 0.2", "linear 3"}, {{5}, 3}},
        model_case{"conv", {"conv 2 3x3", "flatten", "linear 3"}, {{2, 5, 4}, 3}},
        model_case{"conv_strided", {"conv 3 3x2 tanh stride 2 pad 1", "conv 2 2x2 relu", "flatten", "linear 3"}, {{2, 5, 6}, 3}},
        model_case{"conv_layernorm", {"conv 2 2x2", "layernorm", "conv 2 2x2 gelu", "flatten", "linear 3"}, {{1, 4, 4}, 3}},
        model_case{"max_pool", {"conv 2 2x2", "pool 2", "flatten", "linear 3"}, {{1, 6, 7}, 3}},
        model_case{"avg_pool", {"conv 2 2x2", "avgpool 2", "flatten", "linear 3"}, {{1, 6, 7}, 3}},
        model_case{
            "pool_then_conv", {"conv 2 2x2", "pool 2", "conv 2 2x2 relu", "avgpool 2", "flatten", "linear 3"}, {{1, 7, 7}, 3}},
        model_case{
            "tokens", {"linear 4 tanh", "layernorm", "dropout 0.2", "linear 3"}, {.sample = {2, 5}, .classes = 3, .labels = {2}}},
        model_case{"tokens_to_one_label", {"linear 4 gelu", "layernorm", "flatten", "linear 3"}, {{2, 5}, 3}}),
    [](const auto& info) { return info.param.name; });

/// Graphs that no layer list makes: residual sums, tied weights, the other elementwise functions.
class AutodiffOfGraphs : public ::testing::Test {
protected:
  value_id parameter(shape dims) {
    dims_.push_back(dims);
    return *g.apply(ops::parameter{static_cast<int>(dims_.size()) - 1, std::move(dims)}, {});
  }
  value_id finish(value_id logits) { return *g.apply(ops::cross_entropy{}, {logits, labels}); }
  void check(value_id loss) { expect_gradients(g, loss, random_inputs(dims_, {{4}, 3})); }

  graph g;
  std::vector<shape> dims_;
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

TEST_F(AutodiffOfGraphs, TheInputOfTheFirstLayerGetsNoGradient) {
  auto loss = finish(*g.apply(ops::matmul{}, {x, parameter({4, 3})}));
  const auto before = g.nodes().size();
  differentiate(g, loss, 1);
  ASSERT_EQ(g.nodes().size(), before + 1); // the weight's alone
}

TEST_F(AutodiffOfGraphs, ParameterThatTheLossDoesNotReadHasNone) {
  auto w = parameter({4, 3});
  parameter({7});
  auto gradients = differentiate(g, finish(*g.apply(ops::matmul{}, {x, w})), 2);
  EXPECT_NE(gradients[0], value_id::none);
  EXPECT_EQ(gradients[1], value_id::none);
}

} // namespace
} // namespace troupe
