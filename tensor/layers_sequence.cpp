// SPDX-License-Identifier: BSD-3-Clause
// Layers on sequences: (rows, length) of ids, (rows, length, width) of numbers.
#include <fmt/format.h>

#include "tensor/builder.hpp"
#include "tensor/layers.hpp"
#include "tensor/line.hpp"

namespace troupe::layers {

namespace {

/// None: it has failed.
bool is_sequence(builder& b, value_id x) {
  if (b.at(x).type == dtype::f32 && b.dims(x).rank() == 2)
    return true;
  b.fail(fmt::format("needs sequences (rows, length, width), got {}{}", b.at(x).to_string(),
                     b.at(x).type == dtype::i32 ? "; put an \"embedding\" before it" : ""));
  return false;
}

template <class Layer>
result<Layer> parse_recurrent(line& l) {
  auto units = l.extent();
  if (!units)
    return l.wrong(fmt::format("needs a number of units from 1 to {}", largest_extent), fmt::format("\"{}\"", Layer::example));
  return Layer{*units, l.take_if("last")};
}

template <class Layer>
value_id build_recurrent(builder& b, value_id x, const Layer& layer, const char* name, bool is_lstm) {
  if (!is_sequence(b, x))
    return value_id::none;
  const auto y = b.recurrent(x, b.number(name), "", layer.units, is_lstm);
  return layer.last ? b.last_place(y) : y;
}

constexpr double small = 0.02; // GPT-2's deviation of what is added to a stream

} // namespace

result<embedding> embedding::parse(line& l) {
  auto width = l.extent();
  if (!width)
    return l.wrong(fmt::format("needs a width from 1 to {}", largest_extent), fmt::format("\"{}\"", example));
  return embedding{*width};
}
value_id embedding::build(builder& b, value_id x) const {
  return b.embedding(x, b.number("embedding"), width, small);
}

value_id positions::build(builder& b, value_id x) const {
  if (!is_sequence(b, x))
    return value_id::none;
  const auto vectors = b.add_parameter(b.number("positions") + ".weight", b.dims(x), {initializer::kind::normal});
  return b.apply(ops::binary{kernels::binary_op::add}, {x, vectors});
}

result<attention> attention::parse(line& l) {
  const auto right = fmt::format("\"{}\"", example);
  attention out;
  auto heads = l.extent();
  if (!heads)
    return l.wrong("needs a number of heads from 1 on", right);
  out.heads = *heads;
  out.causal = l.take_if("causal");
  if (l.take_if("keys")) {
    auto keys = l.extent();
    if (!keys)
      return l.wrong("needs a number of key heads from 1 on", "\"attention 8 causal keys 2\"");
    out.key_heads = *keys;
  }
  out.rotary = l.take_if("rotary");
  if (l.take_if("dropout")) {
    auto rate = l.rate();
    if (!rate)
      return l.wrong("needs a rate in [0, 1)", "\"attention 4 causal dropout 0.1\"");
    out.dropout = *rate;
  }
  return out;
}
value_id attention::build(builder& b, value_id x) const {
  if (!is_sequence(b, x))
    return value_id::none;
  const auto width = b.dims(x)[1], keys = key_heads == 0 ? heads : key_heads, head = width / heads;
  if (width % heads != 0)
    return b.fail(fmt::format("{} heads do not divide the width of {}", heads, b.at(x).to_string()));
  if (rotary && head % 2 != 0)
    return b.fail(
        fmt::format("rotary positions need heads of an even number of elements, and {} of {} have {}", heads, width, head));
  const auto name = b.number("attention");
  const auto weights = [&](std::int64_t units) { return builder::weight_for(kernels::activation::none, width, units); };
  const auto all = (heads + 2 * keys) * head;
  auto qkv = b.dense(x, name + ".qkv", all, weights(all));
  if (rotary)
    qkv = b.apply(ops::rotary{.heads = heads + keys, .head_size = head}, {qkv});
  const auto stream = dropout > 0 ? b.next_stream() : 0;
  const auto y = b.apply(ops::attention{heads, keys, causal, static_cast<float>(dropout), stream}, {qkv});
  return b.dense(y, name + ".proj", width, weights(width));
}

result<lstm> lstm::parse(line& l) {
  return parse_recurrent<lstm>(l);
}
value_id lstm::build(builder& b, value_id x) const {
  return build_recurrent(b, x, *this, "lstm", true);
}
result<gru> gru::parse(line& l) {
  return parse_recurrent<gru>(l);
}
value_id gru::build(builder& b, value_id x) const {
  return build_recurrent(b, x, *this, "gru", false);
}

result<head> head::parse(line& l) {
  return head{l.take_if("tied")};
}
value_id head::build(builder& b, value_id x) const {
  const auto& in = b.dims(x);
  const auto width = in.rank() == 0 ? 0 : in[in.rank() - 1];
  if (in.rank() == 0 || in.rank() > 2)
    return b.fail(fmt::format("needs (rows, width) or (rows, length, width), got {}", b.at(x).to_string()));
  if (!tied)
    return b.apply(ops::matmul{false, true},
                   {x, b.add_parameter(b.number("head") + ".weight", {b.data().classes, width},
                                       builder::weight_for(kernels::activation::none, width, b.data().classes))});
  if (b.table() == value_id::none)
    return b.fail("is tied to the table of an \"embedding\", and there is none before it");
  if (const auto& table = b.dims(b.table()); table[1] != width || table[0] != b.data().classes)
    return b.fail(fmt::format("is tied to a table {}, which does not make logits of {} classes from {}", table.to_string(),
                              b.data().classes, b.at(x).to_string()));
  return b.apply(ops::matmul{false, true}, {x, b.table()});
}

} // namespace troupe::layers
