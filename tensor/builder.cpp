// SPDX-License-Identifier: BSD-3-Clause
// Parameters and nodes that several layers and models have in common.
#include "tensor/builder.hpp"

#include <algorithm>

#include <fmt/format.h>

#include "kernels/assert.hpp"

namespace troupe::layers {

namespace {

/// No sane model is larger, and the flat array's offsets stay far from overflow.
constexpr std::int64_t most_floats = std::int64_t{1} << 40;
constexpr std::size_t most_nodes = 1'000'000;

/// In double: the product of four extents may not fit 64 bits.
bool too_large(const shape& dims) {
  double elements = 1;
  for (auto extent : dims.extents())
    elements *= static_cast<double>(extent);
  return elements > static_cast<double>(most_floats);
}

} // namespace

builder::builder(const data_format& data) : data_(data) {
  auto x = graph_.apply(ops::input{data.sample, data.type}, {});
  auto labels = graph_.apply(ops::input{data.labels, data.label_type}, {});
  TROUPE_ASSERT(x && labels);
  input_ = last_ = *x;
  labels_ = *labels;
}

result<void> builder::outcome() const {
  if (failed())
    return error{errc::bad_model, message_};
  return {};
}

value_id builder::one(const any& layer, const std::string& name, value_id x) {
  begin_layer(name);
  return failed() ? value_id::none : std::visit([&](const auto& own) { return own.build(*this, x); }, layer.kind);
}

result<void> builder::add(const any& layer, const std::string& name) {
  last_ = one(layer, name, last_);
  return outcome();
}

result<void> builder::add(const std::vector<any>& list) {
  last_ = run(list, last_);
  return outcome();
}

result<void> builder::end_with(value_id predictions) {
  last_ = predictions;
  return outcome();
}

value_id builder::run(const std::vector<any>& body, value_id x) {
  const auto outer = layer_;
  for (std::size_t i = 0; i < body.size() && !failed(); ++i)
    x = one(body[i],
            !body[i].name.empty() ? body[i].name
            : outer.empty()       ? fmt::format("layer {}", i + 1)
                                  : fmt::format("{}.{}", outer, i + 1),
            x);
  begin_layer(outer);
  return x;
}

void builder::begin_layer(const std::string& name) {
  layer_ = name;
  graph_.begin_layer(name);
}

void builder::begin_block() {
  if (block_depth_++ == 0)
    graph_.begin_block(blocks_++);
}

void builder::end_block() {
  if (--block_depth_ == 0)
    graph_.begin_block(no_block);
}

value_id builder::fail(std::string message) {
  if (!failed())
    message_ = layer_.empty() ? std::move(message) : layer_ + ": " + message;
  return value_id::none;
}

std::vector<value_id> builder::apply_all(ops::any op, std::vector<value_id> inputs) {
  if (failed() || std::ranges::find(inputs, value_id::none) != inputs.end())
    return {value_id::none};
  if (graph_.nodes().size() >= most_nodes)
    return {fail(fmt::format("the model has more than {} operations", most_nodes))};
  auto made = graph_.add(std::move(op), std::move(inputs));
  if (made)
    return graph_.at(*made).outputs;
  message_ = made.error().message; // the graph names the layer itself
  return {value_id::none};
}

value_id builder::apply(ops::any op, std::vector<value_id> inputs) {
  return apply_all(std::move(op), std::move(inputs))[0];
}

value_id builder::activated(value_id x, kernels::activation act) {
  return act == kernels::activation::none ? x : apply(ops::unary{kernels::as_unary(act)}, {x});
}

std::string builder::number(const std::string& kind) {
  return fmt::format("{}{}", kind, ++count_[kind]);
}

value_id builder::add_parameter(const std::string& name, shape dims, initializer init, slot_kind kind,
                                std::shared_ptr<const std::vector<float>> given) {
  if (failed())
    return value_id::none;
  if (too_large(dims))
    return fail(fmt::format("has a weight {}, which is too large", dims.to_string()));
  const auto slot = static_cast<int>(layout_.slots.size());
  layout_.slots.push_back(
      {.name = name, .dims = dims, .offset = layout_.floats(), .init = init, .kind = kind, .values = std::move(given)});
  if (layout_.slots.back().values)
    layout_.slots.back().init.how = initializer::kind::given;
  if (layout_.floats() > most_floats)
    return fail(fmt::format("the model has more than {} parameters", most_floats));
  return apply(ops::parameter{slot, std::move(dims)}, {});
}

/// He et al. 2015 derive their variance for rectifiers, Glorot & Bengio 2010 theirs for symmetric activations.
initializer builder::weight_for(kernels::activation act, double fan_in, double fan_out) {
  const bool rectifier =
      std::ranges::any_of(kernels::activations, [act](const auto& each) { return each.act == act && each.rectifier; });
  return {rectifier ? initializer::kind::he_normal : initializer::kind::xavier_uniform, fan_in, fan_out};
}

value_id builder::dense(value_id x, const std::string& name, std::int64_t units, initializer weight) {
  if (failed())
    return value_id::none;
  const auto w = add_parameter(name + ".weight", {units, dims(x)[dims(x).rank() - 1]}, weight);
  const auto bias = add_parameter(name + ".bias", {units}, {});
  return apply(ops::add_bias{}, {apply(ops::matmul{false, true}, {x, w}), bias});
}

value_id builder::layernorm(value_id x, const std::string& name) {
  if (failed())
    return value_id::none;
  const auto features = dims(x).rank() == 2 ? shape{dims(x)[1]} : dims(x);
  const auto gamma = add_parameter(name + ".weight", features, {initializer::kind::ones});
  const auto beta = add_parameter(name + ".bias", features, {});
  return apply(ops::layernorm{}, {x, gamma, beta});
}

value_id builder::batchnorm(value_id x, const std::string& name) {
  if (failed())
    return value_id::none;
  const shape channels{dims(x)[0]};
  const auto gamma = add_parameter(name + ".weight", channels, {initializer::kind::ones});
  const auto beta = add_parameter(name + ".bias", channels, {});
  const auto mean = add_parameter(name + ".running_mean", channels, {}, slot_kind::statistic);
  const auto variance = add_parameter(name + ".running_var", channels, {initializer::kind::ones}, slot_kind::statistic);
  return apply(ops::batchnorm{}, {x, gamma, beta, mean, variance});
}

value_id builder::conv(value_id x, const std::string& name, const layers::conv& like, bool bias, initializer weight) {
  if (failed())
    return value_id::none;
  const auto w = add_parameter(name + ".weight", {like.channels, dims(x)[0] / like.groups, like.kernel_h, like.kernel_w}, weight);
  std::vector<value_id> inputs{x, w};
  if (bias)
    inputs.push_back(add_parameter(name + ".bias", {like.channels}, {}));
  return apply(ops::conv2d{like.stride, like.padding, like.dilation, like.groups}, std::move(inputs));
}

value_id builder::dropout(value_id x, double rate) {
  return rate == 0 ? x : apply(ops::dropout{static_cast<float>(rate), next_stream()}, {x});
}

value_id builder::recurrent(value_id x, const std::string& name, const std::string& suffix, std::int64_t units, bool is_lstm) {
  if (failed())
    return value_id::none;
  const std::int64_t gates = is_lstm ? 4 : 3;
  const initializer uniform{initializer::kind::uniform_by_fan_in, static_cast<double>(units)};
  const auto w = add_parameter(name + ".weight_ih" + suffix, {gates * units, dims(x)[1]}, uniform);
  const auto u = add_parameter(name + ".weight_hh" + suffix, {gates * units, units}, uniform);
  const auto bias = add_parameter(name + ".bias_ih" + suffix, {gates * units}, uniform);
  const auto inner_bias = add_parameter(name + ".bias_hh" + suffix, {gates * units}, uniform);
  const auto projected = apply(ops::add_bias{}, {apply(ops::matmul{false, true}, {x, w}), bias});
  return is_lstm ? apply(ops::lstm{}, {projected, u, inner_bias}) : apply(ops::gru{}, {projected, u, inner_bias});
}

value_id builder::last_place(value_id x) {
  if (failed())
    return value_id::none;
  const auto length = dims(x)[0], width = dims(x)[1];
  if (length > 1)
    x = apply_all(ops::split{0, {length - 1, 1}}, {x}).back();
  return apply(ops::reshape{{width}}, {x});
}

value_id builder::embedding(value_id ids, const std::string& name, std::int64_t width, double deviation) {
  if (failed())
    return value_id::none;
  if (at(ids).type != dtype::i32 || data_.ids < 1)
    return fail(fmt::format("needs ids, and {} holds numbers; write it first, for data that has ids", at(ids).to_string()));
  table_ = add_parameter(name + ".weight", {data_.ids, width}, {.how = initializer::kind::normal, .deviation = deviation});
  return apply(ops::embedding{}, {ids, table_});
}

result<void> builder::finish(const loss_spec& loss) {
  if (!failed()) {
    const auto of_last = graph_.producer(last_).layer;
    begin_layer(""); // these messages name layers themselves
    check_loss(loss, of_last.empty() ? "the input" : fmt::format("the last layer, {},", of_last));
  }
  begin_layer("loss");
  if (loss.name == "mse")
    loss_ = apply(ops::mean_squared_error{}, {last_, labels_});
  else if (loss.name == "bce")
    loss_ = apply(ops::sigmoid_cross_entropy{}, {last_, labels_});
  else
    loss_ = apply(ops::cross_entropy{static_cast<float>(loss.label_smoothing)}, {last_, labels_});
  return outcome();
}

void builder::check_loss(const loss_spec& loss, const std::string& last_layer) {
  const auto& found = at(last_);
  const auto needed_for = [this](std::int64_t width) {
    auto predictions = dims(labels_).extents();
    predictions.push_back(width);
    return value{shape{std::move(predictions)}, true, dtype::f32, {}};
  };
  if (loss.name == "cross-entropy") {
    if (data_.label_type != dtype::i32)
      fail("loss = \"cross-entropy\" is for classes, and the labels are numbers; write loss = \"mse\"");
    else if (const auto needed = needed_for(data_.classes); found.dims != needed.dims)
      fail(fmt::format("{} gives {}, but {} classes need {}; end with \"linear {}\"", last_layer, found.to_string(),
                       data_.classes, needed.to_string(), data_.classes));
    return;
  }
  if (loss.name != "mse" && loss.name != "bce")
    fail(fmt::format("loss = \"{}\" is unknown; write \"cross-entropy\", \"mse\" or \"bce\"", loss.name));
  else if (loss.label_smoothing != 0)
    fail(fmt::format("label_smoothing = {} is for classes, and loss = \"{}\" has none", loss.label_smoothing, loss.name));
  else if (data_.label_type != dtype::f32)
    fail(fmt::format("loss = \"{}\" is for labels that are numbers, and the data has {} classes; write loss = \"cross-entropy\"",
                     loss.name, data_.classes));
  else if (const auto needed = dims(labels_).rank() == 0 ? needed_for(1) : at(labels_); found.dims != needed.dims)
    fail(fmt::format("{} gives {}, but the labels need {}; end with \"linear {}\"", last_layer, found.to_string(),
                     needed.to_string(), needed.dims[needed.dims.rank() - 1]));
}

} // namespace troupe::layers
