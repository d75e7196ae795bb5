// SPDX-License-Identifier: BSD-3-Clause
// One overload per op that a forward graph may hold.
#include "tensor/onnx/export.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <set>
#include <utility>

#include <fmt/format.h>

#include "tensor/onnx/file.hpp"

namespace troupe::onnx {

namespace {

using extents_written = std::vector<std::int64_t>;
using names_written = std::vector<std::string>;

struct not_written {
  std::string why;
};

class exporter {
public:
  exporter(const model& net, const float* flat, const std::string& name) : net_(net), g_(net.forward()), flat_(flat) {
    out_.opset = newest_opset;
    out_.producer = "Troupe";
    out_.graph = name;
  }

  document run() {
    const auto declared = [this](value_id v, const char* name) {
      auto dims = g_.at(v).dims.extents();
      dims.insert(dims.begin(), -1);
      return declared_value{.name = name,
                            .type = g_.at(v).type == dtype::i32 ? element_type::i64 : element_type::f32,
                            .dims = std::move(dims),
                            .has_dims = true,
                            .batch = "rows"};
    };
    out_.inputs = {declared(net_.input(), "input")};
    out_.outputs = {declared(net_.predictions(), "output")};
    names_[net_.input()] = "input";
    for (const auto& slot : net_.layout().slots)
      out_.initializers.push_back({.name = slot.name,
                                   .type = element_type::f32,
                                   .dims = slot.dims.extents(),
                                   .floats = {flat_ + slot.offset, flat_ + slot.offset + slot.elements()},
                                   .integers = {}});
    const auto last = g_.at(net_.predictions()).producer;
    for (std::size_t id = 0; id <= static_cast<std::size_t>(last); ++id) {
      node_ = &g_.nodes()[id];
      std::visit(*this, node_->op);
    }
    make({.type = "Identity", .inputs = {names_.at(net_.predictions())}, .outputs = {"output"}});
    leave_out_unread();
    return std::move(out_);
  }

  // -- sources

  void operator()(const ops::input&) {} // labels have no name
  void operator()(const ops::parameter& op) {
    names_[node_->outputs[0]] = net_.layout().slots[static_cast<std::size_t>(op.slot)].name;
  }
  void operator()(const ops::gradient&) { refuse(); }
  void operator()(const ops::constant& op) {
    tensor value{.name = {}, .type = element_type::f32, .dims = {1}, .floats = {op.value}, .integers = {}};
    auto dims = op.dims.extents();
    if (op.per_row)
      dims.insert(dims.begin(), 1); // repeated
    if (dims.empty())
      return give(number(op.value));
    give(one("ConstantOfShape", {list(dims)}, {{"value", std::move(value)}}));
  }

  // -- products

  void operator()(const ops::matmul& op) {
    const auto &a = at(0), &b = at(1);
    if (op.transpose_a)
      return refuse();
    if (a.per_row && a.dims.rank() == 1)
      return give(one("Gemm", {in(0), in(1)}, {{"transB", std::int64_t{op.transpose_b}}}));
    give(one("MatMul", {in(0), op.transpose_b ? swapped(in(1), onnx_rank(b)) : in(1)}));
  }
  void operator()(const ops::batched_matmul& op) {
    const auto rank = onnx_rank(at(0));
    const auto left = op.transpose_a ? swapped(in(0), rank) : in(0), right = op.transpose_b ? swapped(in(1), rank) : in(1);
    give(scaled(one("MatMul", {left, right}), op.scale));
  }
  void operator()(const ops::conv2d& op) {
    const auto& w = at(1).dims;
    names_written inputs{in(0), in(1)};
    if (node_->inputs.size() == 3)
      inputs.push_back(in(2));
    give(one("Conv", std::move(inputs),
             {{"kernel_shape", extents_written{w[2], w[3]}},
              {"strides", extents_written(2, op.stride)},
              {"pads", extents_written(4, op.padding)},
              {"dilations", extents_written(2, op.dilation)},
              {"group", op.groups}}));
  }

