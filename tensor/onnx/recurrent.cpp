// SPDX-License-Identifier: BSD-3-Clause
// LSTM and GRU: gates in ONNX's order to those in ours, which is PyTorch's.
#include <algorithm>
#include <optional>
#include <string>
#include <utility>

#include <fmt/format.h>

#include "tensor/onnx/importer.hpp"

namespace troupe::onnx {

namespace {

using outputs = importer::outputs;

/// Rows [begin, end) of a value, along its first axis.
struct piece {
  value_id whole{};
  std::int64_t begin = 0, end = 0;
};
using pieces = std::vector<piece>;

/// Joins those that follow each other in one value.
pieces joined(const pieces& parts) {
  pieces out;
  for (const auto& each : parts)
    if (!out.empty() && out.back().whole == each.whole && out.back().end == each.begin)
      out.back().end = each.end;
    else
      out.push_back(each);
  return out;
}

/// Elements [begin, end) of what the pieces make together.
pieces range_of(const pieces& all, std::int64_t begin, std::int64_t end) {
  pieces out;
  std::int64_t at = 0;
  for (const auto& each : all) {
    const auto length = each.end - each.begin;
    const auto from = std::max(begin, at), to = std::min(end, at + length);
    if (from < to)
      out.push_back({each.whole, each.begin + from - at, each.begin + to - at});
    at += length;
  }
  return out;
}

/// What an axis of a value is joined from. Exporters cut PyTorch's parameters at each gate and join them in ONNX's order; what is
/// then put back into ours is the parameter itself.
pieces made_from(importer& in, value_id v, std::size_t axis) {
  const auto& producer = in.scratch().producer(v);
  const auto& own = in.dims(v);
  if (std::holds_alternative<ops::reshape>(producer.op)) {
    const auto from = producer.inputs[0];
    const auto& before = in.dims(from);
    auto unsqueezed = before.extents();
    unsqueezed.insert(unsqueezed.begin(), 1);
    if (axis > 0 && shape{unsqueezed} == own)
      return made_from(in, from, axis - 1);
  }
  if (const auto* join = std::get_if<ops::concat>(&producer.op); join != nullptr && join->axis == axis) {
    pieces out;
    const auto inputs = producer.inputs;
    for (const auto each : inputs)
      std::ranges::copy(made_from(in, each, axis), std::back_inserter(out));
    return joined(out);
  }
  if (const auto* split = std::get_if<ops::split>(&producer.op); split != nullptr && split->axis == axis) {
    std::int64_t begin = 0;
    std::size_t index = 0;
    for (; producer.outputs[index] != v; ++index)
      begin += split->lengths[index];
    const auto length = split->lengths[index];
    return range_of(made_from(in, producer.inputs[0], axis), begin, begin + length);
  }
  return {{v, 0, own[axis]}};
}

/// The value that pieces along the first axis make.
value_id put_together(importer& in, const pieces& parts) {
  std::vector<value_id> ids;
  for (const auto& each : joined(parts))
    ids.push_back(in.cut(each.whole, 0, each.begin, each.end - each.begin));
  return ids.size() == 1 ? ids[0] : in.apply(ops::concat{0}, std::move(ids));
}

struct recurrent_kind {
  std::vector<std::size_t> order; ///< ONNX's place of each of our gates
  bool is_lstm = true;
};

/// The parameter of all gates from ONNX's (1, k gates width, ...), of which `first` is the first gate that is meant.
value_id gates_in_our_order(importer& in, const imported& from, const recurrent_kind& kind, std::int64_t width,
                            std::size_t first) {
  pieces all = made_from(in, from.id, 1);
  // A leading axis of 1 that is the parameter's own.
  for (auto& each : all)
    if (auto extents = in.dims(each.whole).extents(); extents.size() == in.dims(from.id).rank()) {
      extents.erase(extents.begin());
      each.whole = in.reshaped(each.whole, shape{std::move(extents)});
    }
  pieces ours;
  for (const auto gate : kind.order) {
    const auto begin = static_cast<std::int64_t>(first + gate) * width;
    std::ranges::copy(range_of(all, begin, begin + width), std::back_inserter(ours));
  }
  return put_together(in, ours);
}

void must_be_zero(const importer::call& c, std::size_t i, const char* input) {
  if (c.has(i) && c.uniform(i) != 0.0)
    throw misfit{fmt::format("begins with {} of its own, and layers here begin each row at 0", input)};
}

outputs recurrent(const importer::call& c, const recurrent_kind& kind) {
  auto& in = c.in;
  const auto x = c.tensor(0), w = c.tensor(1), u = c.tensor(2);
  const auto gates = static_cast<std::int64_t>(kind.order.size());
  const auto width = integer_attribute(c.n, "hidden_size", 0);
  if (text_attribute(c.n, "direction", "forward") != "forward")
    throw misfit{"runs backward, or both ways, and layers here run forward"};
  if (integers_attribute(c.n, "activations") || c.has(4) || integer_attribute(c.n, "layout", 0) != 0)
    throw misfit{"has activations, lengths or a layout of its own; leave them at their defaults"};
  if (!kind.is_lstm && integer_attribute(c.n, "linear_before_reset", 0) == 0)
    throw misfit{"resets before its product, and PyTorch's form, which is read, after it (linear_before_reset = 1)"};
  must_be_zero(c, 5, "a state");
  must_be_zero(c, 6, "cells");
  if (x.batch_axis != 1 || in.dims(x.id).rank() != 2 || width < 1 || in.dims(w.id).rank() != 3 || in.dims(u.id).rank() != 3
      || in.dims(w.id)[0] != 1 || in.dims(w.id)[1] != gates * width || in.dims(u.id)[1] != gates * width)
    throw misfit{fmt::format("needs sequences (length, rows, features), got {}", in.scratch().at(x.id).to_string())};
  auto projected = in.apply(ops::matmul{false, true}, {x.id, gates_in_our_order(in, w, kind, width, 0)});
  value_id inner_bias = value_id::none;
  if (c.has(3)) {
    const auto bias = c.tensor(3);
    if (in.dims(bias.id) != shape{1, 2 * gates * width})
      throw misfit{"has biases of other extents"};
    projected = in.apply(ops::add_bias{}, {projected, gates_in_our_order(in, bias, kind, width, 0)});
    inner_bias = gates_in_our_order(in, bias, kind, width, static_cast<std::size_t>(gates));
  } else {
    inner_bias = in.constant(0, {gates * width});
  }
  const auto own = gates_in_our_order(in, u, kind, width, 0);
  const auto y =
      kind.is_lstm ? in.apply(ops::lstm{}, {projected, own, inner_bias}) : in.apply(ops::gru{}, {projected, own, inner_bias});
  const auto length = in.dims(y)[0];
  // Y (length, directions, rows, width) and Y_h (directions, rows, width). Cells have no gradient here.
  return {importer::tensor_value(in.reshaped(y, {length, 1, width}), 2),
          importer::tensor_value(in.reshaped(in.cut(y, 0, length - 1, 1), {1, width}), 1)};
}

outputs read_lstm(const importer::call& c) {
  return recurrent(c, {.order = {0, 2, 3, 1}, .is_lstm = true}); // i, f, g, o of i, o, f, g
}

outputs read_gru(const importer::call& c) {
  return recurrent(c, {.order = {1, 0, 2}, .is_lstm = false}); // r, z, n of z, r, n
}

} // namespace

std::vector<named_handler> recurrent_operators() {
  return {{"LSTM", read_lstm}, {"GRU", read_gru}};
}

} // namespace troupe::onnx
