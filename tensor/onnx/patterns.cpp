// SPDX-License-Identifier: BSD-3-Clause
// What exporters take apart and we have whole: GELU, SiLU, layer norm, attention.
#include <cmath>
#include <optional>
#include <utility>

#include "tensor/onnx/importer.hpp"

namespace troupe::onnx {

namespace {

using kernels::binary_op;
using kernels::unary_op;

bool about(double a, double b) {
  return std::abs(a - b) <= 1e-4 * std::abs(b);
}

const ops::binary* binary_of(const importer& in, value_id v, binary_op op) {
  const auto* made = in.made_by<ops::binary>(v);
  return made != nullptr && made->op == op ? made : nullptr;
}

bool is_unary(const importer& in, value_id v, unary_op op) {
  const auto* made = in.made_by<ops::unary>(v);
  return made != nullptr && made->op == op;
}

/// v as a number times a value; 1 times itself where it is nothing else.
struct multiple {
  double factor = 1;
  value_id of{};
};

multiple multiple_of(const importer& in, value_id v) {
  multiple out{1, v};
  for (bool again = true; again;) {
    again = false;
    const bool product = binary_of(in, out.of, binary_op::multiply) != nullptr;
    if (!product && binary_of(in, out.of, binary_op::divide) == nullptr)
      break;
    for (const std::size_t i : {0U, 1U})
      if (const auto number = in.constant_number(in.input_of(out.of, i)); number && (product || i == 1) && !again) {
        out = {product ? out.factor * *number : out.factor / *number, in.input_of(out.of, 1 - i)};
        again = true;
      }
  }
  return out;
}

/// The other operand of a sum with this number.
std::optional<value_id> added_to(const importer& in, value_id v, double number) {
  if (binary_of(in, v, binary_op::add) == nullptr)
    return std::nullopt;
  for (const std::size_t i : {0U, 1U})
    if (const auto other = in.constant_number(in.input_of(v, i)); other && about(*other, number))
      return in.input_of(v, 1 - i);
  return std::nullopt;
}

/// A product's factors that are no numbers, two of them at most, and the number.
struct factors {
  double number = 1;
  std::vector<value_id> values;
};

void collect(const importer& in, value_id v, factors& into, int depth) {
  const auto m = multiple_of(in, v);
  into.number *= m.factor;
  if (depth > 0 && binary_of(in, m.of, binary_op::multiply) != nullptr) {
    collect(in, in.input_of(m.of, 0), into, depth - 1);
    collect(in, in.input_of(m.of, 1), into, depth - 1);
  } else {
    into.values.push_back(m.of);
  }
}

/// Whether v is sqrt(2/pi) (x + 0.044715 x^3), as exporters write it.
bool is_gelu_argument(const importer& in, value_id v, value_id x) {
  const auto m = multiple_of(in, v);
  if (!about(m.factor, std::sqrt(2 / M_PI)) || binary_of(in, m.of, binary_op::add) == nullptr)
    return false;
  for (const std::size_t i : {0U, 1U}) {
    factors cube;
    collect(in, in.input_of(m.of, 1 - i), cube, 2);
    int power = 0;
    for (const auto each : cube.values)
      power += each == x ? 1 : is_unary(in, each, unary_op::square) && in.input_of(each) == x ? 2 : 4;
    if (in.input_of(m.of, i) == x && power == 3 && about(cube.number, 0.044715))
      return true;
  }
  return false;
}

std::optional<unary_op> gate_of(const importer& in, double number, value_id gate, value_id x) {
  if (about(number, 1) && is_unary(in, gate, unary_op::sigmoid) && in.input_of(gate) == x)
    return unary_op::silu;
  const auto inner = added_to(in, gate, 1);
  if (!inner || !about(number, 0.5))
    return std::nullopt;
  if (is_unary(in, *inner, unary_op::erf)) {
    const auto m = multiple_of(in, in.input_of(*inner));
    if (m.of == x && about(m.factor, std::sqrt(0.5)))
      return unary_op::gelu_erf;
  }
  if (is_unary(in, *inner, unary_op::tanh) && is_gelu_argument(in, in.input_of(*inner), x))
    return unary_op::gelu;
  return std::nullopt;
}

/// Whether v is the mean of x over its last axis, kept with extent 1.
bool is_mean_of(const importer& in, value_id v, value_id x) {
  const auto* sum = in.made_by<ops::sum_to>(v);
  if (sum == nullptr || in.input_of(v) != x || in.dims(x).rank() == 0)
    return false;
  auto extents = in.dims(x).extents();
  const auto features = std::exchange(extents.back(), 1);
  return sum->dims == shape{extents} && about(static_cast<double>(sum->scale), 1 / static_cast<double>(features));
}

/// Of v = x - mean(x): x.
std::optional<value_id> centred(const importer& in, value_id v) {
  if (binary_of(in, v, binary_op::subtract) == nullptr || !is_mean_of(in, in.input_of(v, 1), in.input_of(v, 0)))
    return std::nullopt;
  return in.input_of(v, 0);
}

struct normalized {
  value_id x{};
  double epsilon = 0;
};

/// Of v = (x - mean) / sqrt(variance + epsilon).
std::optional<normalized> normalized_by(const importer& in, value_id v) {
  if (binary_of(in, v, binary_op::divide) == nullptr)
    return std::nullopt;
  const auto top = in.input_of(v, 0), bottom = in.input_of(v, 1);
  const auto x = centred(in, top);
  if (!x || !is_unary(in, bottom, unary_op::sqrt) || binary_of(in, in.input_of(bottom), binary_op::add) == nullptr)
    return std::nullopt;
  const auto sum = in.input_of(bottom);
  for (const std::size_t i : {0U, 1U}) {
    const auto epsilon = in.constant_number(in.input_of(sum, i));
    const auto variance = in.input_of(sum, 1 - i);
    const auto* mean = in.made_by<ops::sum_to>(variance);
    if (!epsilon || mean == nullptr)
      continue;
    const auto square = in.input_of(variance);
    if (is_mean_of(in, variance, square) && is_unary(in, square, unary_op::square) && centred(in, in.input_of(square)) == x)
      return normalized{*x, *epsilon};
  }
  return std::nullopt;
}

// -- attention

/// Heads (rows, H, T, d) as the stream (rows, T, H d) that they were cut from.
value_id as_stream(importer& in, value_id heads) {
  const auto& d = in.dims(heads);
  const shape to{d[1], d[0] * d[2]};
  return in.reshaped(in.permuted(heads, {1, 0, 2}), to);
}

/// One tensor, where q, k and v are its thirds.
std::optional<value_id> whole_of_thirds(const importer& in, const std::vector<value_id>& qkv) {
  const auto& producer = in.scratch().producer(qkv[0]);
  const auto* split = std::get_if<ops::split>(&producer.op);
  const auto& whole = producer.inputs;
  if (split == nullptr || producer.outputs != qkv || split->axis + 1 != in.dims(whole[0]).rank())
    return std::nullopt;
  return whole[0];
}

} // namespace

value_id as_activation(importer& in, value_id product) {
  factors all;
  collect(in, product, all, 2);
  if (all.values.size() != 2)
    return value_id::none;
  for (const std::size_t i : {0U, 1U})
    if (const auto op = gate_of(in, all.number, all.values[i], all.values[1 - i]))
      return in.apply(ops::unary{*op}, {all.values[1 - i]});
  return value_id::none;
}

value_id as_layernorm(importer& in, value_id sum) {
  const auto product = in.input_of(sum, 0), beta = in.input_of(sum, 1);
  for (const auto& [scaled, shift] : {std::pair{product, beta}, {beta, product}}) {
    if (binary_of(in, scaled, binary_op::multiply) == nullptr || in.made_by<ops::parameter>(shift) == nullptr)
      continue;
    for (const std::size_t i : {0U, 1U}) {
      const auto gamma = in.input_of(scaled, i);
      const auto found = normalized_by(in, in.input_of(scaled, 1 - i));
      if (found && in.made_by<ops::parameter>(gamma) != nullptr && in.dims(gamma).rank() == 1 && in.dims(shift) == in.dims(gamma))
        return in.apply(ops::layernorm{static_cast<float>(found->epsilon)}, {found->x, gamma, shift});
    }
  }
  return value_id::none;
}

value_id as_attention(importer& in, value_id product) {
  auto p = in.input_of(product, 0);
  const auto v = in.input_of(product, 1);
  const auto* outer = in.made_by<ops::batched_matmul>(product);
  if (outer == nullptr || outer->transpose_a || outer->transpose_b || in.dims(product).rank() != 3)
    return value_id::none;
  ops::attention op{.heads = in.dims(product)[0], .key_heads = in.dims(product)[0]};
  if (const auto* dropped = in.made_by<ops::dropout>(p)) {
    op.rate = dropped->rate, op.stream = dropped->stream;
    p = in.input_of(p);
  }
  if (in.made_by<ops::softmax>(p) == nullptr)
    return value_id::none;
  auto scores = in.input_of(p);
  double scale = 1;
  for (int i = 0; i < 2; ++i) { // scaled before the mask, or after it
    const auto m = multiple_of(in, scores);
    scale *= m.factor, scores = m.of;
    if (const auto mask = in.masked.find(scores); mask != in.masked.end()) {
      if (!mask->second.causal)
        return value_id::none;
      op.causal = true, scores = mask->second.from;
    }
  }
  const auto* inner = in.made_by<ops::batched_matmul>(scores);
  if (inner == nullptr || inner->transpose_a || in.dims(scores)[1] != in.dims(scores)[2])
    return value_id::none;
  const auto q = multiple_of(in, in.input_of(scores, 0));
  auto k = multiple_of(in, in.input_of(scores, 1));
  if (!inner->transpose_b)
    k.of = in.permuted(k.of, {0, 2, 1});
  const auto head = in.dims(q.of)[2];
  if (!about(scale * q.factor * k.factor * std::sqrt(static_cast<double>(head)), 1) || head > kernels::longest_head
      || in.dims(k.of) != in.dims(q.of) || in.dims(v) != in.dims(q.of))
    return value_id::none;
  std::vector<value_id> streams{as_stream(in, q.of), as_stream(in, k.of), as_stream(in, v)};
  if (const auto whole = whole_of_thirds(in, streams))
    streams = {*whole};
  const auto length = in.dims(product)[1];
  const auto y = in.apply(op, std::move(streams));
  return in.permuted(in.reshaped(y, {length, op.heads, head}), {1, 0, 2});
}

} // namespace troupe::onnx