  // -- elementwise

  void operator()(const ops::add_bias&) { give(one("Add", {in(0), in(1)})); }
  void operator()(const ops::unary& op) { give(of_unary(op.op, in(0))); }
  void operator()(const ops::binary& op) {
    using enum kernels::binary_op;
    const char* type = op.op == add ? "Add" : op.op == subtract ? "Sub" : op.op == multiply ? "Mul" : "Div";
    give(one(type, {in(0), in(1)}));
  }
  void operator()(const ops::dropout& op) { give(one("Dropout", {in(0), number(op.rate)})); }

  // -- arrangements

  void operator()(const ops::reshape& op) { give(reshaped(in(0), at(0).per_row, op.dims.extents())); }
  void operator()(const ops::permute& op) {
    const std::int64_t first = at(0).per_row ? 1 : 0;
    extents_written order(static_cast<std::size_t>(first), 0);
    for (const auto axis : op.axes)
      order.push_back(static_cast<std::int64_t>(axis) + first);
    give(transposed(in(0), std::move(order)));
  }
  void operator()(const ops::split& op) {
    const auto axis = static_cast<std::int64_t>(op.axis) + (at(0).per_row ? 1 : 0);
    const auto parts = cut(in(0), axis, op.lengths);
    for (std::size_t i = 0; i < parts.size(); ++i)
      names_[node_->outputs[i]] = parts[i];
  }
  void operator()(const ops::concat& op) {
    names_written inputs;
    for (std::size_t i = 0; i < node_->inputs.size(); ++i)
      inputs.push_back(in(i));
    give(one("Concat", std::move(inputs), {{"axis", static_cast<std::int64_t>(op.axis) + (at(0).per_row ? 1 : 0)}}));
  }
  void operator()(const ops::sum_to& op) {
    const auto& from = at(0);
    if (from.per_row != op.per_row)
      return refuse();
    const auto missing = from.dims.rank() - op.dims.rank();
    extents_written axes;
    double count = 1;
    for (std::size_t i = 0; i < from.dims.rank(); ++i)
      if (i < missing || (op.dims[i - missing] == 1 && from.dims[i] != 1)) {
        axes.push_back(static_cast<std::int64_t>(i) + (op.per_row ? 1 : 0));
        count *= static_cast<double>(from.dims[i]);
      }
    const bool mean = std::abs(static_cast<double>(op.scale) * count - 1) < 1e-6;
    auto made = axes.empty() ? in(0)
                : mean       ? one("ReduceMean", {in(0)}, {{"axes", axes}, {"keepdims", std::int64_t{1}}})
                             : one("ReduceSum", {in(0), list(axes)}, {{"keepdims", std::int64_t{1}}});
    made = mean && !axes.empty() ? made : scaled(made, op.scale);
    give(missing > 0 ? reshaped(made, op.per_row, op.dims.extents()) : made);
  }
  void operator()(const ops::expand& op) {
    auto x = scaled(in(0), op.scale);
    if (!op.per_row || at(0).per_row) {
      auto dims = op.dims.extents();
      if (op.per_row)
        dims.insert(dims.begin(), 1);
      return give(one("Expand", {x, list(dims)}));
    }
    const auto rows = one("Slice", {one("Shape", {"input"}), list({0}), list({1})});
    give(one("Expand", {x, one("Concat", {rows, list(op.dims.extents())}, {{"axis", std::int64_t{0}}})}));
  }

  // -- pooling and norms

