// SPDX-License-Identifier: BSD-3-Clause
// The graphs of models that have names.
#include "tensor/models.hpp"

#include <cmath>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace troupe {

namespace {

using layers::builder;

error wrong(std::string message) {
  return {errc::bad_model, std::move(message)};
}

value_id sum(builder& b, value_id x, value_id y) {
  return b.apply(ops::binary{kernels::binary_op::add}, {x, y});
}

// -- gpt

constexpr initializer gpt_weight{.how = initializer::kind::normal, .deviation = 0.02};

/// x plus attention, plus a perceptron, each on its norm.
value_id add_gpt_block(builder& b, value_id x, const std::string& name, const network_spec& spec) {
  const initializer last{.how = initializer::kind::normal,
                         .deviation = gpt_weight.deviation / std::sqrt(2.0 * static_cast<double>(spec.depth))};
  const auto stream = spec.dropout > 0 ? b.next_stream() : 0;
  auto y = b.dense(b.layernorm(x, name + ".ln_1"), name + ".attn.c_attn", 3 * spec.width, gpt_weight);
  y = b.apply(ops::attention{spec.heads, spec.heads, true, static_cast<float>(spec.dropout), stream}, {y});
  x = sum(b, x, b.dropout(b.dense(y, name + ".attn.c_proj", spec.width, last), spec.dropout));
  y = b.dense(b.layernorm(x, name + ".ln_2"), name + ".mlp.c_fc", 4 * spec.width, gpt_weight);
  y = b.dense(b.activated(y, kernels::activation::gelu), name + ".mlp.c_proj", spec.width, last);
  return sum(b, x, b.dropout(y, spec.dropout));
}

result<value_id> add_gpt(builder& b, value_id ids, const network_spec& spec) {
  if (spec.heads < 1 || spec.width % spec.heads != 0)
    return wrong(fmt::format("heads = {} do not divide width = {}", spec.heads, spec.width));
  if (b.data().type != dtype::i32 || b.dims(ids).rank() != 1 || b.data().classes != b.data().ids)
    return wrong(
        fmt::format("a gpt predicts the next of the ids in its input, and the data has {} and {} classes; take text or tokens",
                    b.at(ids).to_string(), b.data().classes));
  b.begin_layer("embedding");
  auto x = b.embedding(ids, "wte", spec.width, gpt_weight.deviation);
  x = b.dropout(sum(b, x, b.add_parameter("wpe.weight", {b.dims(ids)[0], spec.width}, gpt_weight)), spec.dropout);
  for (std::int64_t i = 0; i < spec.depth; ++i) {
    const auto name = fmt::format("h.{}", i);
    b.begin_layer(name);
    b.begin_block();
    x = add_gpt_block(b, x, name, spec);
    b.end_block();
  }
  b.begin_layer("ln_f");
  x = b.layernorm(x, "ln_f");
  b.begin_layer("head");
  return b.apply(ops::matmul{false, true}, {x, b.table()});
}

// -- lstm and gru

result<value_id> add_recurrent(builder& b, value_id x, const network_spec& spec) {
  const auto rank = b.dims(x).rank(), label_rank = b.dims(b.labels()).rank();
  const bool ids = b.data().type == dtype::i32;
  if (rank != (ids ? 1U : 2U) || label_rank > 1)
    return wrong(
        fmt::format("a network of kind \"{}\" reads (rows, length) of ids or (rows, length, features), and the data has {}",
                    spec.kind, b.at(x).to_string()));
  if (ids) {
    constexpr double usual = 1; // PyTorch's
    b.begin_layer("embedding");
    x = b.embedding(x, "embedding", spec.width, usual);
  }
  for (std::int64_t i = 0; i < spec.depth; ++i) {
    b.begin_layer(fmt::format("{} {}", spec.kind, i));
    if (i > 0)
      x = b.dropout(x, spec.dropout);
    x = b.recurrent(x, spec.kind, fmt::format("_l{}", i), spec.width, spec.kind == "lstm");
  }
  b.begin_layer("head");
  if (label_rank == 0)
    x = b.last_place(x);
  const auto classes = b.data().classes;
  return b.dense(x, "head", classes, builder::weight_for(kernels::activation::none, spec.width, classes));
}

// -- resnet

value_id convolution(builder& b, value_id x, const std::string& name, std::int64_t channels, std::int64_t kernel,
                     std::int64_t stride) {
  if (b.failed())
    return value_id::none;
  const layers::conv like{.channels = channels, .kernel_h = kernel, .kernel_w = kernel, .stride = stride, .padding = kernel / 2};
  const auto window = static_cast<double>(kernel * kernel), from = static_cast<double>(b.dims(x)[0]);
  return b.conv(x, name, like, false, {initializer::kind::he_normal, from * window, static_cast<double>(channels) * window});
}

value_id relu(builder& b, value_id x) {
  return b.activated(x, kernels::activation::relu);
}

value_id add_resnet_block(builder& b, value_id x, const std::string& name, std::int64_t channels, std::int64_t stride) {
  if (b.failed())
    return value_id::none;
  auto y = relu(b, b.batchnorm(convolution(b, x, name + ".conv1", channels, 3, stride), name + ".bn1"));
  y = b.batchnorm(convolution(b, y, name + ".conv2", channels, 3, 1), name + ".bn2");
  if (stride != 1 || b.dims(x)[0] != channels)
    x = b.batchnorm(convolution(b, x, name + ".downsample.0", channels, 1, stride), name + ".downsample.1");
  return relu(b, sum(b, x, y));
}

result<value_id> add_resnet(builder& b, value_id x, const network_spec& spec) {
  if (spec.depth < 8 || spec.depth % 6 != 2)
    return wrong(fmt::format("depth = {} of a resnet must be 6n + 2: 8, 14, 20, 32, 44, 56, 110", spec.depth));
  if (b.dims(x).rank() != 3)
    return wrong(fmt::format("a resnet reads images (rows, C, H, W), and the data has {}", b.at(x).to_string()));
  b.begin_layer("conv1");
  x = relu(b, b.batchnorm(convolution(b, x, "conv1", spec.width, 3, 1), "bn1"));
  for (std::int64_t stage = 0; stage < 3; ++stage)
    for (std::int64_t i = 0; i < (spec.depth - 2) / 6; ++i) {
      const auto name = fmt::format("layer{}.{}", stage + 1, i);
      b.begin_layer(name);
      b.begin_block();
      x = add_resnet_block(b, x, name, spec.width << stage, stage > 0 && i == 0 ? 2 : 1);
      b.end_block();
    }
  if (b.failed())
    return value_id::none;
  b.begin_layer("fc");
  x = layers::avg_pool{0}.build(b, x);
  const auto classes = b.data().classes;
  return b.dense(x, "fc", classes, builder::weight_for(kernels::activation::none, spec.width * 4, classes));
}

struct network_kind {
  const char* name;
  result<value_id> (*add)(builder&, value_id, const network_spec&);
};
constexpr network_kind kinds[]{{"gpt", add_gpt}, {"lstm", add_recurrent}, {"gru", add_recurrent}, {"resnet", add_resnet}};

} // namespace

std::vector<std::string> network_kinds() {
  std::vector<std::string> names;
  for (const auto& each : kinds)
    names.emplace_back(each.name);
  return names;
}

result<void> add_network(layers::builder& b, const network_spec& spec) {
  for (const auto& each : kinds)
    if (spec.kind == each.name) {
      if (spec.depth < 1 || spec.width < 1)
        return wrong(fmt::format("a network of kind \"{}\" needs a depth and a width from 1 on, got {} and {}", spec.kind,
                                 spec.depth, spec.width));
      if (!(spec.dropout >= 0 && spec.dropout < 1))
        return wrong(fmt::format("dropout = {} must be at least 0 and below 1", spec.dropout));
      auto predictions = each.add(b, b.last(), spec);
      if (!predictions)
        return predictions.error();
      return b.end_with(*predictions);
    }
  return wrong(fmt::format("kind = \"{}\" is unknown; write \"{}\"", spec.kind, fmt::join(network_kinds(), "\", \"")));
}

} // namespace troupe
