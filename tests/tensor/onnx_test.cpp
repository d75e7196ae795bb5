// SPDX-License-Identifier: BSD-3-Clause
// ONNX graphs as values: what is recognised, what is folded, what is refused. Files are tests/apps/onnx_test.py's.
#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "tensor/model.hpp"
#include "tensor/onnx/export.hpp"
#include "tensor/onnx/import.hpp"
#include "tensor/safetensors.hpp"

namespace troupe {
namespace {

const data_format pixels{{3, 8, 8}, 5};
const data_format words{{6}, 11, dtype::i32, 11, {6}};
const data_format features{{4, 6}, 3};

std::vector<float> first_parameters_of(const model& net) {
  std::vector<float> flat(static_cast<std::size_t>(net.layout().floats()));
  initialize_parameters(net.layout(), 7, flat.data());
  return flat;
}

result<model> imported_model(onnx::document from, const data_format& data) {
  layers::builder built{data};
  if (auto added = onnx::add_graph(built, std::move(from)); !added)
    return added.error();
  if (auto ended = built.finish({}); !ended)
    return ended.error();
  return model::from_graph({.forward = built.take_graph(),
                            .layout = built.take_layout(),
                            .input = built.input(),
                            .labels = built.labels(),
                            .loss = built.loss()});
}

/// How often each operation occurs, by its place among them.
std::vector<std::size_t> operations_of(const model& net) {
  std::vector<std::size_t> out;
  for (const auto& n : net.forward().nodes())
    out.push_back(n.op.index());
  std::ranges::sort(out);
  return out;
}

template <class Op>
std::ptrdiff_t count_of(const model& net) {
  return std::ranges::count_if(net.forward().nodes(), [](const node& n) { return std::holds_alternative<Op>(n.op); });
}

TEST(Onnx, WhatIsExportedIsMadeOfTheSameOperationsAgain) {
  const auto of_layers = [](std::vector<std::string> list) { return model_spec{.layers = std::move(list)}; };
  const auto of_kind = [](network_spec network) { return model_spec{.layers = {}, .network = std::move(network)}; };
  const std::vector<std::pair<model_spec, data_format>> cases{
      {of_kind({.kind = "gpt", .depth = 2, .heads = 2, .width = 8, .dropout = 0.1}), words},
      {of_kind({.kind = "lstm", .depth = 2, .width = 5}), words},
      {of_kind({.kind = "gru", .depth = 1, .width = 5}), words},
      {of_kind({.kind = "resnet", .depth = 8, .width = 2}), pixels},
      {of_layers({"embedding 8", "positions", "layernorm", "attention 2", "linear 8 silu", "linear 8 gelu-erf", "head tied"}),
       words},
      {of_layers({"conv 4 3x3 gelu", "dropout 0.2", "pool 2", "flatten", "linear 5"}), pixels}};
  for (const auto& [spec, data] : cases) {
    const auto net = model::build(spec, data);
    ASSERT_TRUE(net.has_value()) << net.error().message;
    const auto flat = first_parameters_of(*net);
    const auto written = onnx::export_model(*net, flat.data(), "net");
    ASSERT_TRUE(written.has_value()) << written.error().message;
    const auto again = imported_model(*written, data);
    ASSERT_TRUE(again.has_value()) << again.error().message;
    EXPECT_EQ(operations_of(*again), operations_of(*net)) << spec.network.kind;
    EXPECT_EQ(weights_digest(again->layout(), first_parameters_of(*again).data()), weights_digest(net->layout(), flat.data()));
  }
}

// -- graphs by hand

onnx::tensor numbers(const std::string& name, std::vector<std::int64_t> dims, float value) {
  std::int64_t count = 1;
  for (const auto extent : dims)
    count *= extent;
  return {.name = name,
          .type = onnx::element_type::f32,
          .dims = std::move(dims),
          .floats = std::vector<float>(static_cast<std::size_t>(count), value),
          .integers = {}};
}

onnx::tensor list_of(const std::string& name, std::vector<std::int64_t> values) {
  return {.name = name,
          .type = onnx::element_type::i64,
          .dims = {static_cast<std::int64_t>(values.size())},
          .floats = {},
          .integers = std::move(values)};
}

onnx::node call(const std::string& type, std::vector<std::string> inputs, const std::string& output,
                std::vector<onnx::attribute> attributes = {}) {
  return {.name = type + " of " + output,
          .type = type,
          .domain = {},
          .inputs = std::move(inputs),
          .outputs = {output},
          .attributes = std::move(attributes)};
}

/// From x (rows, 4, 6) to y; `w` is (24, 3).
onnx::document graph_of(std::vector<onnx::node> nodes, std::vector<onnx::tensor> constants) {
  onnx::document out;
  out.inputs = {{.name = "x", .type = onnx::element_type::f32, .dims = {-1, 4, 6}, .has_dims = true, .batch = "rows"}};
  out.outputs = {{.name = "y", .type = onnx::element_type::f32, .dims = {-1, 3}, .has_dims = true, .batch = "rows"}};
  out.nodes = std::move(nodes);
  out.initializers = std::move(constants);
  out.initializers.push_back(numbers("w", {24, 3}, 0.1F));
  return out;
}

TEST(Onnx, AnEndOfTheShapeOfAnotherTensorIsFolded) {
  const auto net = imported_model(
      graph_of({call("Shape", {"x"}, "shape"), call("Gather", {"shape", "first"}, "rows"),
                call("Gather", {"shape", "others"}, "extents"),
                call("ReduceProd", {"extents"}, "count", {{"keepdims", std::int64_t{0}}}),
                call("Unsqueeze", {"count", "axis"}, "list"), call("Concat", {"rows", "list"}, "to", {{"axis", std::int64_t{0}}}),
                call("Reshape", {"x", "to"}, "flat"), call("MatMul", {"flat", "w"}, "y")},
               {list_of("first", {0}), list_of("others", {1, 2}), list_of("axis", {0})}),
      features);
  ASSERT_TRUE(net.has_value()) << net.error().message;
  EXPECT_EQ(count_of<ops::matmul>(*net), 1);
  EXPECT_EQ(net->layout().slots.size(), 1U);
}

TEST(Onnx, ATakenApartLayerNormIsOneOperation) {
  const onnx::attribute last{"axes", std::vector<std::int64_t>{-1}};
  auto whole = graph_of({}, {numbers("gamma", {6}, 1), numbers("beta", {6}, 0)});
  const auto scalar = [](float value) { return onnx::attribute{"value", numbers("", {}, value)}; };
  whole.nodes = {call("Constant", {}, "two", {scalar(2)}),    call("Constant", {}, "epsilon", {scalar(1e-5F)}),
                 call("ReduceMean", {"x"}, "mean", {last}),   call("Sub", {"x", "mean"}, "d"),
                 call("Pow", {"d", "two"}, "square"),         call("ReduceMean", {"square"}, "variance", {last}),
                 call("Add", {"variance", "epsilon"}, "sum"), call("Sqrt", {"sum"}, "root"),
                 call("Div", {"d", "root"}, "normal"),        call("Mul", {"normal", "gamma"}, "scaled"),
                 call("Add", {"scaled", "beta"}, "norm"),     call("Flatten", {"norm"}, "flat"),
                 call("MatMul", {"flat", "w"}, "y")};
  const auto made = imported_model(std::move(whole), features);
  ASSERT_TRUE(made.has_value()) << made.error().message;
  EXPECT_EQ(count_of<ops::layernorm>(*made), 1);
  EXPECT_EQ(count_of<ops::binary>(*made), 0);
}

std::string refusal_of(std::vector<onnx::node> nodes, std::vector<onnx::tensor> constants = {}) {
  const auto made = imported_model(graph_of(std::move(nodes), std::move(constants)), features);
  return made ? "nothing" : made.error().message;
}

TEST(Onnx, WhatMixesRowsIsRefusedByItsNode) {
  const auto reshape = [](std::vector<std::int64_t> to) {
    return refusal_of({call("Reshape", {"x", "to"}, "flat"), call("MatMul", {"flat", "w"}, "y")}, {list_of("to", std::move(to))});
  };
  EXPECT_EQ(reshape({-1, 24}), "nothing");
  EXPECT_EQ(reshape({0, -1}), "nothing");
  const std::string mixes =
      "node \"Reshape of flat\" (Reshape): mixes the rows of the batch with another axis, and each row is computed "
      "by itself; keep the first axis, as in x.reshape(x.shape[0], -1)";
  EXPECT_EQ(reshape({-1, 6}), mixes);
  EXPECT_EQ(reshape({24, -1}), mixes);
  EXPECT_NE(refusal_of({call("ReduceMean", {"x"}, "y", {{"axes", std::vector<std::int64_t>{0}}})}).find("works along the rows"),
            std::string::npos);
  EXPECT_NE(refusal_of({call("Transpose", {"x"}, "y", {{"perm", std::vector<std::int64_t>{1, 0, 2}}})})
                .find("does not have the rows of the batch as its first axis"),
            std::string::npos);
}

TEST(Onnx, ANodeThatNobodyNeedsMayBeAnything) {
  EXPECT_EQ(refusal_of({call("Hardmax", {"x"}, "odd"), call("Relu", {"odd"}, "rest"), call("Flatten", {"x"}, "flat"),
                        call("MatMul", {"flat", "w"}, "y")}),
            "nothing");
  EXPECT_NE(refusal_of({call("Hardmax", {"x"}, "odd"), call("Relu", {"odd"}, "rest"), call("Flatten", {"rest"}, "flat"),
                        call("MatMul", {"flat", "w"}, "y")})
                .find("node \"Hardmax of odd\" (Hardmax): is of an operator that is not read; there are Abs, "),
            std::string::npos);
}

TEST(Onnx, ConstantsHaveABound) {
  EXPECT_NE(refusal_of({call("ConstantOfShape", {"huge"}, "c"), call("Add", {"x", "c"}, "y")},
                       {list_of("huge", {std::int64_t{1} << 62})})
                .find("which is too large"),
            std::string::npos);
}

} // namespace
} // namespace troupe
