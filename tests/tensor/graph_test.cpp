// SPDX-License-Identifier: BSD-3-Clause
// Shape inference: what fits, and what the refusals say.
#include "tensor/graph.hpp"

#include <gtest/gtest.h>

namespace troupe {
namespace {

class Graph : public ::testing::Test {
protected:
  value_id input(shape sample) { return *g.apply(ops::input{std::move(sample)}, {}); }
  value_id parameter(shape dims) { return *g.apply(ops::parameter{slots++, std::move(dims)}, {}); }
  std::string refusal(ops::any op, std::vector<value_id> inputs) {
    auto made = g.apply(std::move(op), std::move(inputs));
    return made ? "" : made.error().message;
  }

  graph g;
  int slots = 0;
};

TEST_F(Graph, RowsStaySymbolic) {
  auto x = input({784});
  EXPECT_EQ(g.at(x).to_string(), "(rows, 784)");
  EXPECT_EQ(g.at(x).elements(3), 3 * 784);
  auto w = parameter({10, 784});
  EXPECT_EQ(g.at(w).to_string(), "(10, 784)");
  EXPECT_EQ(g.at(w).elements(3), 7840);
}

TEST_F(Graph, MatrixProductOfABatchIsABatch) {
  auto y = g.apply(ops::matmul{false, true}, {input({784}), parameter({10, 784})});
  ASSERT_TRUE(y);
  EXPECT_EQ(g.at(*y).to_string(), "(rows, 10)");
}

TEST_F(Graph, MatrixProductOverTheRowsIsAParameterGradient) {
  auto dw = g.apply(ops::matmul{true, false}, {input({10}), input({784})});
  ASSERT_TRUE(dw);
  EXPECT_EQ(g.at(*dw).to_string(), "(10, 784)");
}

TEST_F(Graph, AProductIsOverTheLastAxis) {
  auto y = g.apply(ops::matmul{false, true}, {input({5, 8}), parameter({3, 8})});
  ASSERT_TRUE(y);
  EXPECT_EQ(g.at(*y).to_string(), "(rows, 5, 3)");
  // All but the last are the rows of a matrix, of which there are five for each row of the batch.
  auto dw = g.apply(ops::matmul{true, false}, {*y, input({5, 8})});
  ASSERT_TRUE(dw);
  EXPECT_EQ(g.at(*dw).to_string(), "(3, 8)");
  EXPECT_EQ(refusal(ops::matmul{true, false}, {*y, input({4, 8})}),
            "the matrix product of (rows, 5, 3) transposed and (rows, 4, 8) has inner extents that differ");
  EXPECT_NE(refusal(ops::matmul{true, false}, {*y, parameter({5, 8})}), "");
}

TEST_F(Graph, BiasAndNormsAreOverTheLastAxes) {
  auto x = input({5, 8});
  EXPECT_EQ(g.at(*g.apply(ops::add_bias{}, {x, parameter({8})})).to_string(), "(rows, 5, 8)");
  EXPECT_NE(refusal(ops::add_bias{}, {x, parameter({5})}), "");
  EXPECT_EQ(g.at(*g.apply(ops::sum_to{{8}}, {x})).to_string(), "(8)");
  EXPECT_EQ(g.at(*g.apply(ops::sum_to{{5, 8}}, {x})).to_string(), "(5, 8)");
  EXPECT_EQ(refusal(ops::sum_to{{5}}, {x}), "(rows, 5, 8) cannot be summed to (5)");
  auto last = g.add(ops::layernorm{}, {x, parameter({8}), parameter({8})});
  ASSERT_TRUE(last);
  EXPECT_EQ(g.at(g.output(*last, 1)).to_string(), "(rows, 5)");
  auto all = g.add(ops::layernorm{}, {x, parameter({5, 8}), parameter({5, 8})});
  ASSERT_TRUE(all);
  EXPECT_EQ(g.at(g.output(*all, 1)).to_string(), "(rows)");
  EXPECT_NE(refusal(ops::layernorm{}, {x, parameter({5}), parameter({5})}), "");
}

TEST_F(Graph, EachPredictionHasALabelAndALoss) {
  auto labels = *g.apply(ops::input{{5}, dtype::i32}, {});
  auto loss = g.apply(ops::cross_entropy{}, {input({5, 3}), labels});
  ASSERT_TRUE(loss);
  EXPECT_EQ(g.at(*loss).to_string(), "(rows, 5)");
  EXPECT_EQ(refusal(ops::cross_entropy{}, {input({3}), labels}),
            "the loss needs logits (rows, ..., classes) and one label for each prediction, got (rows, 3) and (rows, 5)");
}

TEST_F(Graph, MisfitNamesTheLayerAndBothShapes) {
  g.begin_layer("layer 2 \"linear 10\"");
  EXPECT_EQ(refusal(ops::matmul{false, true}, {input({128}), parameter({10, 784})}),
            "layer 2 \"linear 10\": the matrix product of (rows, 128) and (10, 784) transposed has inner extents that differ");
}

TEST_F(Graph, RowsDoNotMatchAnExtent) {
  // (784, rows) times (784, 10): the number of rows is unknown, so it equals no extent.
  EXPECT_NE(refusal(ops::matmul{true, false}, {input({784}), parameter({784, 10})}), "");
}

TEST_F(Graph, ConvolutionAndPoolingShrinkThePlane) {
  auto y = g.apply(ops::conv2d{.stride = 2, .padding = 1}, {input({3, 32, 32}), parameter({8, 3, 3, 3}), parameter({8})});
  ASSERT_TRUE(y);
  EXPECT_EQ(g.at(*y).to_string(), "(rows, 8, 16, 16)");
  auto pooled = g.add(ops::max_pool{3, 3, 0}, {*y});
  ASSERT_TRUE(pooled);
  EXPECT_EQ(g.at(g.output(*pooled)).to_string(), "(rows, 8, 5, 5)");
  EXPECT_EQ(g.at(g.output(*pooled, 1)).type, dtype::i32);
}

TEST_F(Graph, ConvolutionRefusesOtherChannels) {
  EXPECT_EQ(refusal(ops::conv2d{}, {input({3, 32, 32}), parameter({8, 1, 3, 3})}),
            "a convolution needs images (rows, C, H, W), weights (K, C, kh, kw) and a bias (K), got (rows, 3, 32, 32) and (8, 1, "
            "3, 3)");
}

TEST_F(Graph, WindowThatIsLargerThanTheImageIsRefused) {
  EXPECT_EQ(refusal(ops::conv2d{}, {input({1, 4, 4}), parameter({8, 1, 5, 5})}),
            "a 5x5 window with padding 0 does not fit into (rows, 1, 4, 4); take a smaller one, or more padding");
  EXPECT_EQ(refusal(ops::max_pool{5, 5, 0}, {input({1, 4, 4})}),
            "a 5x5 window with padding 0 does not fit into (rows, 1, 4, 4); take a smaller one");
}

TEST_F(Graph, ConvolutionMayBePaddedBeyondItsWindowAndAPoolingMayNot) {
  const auto y = g.apply(ops::conv2d{.padding = 1}, {input({1, 28, 28}), parameter({6, 1, 3, 1})});
  ASSERT_TRUE(y);
  EXPECT_EQ(g.at(*y).to_string(), "(rows, 6, 28, 30)");
  EXPECT_EQ(refusal(ops::max_pool{2, 2, 2}, {input({1, 4, 4})}),
            "a 2x2 pooling window with padding 2 could lie in the padding alone; take a padding below 2");
  EXPECT_EQ(refusal(ops::conv2d{.padding = 30'000}, {input({1, 4, 4}), parameter({8, 1, 1, 1})}),
            "padding 30000 makes images of 60004x60004, which are too large; take less");
}

TEST_F(Graph, ElementwiseNeedsOneShape) {
  EXPECT_EQ(refusal(ops::binary{kernels::binary_op::add}, {input({4}), input({5})}),
            "an elementwise operation needs two tensors of one shape, got (rows, 4) and (rows, 5)");
}

TEST_F(Graph, ReshapeKeepsTheElements) {
  EXPECT_EQ(refusal(ops::reshape{{5}}, {input({2, 3})}), "(rows, 2, 3) cannot be seen as (rows, 5)");
  EXPECT_TRUE(g.apply(ops::reshape{{6}}, {input({2, 3})}));
}

} // namespace
} // namespace troupe
