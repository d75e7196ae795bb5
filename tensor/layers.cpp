// SPDX-License-Identifier: BSD-3-Clause
// What each layer adds to a graph: its parameters, how they start, its nodes.
#include "tensor/layers.hpp"

#include <algorithm>

#include <fmt/format.h>

#include "kernels/assert.hpp"

namespace troupe::layers {

namespace {

/// No sane model is larger, and the flat array's offsets stay far from overflow.
constexpr std::int64_t most_floats = std::int64_t{1} << 40;

/// He et al. 2015 derive their variance for rectifiers, Glorot & Bengio 2010 theirs for symmetric activations.
initializer weight_init(kernels::activation act, std::int64_t fan_in, std::int64_t fan_out) {
  const bool rectifier =
      std::ranges::any_of(kernels::activations, [act](const auto& each) { return each.act == act && each.rectifier; });
  return {rectifier ? initializer::kind::he_normal : initializer::kind::xavier_uniform, fan_in, fan_out};
}

/// In double: the product of four extents may not fit 64 bits.
bool too_large(const shape& dims) {
  double elements = 1;
  for (auto extent : dims.extents())
    elements *= static_cast<double>(extent);
  return elements > static_cast<double>(most_floats);
}

} // namespace

/// One overload per layer; each returns the layer's result.
struct layer_rules {
  builder& b;

  graph& g() const { return b.graph_; }
  const shape& in() const { return b.graph_.at(b.last_).dims; }
  error misfit(std::string message) const { return {errc::bad_model, std::move(message)}; }

  result<value_id> operator()(const linear& layer) const {
    if (in().rank() != 1 && in().rank() != 2)
      return misfit(
          fmt::format("needs a flat input (rows, features), got {}; put \"flatten\" before it", g().at(b.last_).to_string()));
    const auto inputs = in()[in().rank() - 1];
    if (too_large({layer.units, inputs}))
      return misfit(fmt::format("has a weight {}, which is too large", shape{layer.units, inputs}.to_string()));
    const auto name = b.number("linear");
    auto w = b.add_parameter(name + ".weight", {layer.units, inputs}, weight_init(layer.act, inputs, layer.units));
    auto bias = b.add_parameter(name + ".bias", {layer.units}, {});
    auto product = g().apply(ops::matmul{false, true}, {b.last_, w});
    if (!product)
      return product;
    auto y = g().apply(ops::add_bias{}, {*product, bias});
    return y ? activated(*y, layer.act) : y;
  }

  result<value_id> operator()(const conv& layer) const {
    if (in().rank() != 3)
      return misfit(
          fmt::format("needs images (rows, C, H, W), got {}; write it before \"flatten\"", g().at(b.last_).to_string()));
    const shape weight{layer.channels, in()[0], layer.kernel_h, layer.kernel_w};
    if (too_large(weight))
      return misfit(fmt::format("has a weight {}, which is too large", weight.to_string()));
    const auto window = layer.kernel_h * layer.kernel_w;
    const auto fan_in = in()[0] * window, fan_out = layer.channels * window;
    const auto name = b.number("conv");
    auto w = b.add_parameter(name + ".weight", weight, weight_init(layer.act, fan_in, fan_out));
    auto bias = b.add_parameter(name + ".bias", {layer.channels}, {});
    auto y = g().apply(ops::conv2d{layer.stride, layer.padding}, {b.last_, w, bias});
    return y ? activated(*y, layer.act) : y;
  }

  result<value_id> operator()(const max_pool& layer) const { return g().apply(ops::max_pool{layer.size, layer.size}, {b.last_}); }
  result<value_id> operator()(const avg_pool& layer) const { return g().apply(ops::avg_pool{layer.size, layer.size}, {b.last_}); }
  result<value_id> operator()(const flatten&) const { return g().apply(ops::reshape{{in().elements()}}, {b.last_}); }

  result<value_id> operator()(const layernorm&) const {
    const auto name = b.number("layernorm");
    auto gamma = b.add_parameter(name + ".weight", in(), {initializer::kind::ones});
    auto beta = b.add_parameter(name + ".bias", in(), {});
    return g().apply(ops::layernorm{}, {b.last_, gamma, beta});
  }

  result<value_id> operator()(const dropout& layer) const {
    const auto stream = static_cast<std::uint32_t>(b.count_["dropout"]++);
    return g().apply(ops::dropout{static_cast<float>(layer.rate), stream}, {b.last_});
  }

  result<value_id> operator()(const activate& layer) const { return activated(b.last_, layer.act); }

  result<value_id> activated(value_id y, kernels::activation act) const {
    if (act == kernels::activation::none)
      return y;
    return g().apply(ops::unary{kernels::as_unary(act)}, {y});
  }
};

builder::builder(const data_format& data) {
  auto x = graph_.apply(ops::input{data.sample, data.type}, {});
  auto labels = graph_.apply(ops::input{data.labels, data.label_type}, {});
  TROUPE_ASSERT(x && labels);
  input_ = last_ = *x;
  labels_ = *labels;
}

result<void> builder::add(const any& layer, const std::string& name) {
  graph_.begin_layer(name);
  auto y = std::visit(layer_rules{*this}, layer);
  if (!y) {
    auto why = y.error();
    // The graph names the layer itself.
    if (!why.message.starts_with(name))
      why.message = name + ": " + why.message;
    return why;
  }
  if (layout_.floats() > most_floats)
    return error{errc::bad_model, fmt::format("{}: the model has more than {} parameters", name, most_floats)};
  last_ = *y;
  return {};
}

result<void> builder::finish(int classes) {
  graph_.begin_layer("loss");
  const auto& found = graph_.at(last_);
  auto predictions = graph_.at(labels_).dims.extents();
  predictions.push_back(classes);
  if (const value needed{shape{predictions}, true, dtype::f32, {}}; found.dims != needed.dims)
    return error{errc::bad_model,
                 fmt::format("the last layer, {}, gives {}, but {} classes need {}; end with \"linear {}\"",
                             graph_.producer(last_).layer, found.to_string(), classes, needed.to_string(), classes)};
  auto loss = graph_.apply(ops::cross_entropy{}, {last_, labels_});
  if (!loss)
    return loss.error();
  loss_ = *loss;
  return {};
}

value_id builder::add_parameter(const std::string& name, shape dims, initializer init) {
  const auto slot = static_cast<int>(layout_.slots.size());
  layout_.slots.push_back({name, dims, layout_.floats(), init});
  auto parameter = graph_.apply(ops::parameter{slot, std::move(dims)}, {});
  TROUPE_ASSERT(parameter.has_value());
  return *parameter;
}

std::string builder::number(const std::string& kind) {
  return kind + std::to_string(++count_[kind]);
}

} // namespace troupe::layers
