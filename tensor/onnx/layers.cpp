// SPDX-License-Identifier: BSD-3-Clause
// Convolutions, pooling, norms, softmax and dropout; the table of operators.
#include <algorithm>
#include <map>
#include <string>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "tensor/onnx/importer.hpp"

namespace troupe::onnx {

namespace {

using outputs = importer::outputs;
using extents_of_window = std::vector<std::int64_t>;

/// One number for all axes of an image.
std::int64_t same_of(const node& n, const char* name, std::int64_t fallback) {
  const auto list = integers_attribute(n, name);
  if (!list || list->empty())
    return fallback;
  if (std::ranges::any_of(*list, [&](auto each) { return each != list->front(); }))
    throw misfit{fmt::format("has {} of ({}), and a window here has the same on all sides", name, fmt::join(*list, ", "))};
  return list->front();
}

/// The padding, the same on all sides.
std::int64_t padding_of(const node& n) {
  if (const auto automatic = text_attribute(n, "auto_pad", "NOTSET"); automatic != "NOTSET" && automatic != "VALID")
    throw misfit{fmt::format("has auto_pad = {}, and pads are read as numbers", automatic)};
  return same_of(n, "pads", 0);
}

imported images(const importer::call& c) {
  auto x = c.tensor(0);
  if (x.batch_axis != 0 || c.in.dims(x.id).rank() != 3)
    throw misfit{fmt::format("needs images (rows, C, H, W), got {}", c.in.scratch().at(x.id).to_string())};
  return x;
}

outputs read_conv(const importer::call& c) {
  const auto x = images(c), weight = c.tensor(1);
  std::vector<value_id> inputs{x.id, weight.id};
  if (c.has(2))
    inputs.push_back(c.tensor(2).id);
  const ops::conv2d op{.stride = same_of(c.n, "strides", 1),
                       .padding = padding_of(c.n),
                       .dilation = same_of(c.n, "dilations", 1),
                       .groups = integer_attribute(c.n, "group", 1)};
  return {importer::tensor_value(c.in.apply(op, std::move(inputs)), 0)};
}

template <class Pool>
outputs pool(const importer::call& c) {
  const auto x = images(c);
  if (integer_attribute(c.n, "ceil_mode", 0) != 0 || same_of(c.n, "dilations", 1) != 1)
    throw misfit{"has ceil_mode or dilations, which pooling here has not"};
  const Pool op{.size = same_of(c.n, "kernel_shape", 1), .stride = same_of(c.n, "strides", 1), .padding = padding_of(c.n)};
  return {importer::tensor_value(c.in.apply(op, {x.id}), 0)};
}

outputs read_max_pool(const importer::call& c) {
  return pool<ops::max_pool>(c);
}

outputs read_average_pool(const importer::call& c) {
  if (padding_of(c.n) != 0 && integer_attribute(c.n, "count_include_pad", 0) != 0)
    throw misfit{"counts the padding, and pooling here does not; set count_include_pad to false, or pad with 0"};
  return pool<ops::avg_pool>(c);
}

outputs read_global_average(const importer::call& c) {
  const auto x = images(c);
  const auto& image = c.in.dims(x.id);
  const shape one{image[0], 1, 1};
  const auto scale = 1.0F / static_cast<float>(image[1] * image[2]);
  return {importer::tensor_value(c.in.apply(ops::sum_to{one, true, scale}, {x.id}), 0)};
}

outputs read_batchnorm(const importer::call& c) {
  auto x = c.tensor(0);
  if (x.batch_axis != 0)
    throw misfit{"needs the rows of the batch as the first axis"};
  std::vector<value_id> inputs{x.id};
  for (std::size_t i = 1; i < 5; ++i)
    inputs.push_back(c.tensor(i).id);
  c.in.mark_statistic(inputs[3]);
  c.in.mark_statistic(inputs[4]);
  const ops::batchnorm op{float_attribute(c.n, "epsilon", 1e-5F), 1 - float_attribute(c.n, "momentum", 0.9F)};
  return {importer::tensor_value(c.in.apply(op, std::move(inputs)), 0)};
}

outputs read_layernorm(const importer::call& c) {
  auto& in = c.in;
  const auto x = c.tensor(0), gamma = c.tensor(1);
  const auto first = in.own_axis(x, integer_attribute(c.n, "axis", -1));
  const auto covered = in.dims(x.id).rank() - first;
  if (x.batch_axis < 0 || in.dims(gamma.id).rank() != covered)
    throw misfit{fmt::format("scales {} by {}, and needs a scale for each element that it is over",
                             in.scratch().at(x.id).to_string(), in.dims(gamma.id).to_string())};
  const auto beta = c.has(2) ? c.tensor(2).id : in.constant(0, in.dims(gamma.id));
  return {importer::tensor_value(in.apply(ops::layernorm{float_attribute(c.n, "epsilon", 1e-5F)}, {x.id, gamma.id, beta}),
                                 x.batch_axis)};
}

/// Each channel is a group. PyTorch writes its group norm so, too, on groups as channels.
outputs read_instancenorm(const importer::call& c) {
  const auto x = c.tensor(0);
  if (x.batch_axis != 0 || c.in.dims(x.id).rank() < 2)
    throw misfit{"needs the rows of the batch as the first axis, then channels and what each is over"};
  const ops::groupnorm op{c.in.dims(x.id)[0], float_attribute(c.n, "epsilon", 1e-5F)};
  return {importer::tensor_value(c.in.apply(op, {x.id, c.tensor(1).id, c.tensor(2).id}), 0)};
}

/// Which axis a softmax is over; the last one is.
imported last_axis(const importer::call& c) {
  auto x = c.tensor(0);
  const auto rank = c.in.rank(x);
  if (axis_of(integer_attribute(c.n, "axis", -1), rank) != rank - 1 || x.batch_axis == static_cast<int>(rank) - 1)
    throw misfit{"is over an axis that is not the last; transpose before and after it"};
  return x;
}

outputs read_softmax(const importer::call& c) {
  const auto x = last_axis(c);
  return {importer::tensor_value(c.in.apply(ops::softmax{}, {x.id}), x.batch_axis)};
}

outputs read_log_softmax(const importer::call& c) {
  const auto x = last_axis(c);
  const auto y = c.in.apply(ops::softmax{}, {x.id});
  return {importer::tensor_value(c.in.apply(ops::unary{kernels::unary_op::log}, {y}), x.batch_axis)};
}

outputs read_dropout(const importer::call& c) {
  auto x = c.tensor(0);
  const auto ratio = c.uniform(1);
  const float rate = ratio ? static_cast<float>(*ratio) : float_attribute(c.n, "ratio", 0.5F);
  if (rate != 0)
    x = importer::tensor_value(c.in.apply(ops::dropout{rate, c.in.next_stream()}, {x.id}), x.batch_axis);
  return {x};
}

const std::map<std::string, importer::handler>& all_handlers() {
  static const std::map<std::string, importer::handler> all = [] {
    std::map<std::string, importer::handler> out;
    for (const auto& family : {arithmetic_operators(), arrangement_operators(), layer_operators(), recurrent_operators()})
      for (const auto& [type, run] : family)
        out[type] = run;
    return out;
  }();
  return all;
}

} // namespace

std::vector<named_handler> layer_operators() {
  return {{"Conv", read_conv},
          {"MaxPool", read_max_pool},
          {"AveragePool", read_average_pool},
          {"GlobalAveragePool", read_global_average},
          {"BatchNormalization", read_batchnorm},
          {"LayerNormalization", read_layernorm},
          {"InstanceNormalization", read_instancenorm},
          {"Softmax", read_softmax},
          {"LogSoftmax", read_log_softmax},
          {"Dropout", read_dropout}};
}

importer::handler operator_named(const std::string& type) {
  const auto found = all_handlers().find(type);
  return found == all_handlers().end() ? nullptr : found->second;
}

std::vector<std::string> handled_operators() {
  std::vector<std::string> out;
  for (const auto& [type, run] : all_handlers())
    out.push_back(type);
  return out;
}

} // namespace troupe::onnx
