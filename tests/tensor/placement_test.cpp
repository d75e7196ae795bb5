// SPDX-License-Identifier: BSD-3-Clause
// Lowering and buffer assignment: order, fusion, and that nothing alive is overwritten.
#include "tensor/placement.hpp"

#include <algorithm>

#include <gtest/gtest.h>

#include "tensor/autodiff.hpp"
#include "tensor/lowering.hpp"
#include "tensor/model.hpp"

namespace troupe {
namespace {

/// A model's training program, as plan.cpp makes it.
struct lowered {
  explicit lowered(const std::vector<std::string>& layers, const shape& sample) {
    auto source = model::build({layers}, {sample, 3}).value();
    g = source.forward();
    loss = source.loss();
    gradients = differentiate(g, loss, source.layout());
    wanted = gradients;
    wanted.push_back(loss);
    nodes = fuse_epilogues(g, order_nodes(g, wanted, gradients), wanted);
    for (const auto& n : g.nodes())
      if (std::holds_alternative<ops::parameter>(n.op))
        fixed[n.outputs[0]] = {region::parameters, 0};
    for (auto v : wanted)
      fixed[v] = {region::gradients, 0};
  }
  template <class Op>
  long count() const {
    return std::ranges::count_if(nodes, [](const auto& n) { return std::holds_alternative<Op>(n.op); });
  }