  void operator()(const ops::max_pool& op) { give(pool("MaxPool", op.size, op.stride, op.padding)); }
  void operator()(const ops::avg_pool& op) { give(pool("AveragePool", op.size, op.stride, op.padding)); }
  void operator()(const ops::layernorm& op) {
    give(one("LayerNormalization", {in(0), in(1), in(2)},
             {{"axis", -static_cast<std::int64_t>(at(1).dims.rank())}, {"epsilon", op.epsilon}}));
  }
  void operator()(const ops::rmsnorm& op) {
    const auto root = one("Sqrt", {one("Add", {mean(one("Mul", {in(0), in(0)}), at(1).dims.rank()), number(op.epsilon)})});
    give(one("Mul", {one("Div", {in(0), root}), in(1)}));
  }
  void operator()(const ops::groupnorm& op) {
    const auto& dims = at(0).dims;
    const auto groups = reshaped(in(0), true, {op.groups, dims.elements() / op.groups});
    const auto centred = one("Sub", {groups, mean(groups, 1)});
    const auto root = one("Sqrt", {one("Add", {mean(one("Mul", {centred, centred}), 1), number(op.epsilon)})});
    const auto whole = reshaped(one("Div", {centred, root}), true, dims.extents());
    extents_written channels(dims.rank(), 1);
    channels[0] = dims[0];
    give(one("Add", {one("Mul", {whole, reshaped(in(1), false, channels)}), reshaped(in(2), false, channels)}));
  }
  void operator()(const ops::batchnorm& op) {
    give(
        one("BatchNormalization", {in(0), in(1), in(2), in(3), in(4)}, {{"epsilon", op.epsilon}, {"momentum", 1 - op.momentum}}));
  }
  void operator()(const ops::softmax&) { give(one("Softmax", {in(0)}, {{"axis", std::int64_t{-1}}})); }

  // -- sequences

  void operator()(const ops::embedding&) { give(one("Gather", {in(1), in(0)}, {{"axis", std::int64_t{0}}})); }
  void operator()(const ops::attention& op);
  void operator()(const ops::rotary&) { refuse(); }
  void operator()(const ops::lstm&) { recurrent("LSTM", {0, 3, 1, 2}); }
  void operator()(const ops::gru&) { recurrent("GRU", {1, 0, 2}); }

  template <class Op>
  void operator()(const Op&) { // losses and what training adds
    refuse();
  }

private:
  [[noreturn]] void refuse() const {
    throw not_written{fmt::format("{}: this operation has no form in ONNX that is written here",
                                  node_->layer.empty() ? "a node" : node_->layer)};
  }

  const value& at(std::size_t i) const { return g_.at(node_->inputs[i]); }
  const std::string& in(std::size_t i) const { return names_.at(node_->inputs[i]); }
  static std::size_t onnx_rank(const value& v) { return v.dims.rank() + (v.per_row ? 1 : 0); }
  void give(std::string name) { names_[node_->outputs[0]] = std::move(name); }

  void make(node n) {
    n.name = fmt::format("{}_{}", n.type, out_.nodes.size());
    out_.nodes.push_back(std::move(n));
  }
  std::string fresh() { return fmt::format("value_{}", values_++); }
  /// A node of one result; its name.
  std::string one(const char* type, names_written inputs, std::vector<attribute> attributes = {}) {
    auto name = fresh();
    make({.name = {},
          .type = type,
          .domain = {},
          .inputs = std::move(inputs),
          .outputs = {name},
          .attributes = std::move(attributes)});
    return name;
  }
  std::string number(float value) {
    return one("Constant", {},
               {{"value", tensor{.name = {}, .type = element_type::f32, .dims = {}, .floats = {value}, .integers = {}}}});
  }
  std::string list(const extents_written& values) {
    return one("Constant", {},
               {{"value", tensor{.name = {},
                                 .type = element_type::i64,
                                 .dims = {static_cast<std::int64_t>(values.size())},
                                 .floats = {},
                                 .integers = values}}});
  }
  std::string scaled(const std::string& x, float by) { return by == 1 ? x : one("Mul", {x, number(by)}); }
  std::string transposed(const std::string& x, extents_written order) {
    return one("Transpose", {x}, {{"perm", std::move(order)}});
  }
  std::string swapped(const std::string& x, std::size_t rank) {
    extents_written order;
    for (std::size_t i = 0; i < rank; ++i)
      order.push_back(static_cast<std::int64_t>(i));
    std::swap(order[rank - 1], order[rank - 2]);
    return transposed(x, std::move(order));
  }
  std::string reshaped(const std::string& x, bool per_row, extents_written dims) {
    if (per_row)
      dims.insert(dims.begin(), 0); // as many as before
    return one("Reshape", {x, list(dims)});
  }
  names_written cut(const std::string& x, std::int64_t axis, const extents_written& lengths) {
    names_written parts;
    for (std::size_t i = 0; i < lengths.size(); ++i)
      parts.push_back(fresh());
    make({.name = {},
          .type = "Split",
          .domain = {},
          .inputs = {x, list(lengths)},
          .outputs = parts,
          .attributes = {{"axis", axis}}});
    return parts;
  }
  /// Over the last axes, kept with extent 1.
  std::string mean(const std::string& x, std::size_t axes) {
    extents_written last;
    for (std::size_t i = axes; i > 0; --i)
      last.push_back(-static_cast<std::int64_t>(i));
    return one("ReduceMean", {x}, {{"axes", std::move(last)}, {"keepdims", std::int64_t{1}}});
  }
  std::string pool(const char* type, std::int64_t size, std::int64_t stride, std::int64_t padding) {
    return one(type, {in(0)},
               {{"kernel_shape", extents_written(2, size)},
                {"strides", extents_written(2, stride)},
                {"pads", extents_written(4, padding)}});
  }

  std::string of_unary(kernels::unary_op op, const std::string& x) {
    using enum kernels::unary_op;
    static const std::map<kernels::unary_op, const char*> plain{
        {relu, "Relu"}, {tanh, "Tanh"}, {sigmoid, "Sigmoid"}, {exp, "Exp"},    {log, "Log"},
        {erf, "Erf"},   {sqrt, "Sqrt"}, {abs, "Abs"},         {negate, "Neg"}, {copy, "Identity"}};
    if (const auto found = plain.find(op); found != plain.end())
      return one(found->second, {x});
    if (op == silu)
      return one("Mul", {x, one("Sigmoid", {x})});
    if (op == square)
      return one("Pow", {x, number(2)});
    if (op == rsqrt)
      return one("Reciprocal", {one("Sqrt", {x})});
    const auto gate =
        op == gelu_erf
            ? one("Erf", {one("Div", {x, number(static_cast<float>(std::sqrt(2.0)))})})
            : one("Tanh", {one("Mul", {one("Add", {x, one("Mul", {one("Mul", {one("Mul", {x, x}), x}), number(0.044715F)})}),
                                       number(static_cast<float>(std::sqrt(2 / M_PI)))})});
    return one("Mul", {one("Mul", {x, one("Add", {gate, number(1)})}), number(0.5F)});
  }

  /// Heads of a stream (rows, T, heads head) -> (rows, heads, T, head).
  std::string heads_of(const std::string& x, std::int64_t length, std::int64_t heads, std::int64_t head) {
    return transposed(reshaped(x, true, {length, heads, head}), {0, 2, 1, 3});
  }
  void recurrent(const char* type, const std::vector<std::size_t>& order);
  std::string gates_in_onnx_order(const std::string& x, std::int64_t width, const std::vector<std::size_t>& order);
  void leave_out_unread();