  graph g;
  value_id loss{};
  std::vector<value_id> gradients, wanted;
  std::vector<node> nodes;
  std::map<value_id, place> fixed;
};

TEST(Lowering, EveryInputIsMadeBeforeItIsRead) {
  const lowered l{{"conv 4 3x3 gelu", "pool 2", "flatten", "linear 8 relu", "layernorm", "linear 3"}, {1, 9, 9}};
  std::vector<bool> made(l.g.values().size(), false);
  for (const auto& n : l.nodes) {
    for (auto in : n.inputs)
      EXPECT_TRUE(made[static_cast<std::size_t>(in)]);
    for (auto out : n.outputs)
      made[static_cast<std::size_t>(out)] = true;
  }
}

TEST(Lowering, GradientsComeBeforeTheLayerBelowIsEntered) {
  const lowered l{{"linear 8 relu", "linear 3"}, {5}};
  // From the last layer's: its bias and weight, only then the product that goes on to the hidden layer.
  std::vector<std::string> after_loss;
  bool past = false;
  for (const auto& n : l.nodes) {
    if (past)
      after_loss.push_back(std::ranges::find(l.gradients, n.outputs[0]) != l.gradients.end() ? "gradient" : "step");
    past = past || std::holds_alternative<ops::cross_entropy>(n.op);
  }
  EXPECT_EQ(after_loss, (std::vector<std::string>{"gradient", "gradient", "step", "step", "gradient", "gradient"}));
}

TEST(Lowering, AmongReadyNodesAnEarlyOneRunsFirst) {
  graph g;
  auto x = *g.apply(ops::input{{4}}, {});
  auto first = *g.apply(ops::unary{kernels::unary_op::exp}, {x});
  auto second = *g.apply(ops::unary{kernels::unary_op::tanh}, {x});
  EXPECT_EQ(order_nodes(g, {first, second}, {})[1].outputs[0], first);
  EXPECT_EQ(order_nodes(g, {first, second}, {second})[1].outputs[0], second);
}

TEST(Lowering, ANodeRunsAfterThoseThatItFollows) {
  graph g;
  auto x = *g.apply(ops::input{{4}}, {});
  auto first = *g.apply(ops::unary{kernels::unary_op::exp}, {x});
  auto clone = *g.apply(ops::unary{kernels::unary_op::exp}, {x});
  auto slow = *g.apply(ops::unary{kernels::unary_op::tanh}, {*g.apply(ops::unary{kernels::unary_op::tanh}, {first})});
  auto last = *g.apply(ops::unary{kernels::unary_op::exp}, {x});
  g.follow(g.at(last).producer, g.at(slow).producer);
  const auto ordered = order_nodes(g, {clone, last}, {last});
  // What it follows runs too, though nothing reads it.
  ASSERT_EQ(ordered.size(), 6U);
  EXPECT_EQ(ordered[4].outputs[0], slow);
  EXPECT_EQ(ordered[5].outputs[0], last);
}

/// A loss of h + gelu(h) W, where h = x W'; its sum could be added to h.
struct residual {
  residual() {
    x = *g.apply(ops::input{{4}}, {});
    for (int slot = 0; slot < 3; ++slot)
      layout.slots.push_back({.name = "w", .dims = {4, 4}, .offset = layout.floats(), .init = {}});
    for (int slot = 0; slot < 3; ++slot)
      w[slot] = *g.apply(ops::parameter{slot, {4, 4}}, {});
    auto h = *g.apply(ops::matmul{}, {x, w[0]});
    auto branch = *g.apply(ops::matmul{}, {*g.apply(ops::unary{kernels::unary_op::gelu}, {h}), w[1]});
    auto y = *g.apply(ops::binary{kernels::binary_op::add}, {h, branch});
    labels = *g.apply(ops::input{{}, dtype::i32}, {});
    loss = *g.apply(ops::cross_entropy{}, {*g.apply(ops::matmul{}, {y, w[2]}), labels});
  }
  graph g;
  parameter_layout layout;
  value_id x{}, w[3]{}, labels{}, loss{};
};

long count_of_adding(const std::vector<node>& nodes) {
  return std::ranges::count_if(nodes, [](const auto& n) { return n.sum_of(0) != value_id::none; });
}

TEST(Lowering, AProductAddsItselfToTheSumThatItIsPartOf) {
  // y = x W0 + tanh(x) W1: the second product ends the sum, of which the first is the beginning.
  graph g;
  auto x = *g.apply(ops::input{{4}}, {});
  auto w0 = *g.apply(ops::parameter{0, {4, 4}}, {}), w1 = *g.apply(ops::parameter{1, {4, 4}}, {});
  auto first = *g.apply(ops::matmul{}, {x, w0});
  auto second = *g.apply(ops::matmul{}, {*g.apply(ops::unary{kernels::unary_op::tanh}, {x}), w1});
  auto sum = *g.apply(ops::binary{kernels::binary_op::add}, {first, second});
  auto nodes = fuse_epilogues(g, order_nodes(g, {sum}, {}), {sum});
  EXPECT_EQ(count_of_adding(nodes), 1);
  EXPECT_EQ(nodes.back().sums, std::vector{first});
  EXPECT_EQ(nodes.back().outputs[0], sum);
  // The first term is computed where the sum will be, wherever that is.
  const std::map<value_id, place> fixed{
      {w0, {region::parameters, 0}}, {w1, {region::parameters, 16}}, {sum, {region::gradients, 32}}};
  const auto places = place_values(g, nodes, fixed, 4).by_value;
  EXPECT_EQ(places[static_cast<std::size_t>(first)], (place{region::gradients, 32}));
}

TEST(Lowering, ASumThatIsReadAgainIsNotOverwritten) {
  // y = s + f(s) W for s = x W0: the activation reads s before the product adds to it, or after it.
  for (const bool after : {false, true}) {
    graph g;
    auto x = *g.apply(ops::input{{4}}, {});
    auto w0 = *g.apply(ops::parameter{0, {4, 4}}, {}), w1 = *g.apply(ops::parameter{1, {4, 4}}, {});
    auto s = *g.apply(ops::matmul{}, {x, w0});
    auto read = after ? value_id::none : *g.apply(ops::unary{kernels::unary_op::exp}, {s});
    auto product = *g.apply(ops::matmul{}, {*g.apply(ops::unary{kernels::unary_op::exp}, {x}), w1});
    if (after)
      read = *g.apply(ops::unary{kernels::unary_op::exp}, {s});
    auto sum = *g.apply(ops::binary{kernels::binary_op::add}, {s, product});
    const auto ordered = order_nodes(g, {sum, read}, {});
    EXPECT_EQ(count_of_adding(fuse_epilogues(g, ordered, {sum, read})), after ? 0 : 1);
  }
}

TEST(Lowering, TheForwardHasTheSameBitsInTrainingAndOutsideIt) {
  const residual r;
  EXPECT_EQ(count_of_adding(fuse_epilogues(r.g, order_nodes(r.g, {r.loss}, {}), {r.loss})), 0);
}

TEST(Lowering, BiasAndActivationGoIntoTheProduct) {
  const lowered l{{"linear 8 relu", "linear 8 tanh", "linear 3"}, {5}};
  EXPECT_EQ(l.count<ops::add_bias>(), 0);
  EXPECT_EQ(l.count<ops::unary>(), 0);
  const auto& first = *std::ranges::find_if(l.nodes, [](const auto& n) { return std::holds_alternative<ops::matmul>(n.op); });
  EXPECT_EQ(std::get<ops::matmul>(first.op).act, kernels::activation::relu);
  EXPECT_EQ(first.inputs.size(), 3U);
  EXPECT_EQ(first.outputs.size(), 1U);
}

TEST(Lowering, GeluKeepsItsArgumentForTheBackward) {
  const lowered l{{"linear 8 gelu", "linear 3"}, {5}};
  const auto& first = *std::ranges::find_if(l.nodes, [](const auto& n) { return std::holds_alternative<ops::matmul>(n.op); });
  EXPECT_EQ(std::get<ops::matmul>(first.op).act, kernels::activation::gelu);
  EXPECT_EQ(first.outputs.size(), 2U);
}

TEST(Lowering, ReluGoesIntoTheConvolutionAndTanhDoesNot) {
  EXPECT_EQ((lowered{{"conv 2 3x3 relu", "flatten", "linear 3"}, {1, 5, 5}}.count<ops::unary>()), 0);
  EXPECT_EQ((lowered{{"conv 2 3x3 tanh", "flatten", "linear 3"}, {1, 5, 5}}.count<ops::unary>()), 1);
}

TEST(Placement, ValuesThatAreAliveTogetherDoNotOverlap) {
  for (const auto& layers : std::vector<std::vector<std::string>>{
           {"linear 8 relu", "linear 9 gelu", "linear 3"},
           {"linear 8", "layernorm", "relu", "dropout 0.5", "tanh", "linear 3"},
       }) {
    const lowered l{layers, {5}};
    constexpr std::int64_t rows = 4;
    const auto places = place_values(l.g, l.nodes, l.fixed, rows);
    // Owner of each element of the workspace; a reader must find the value that it means.
    std::vector<value_id> owner(static_cast<std::size_t>(places.workspace_floats), value_id::none);
    auto elements = [&](value_id v) {
      const auto& p = places.by_value[static_cast<std::size_t>(v)];
      return p.where == region::workspace ? std::pair{p.offset, p.offset + l.g.at(v).elements(rows)}
                                          : std::pair{std::int64_t{0}, std::int64_t{0}};
    };
    for (const auto& n : l.nodes) {
      for (auto in : n.inputs)
        for (auto [i, end] = elements(in); i < end; ++i)
          ASSERT_EQ(owner[static_cast<std::size_t>(i)], in);
      for (auto out : n.outputs)
        for (auto [i, end] = elements(out); i < end; ++i)
          owner[static_cast<std::size_t>(i)] = out;
    }
  }
}

TEST(Placement, ReluBackwardOverwritesTheGradientItReads) {
  const lowered l{{"linear 8 relu", "linear 3"}, {5}};
  const auto places = place_values(l.g, l.nodes, l.fixed, 4);
  const auto& relu =
      *std::ranges::find_if(l.nodes, [](const auto& n) { return std::holds_alternative<ops::unary_backward>(n.op); });
  EXPECT_EQ(places.by_value[static_cast<std::size_t>(relu.inputs[1])],
            places.by_value[static_cast<std::size_t>(relu.outputs[0])]);
}

TEST(Placement, InputsAreThereFromTheBeginning) {
  // Labels that are added last are copied in first all the same: nothing may use their place before they are read.
  graph g;
  auto chain = *g.apply(ops::input{{4}}, {});
  auto w = *g.apply(ops::parameter{0, {4, 4}}, {});
  for (int i = 0; i < 4; ++i)
    chain = *g.apply(ops::matmul{}, {chain, w});
  auto labels = *g.apply(ops::input{{}, dtype::i32}, {});
  auto loss = *g.apply(ops::cross_entropy{}, {chain, labels});
  const auto nodes = order_nodes(g, {loss}, {});
  const std::map<value_id, place> fixed{{w, {region::parameters, 0}}, {loss, {region::report, 0}}};
  const auto places = place_values(g, nodes, fixed, 4).by_value;
  for (const auto& n : nodes)
    for (auto out : n.outputs)
      if (out != labels && places[static_cast<std::size_t>(out)].where == region::workspace) {
        EXPECT_NE(places[static_cast<std::size_t>(out)], places[static_cast<std::size_t>(labels)]);
      }
}

TEST(Placement, ResultsNobodyReadsAreNowhere) {
  const lowered l{{"conv 2 3x3", "flatten", "linear 3"}, {1, 5, 5}};
  const auto places = place_values(l.g, l.nodes, l.fixed, 4);
  const auto& conv =
      *std::ranges::find_if(l.nodes, [](const auto& n) { return std::holds_alternative<ops::conv2d_backward>(n.op); });
  EXPECT_EQ(places.by_value[static_cast<std::size_t>(conv.outputs[0])].where, region::nowhere);
}

} // namespace
} // namespace troupe