  const model& net_;
  const graph& g_;
  const float* flat_;
  document out_;
  std::map<value_id, std::string> names_;
  const troupe::node* node_ = nullptr;
  int values_ = 0;
};

void exporter::operator()(const ops::attention& op) {
  const bool whole = node_->inputs.size() == 1;
  const auto length = at(0).dims[0];
  const auto head = at(0).dims[1] / (whole ? op.heads + 2 * op.key_heads : op.heads);
  const auto streams =
      whole ? cut(in(0), 2, {op.heads * head, op.key_heads * head, op.key_heads * head}) : names_written{in(0), in(1), in(2)};
  const auto q = heads_of(streams[0], length, op.heads, head);
  const auto shared = [&](const std::string& stream) { // each key head for a group of neighbouring queries
    const auto own = heads_of(stream, length, op.key_heads, head);
    if (op.key_heads == op.heads)
      return own;
    const auto group = op.heads / op.key_heads;
    const auto repeated = one("Expand", {reshaped(own, true, {op.key_heads, 1, length, head}), list({1, 1, group, 1, 1})});
    return reshaped(repeated, true, {op.heads, length, head});
  };
  const auto k = shared(streams[1]), v = shared(streams[2]);
  auto scores = scaled(one("MatMul", {q, swapped(k, 4)}), static_cast<float>(1 / std::sqrt(static_cast<double>(head))));
  if (op.causal) {
    tensor seen{.name = {}, .type = element_type::boolean, .dims = {length, length}, .floats = {}, .integers = {}};
    for (std::int64_t i = 0; i < length * length; ++i)
      seen.integers.push_back(i % length <= i / length ? 1 : 0);
    scores = one("Where",
                 {one("Constant", {}, {{"value", std::move(seen)}}), scores, number(-std::numeric_limits<float>::infinity())});
  }
  auto p = one("Softmax", {scores}, {{"axis", std::int64_t{-1}}});
  if (op.rate > 0)
    p = one("Dropout", {p, number(op.rate)});
  give(reshaped(transposed(one("MatMul", {p, v}), {0, 2, 1, 3}), true, {length, op.heads * head}));
}

std::string exporter::gates_in_onnx_order(const std::string& x, std::int64_t width, const std::vector<std::size_t>& order) {
  const auto parts = cut(x, 0, extents_written(order.size(), width));
  names_written in_order;
  for (const auto gate : order)
    in_order.push_back(parts[gate]);
  return one("Unsqueeze", {one("Concat", std::move(in_order), {{"axis", std::int64_t{0}}}), list({0})});
}

/// The product before it and its bias are a part of ONNX's operator.
void exporter::recurrent(const char* type, const std::vector<std::size_t>& order) {
  const auto& added = g_.producer(node_->inputs[0]);
  const auto* product = std::holds_alternative<ops::add_bias>(added.op) ? &g_.producer(added.inputs[0]) : nullptr;
  const auto* op = product != nullptr ? std::get_if<ops::matmul>(&product->op) : nullptr;
  if (op == nullptr || op->transpose_a || !op->transpose_b)
    return refuse();
  const auto width = at(1).dims[1];
  const auto x = transposed(names_.at(product->inputs[0]), {1, 0, 2});
  const auto reordered = [&](const std::string& name) { return gates_in_onnx_order(name, width, order); };
  const auto biases = one("Concat", {reordered(names_.at(added.inputs[1])), reordered(in(2))}, {{"axis", std::int64_t{1}}});
  std::vector<attribute> attributes{{"hidden_size", width}};
  if (std::string_view{type} == "GRU")
    attributes.push_back({"linear_before_reset", std::int64_t{1}});
  const auto y = one(type, {x, reordered(names_.at(product->inputs[1])), reordered(in(1)), biases}, std::move(attributes));
  give(transposed(one("Squeeze", {y, list({1})}), {1, 0, 2}));
}

void exporter::leave_out_unread() {
  std::set<std::string> read{"output"};
  std::vector<node> stay;
  for (auto n = out_.nodes.rbegin(); n != out_.nodes.rend(); ++n) {
    if (std::ranges::none_of(n->outputs, [&](const auto& name) { return read.contains(name); }))
      continue;
    read.insert(n->inputs.begin(), n->inputs.end());
    stay.push_back(std::move(*n));
  }
  out_.nodes.assign(std::make_move_iterator(stay.rbegin()), std::make_move_iterator(stay.rend()));
}

} // namespace

result<document> export_model(const model& net, const float* flat, const std::string& name) {
  if (net.computed_by())
    return error{errc::bad_model, "this job's model is computed by other code, and has no graph to write"};
  try {
    return exporter{net, flat, name}.run();
  } catch (const not_written& e) {
    return error{errc::bad_model, e.why};
  }
}

} // namespace troupe::onnx
