// SPDX-License-Identifier: BSD-3-Clause
// Products and elementwise operators.
#include <cmath>
#include <optional>
#include <string>
#include <utility>

#include <fmt/format.h>

#include "tensor/onnx/importer.hpp"

namespace troupe::onnx {

namespace {

using kernels::binary_op;
using kernels::unary_op;
using outputs = importer::outputs;

/// The rows' axis of an elementwise result, and its operands with it taken out where one lacks it.
struct aligned {
  value_id a{}, b{};
  int batch_axis = -1;
};

/// A value without rows, as an operand of one of `rank` axes whose rows are at `batch_axis`.
value_id beside_rows(importer& in, const imported& fixed, std::size_t rank, int batch_axis) {
  auto extents = in.dims(fixed.id).extents();
  const auto after = rank - static_cast<std::size_t>(batch_axis); // axes from the rows on
  if (extents.size() < after)
    return fixed.id;
  const auto at = static_cast<std::ptrdiff_t>(extents.size() - after);
  if (extents[static_cast<std::size_t>(at)] != 1)
    throw misfit{fmt::format("gives each row of the batch another part of {}, and rows are alike; give the batch a dynamic axis "
                             "when exporting",
                             in.dims(fixed.id).to_string())};
  extents.erase(extents.begin() + at);
  return in.reshaped(fixed.id, shape{std::move(extents)});
}

aligned align(importer& in, const imported& a, const imported& b) {
  const auto rank_a = in.rank(a), rank_b = in.rank(b);
  if (a.batch_axis < 0 && b.batch_axis < 0)
    return {a.id, b.id, -1};
  if (a.batch_axis >= 0 && b.batch_axis >= 0) {
    if (rank_a != rank_b || a.batch_axis != b.batch_axis)
      throw misfit{"combines values whose rows of the batch are on different axes"};
    return {a.id, b.id, a.batch_axis};
  }
  const bool first = a.batch_axis >= 0;
  const auto &rows = first ? a : b, &fixed = first ? b : a;
  const auto other = beside_rows(in, fixed, first ? rank_a : rank_b, rows.batch_axis);
  return {first ? a.id : other, first ? other : b.id, rows.batch_axis};
}

bool is_masking(double x) {
  return x <= -1e4; // so that its exponential is 0
}

/// Whether a mask of the last two axes hides from each place those after it, and no other.
bool is_causal(const known& mask, bool (*hides)(double)) {
  const auto rank = mask.dims.size();
  if (rank < 2 || mask.dims[rank - 1] != mask.dims[rank - 2])
    return false;
  const auto length = static_cast<std::size_t>(mask.dims[rank - 1]);
  if (mask.data.size() != length * length)
    return false;
  for (std::size_t i = 0; i < mask.data.size(); ++i)
    if (hides(mask.data[i]) != (i % length > i / length))
      return false;
  return true;
}

std::vector<std::int64_t> without_leading_ones(std::vector<std::int64_t> extents) {
  while (!extents.empty() && extents.front() == 1)
    extents.erase(extents.begin());
  return extents;
}

/// x + mask, remembered for attention.
imported masked_by(const importer::call& c, const imported& x, const std::string& name, const known& mask,
                   std::vector<float> added, bool causal) {
  auto& in = c.in;
  const auto slot = in.frozen(name, shape{without_leading_ones(mask.dims)}, std::move(added));
  const auto both = align(in, x, importer::tensor_value(slot, -1));
  const auto sum = in.apply(ops::binary{binary_op::add}, {both.a, both.b});
  in.masked[sum] = {x.id, causal};
  return importer::tensor_value(sum, both.batch_axis);
}

bool hides_number(double x) {
  return is_masking(x);
}
bool is_not_zero(double x) {
  return x != 0;
}
bool is_zero(double x) {
  return x == 0;
}

/// An operand that is a mask: 0 where something is seen, far below elsewhere.
std::optional<known> mask_of(const importer::call& c, std::size_t i) {
  auto array = c.in.as_known(c.at(i));
  if (!array || !array->is_float || array->data.size() < 2)
    return std::nullopt;
  bool hides = false;
  for (const double each : array->data) {
    if (each != 0 && !is_masking(each))
      return std::nullopt;
    hides = hides || each != 0;
  }
  return hides ? array : std::nullopt;
}

outputs combine_values(const importer::call& c, binary_op op) {
  auto& in = c.in;
  if (op == binary_op::add)
    for (std::size_t i = 0; i < 2; ++i)
      if (const auto mask = mask_of(c, i); mask && c.at(1 - i).is == imported::kind::tensor) {
        std::vector<float> added;
        for (const double each : mask->data)
          added.push_back(each == 0 ? 0.0F : static_cast<float>(std::max(each, -1e30)));
        const auto& name = c.at(i).name;
        return {masked_by(c, c.at(1 - i), name, *mask, std::move(added), is_causal(*mask, hides_number))};
      }
  imported a, b;
  // A number that everything is combined with needs no extents.
  for (std::size_t i = 0; i < 2; ++i) {
    const auto same = c.uniform(i);
    const bool small = same && in.rank(c.at(i)) <= in.rank(c.at(1 - i)) && c.at(i).array->data.size() == 1;
    (i == 0 ? a : b) = small ? importer::tensor_value(in.constant(*same), -1) : c.tensor(i);
  }
  const auto both = align(in, a, b);
  value_id made = value_id::none;
  if (op == binary_op::add)
    for (const auto& [x, y] : {std::pair{both.a, both.b}, {both.b, both.a}}) {
      const auto &whole = in.scratch().at(x), &part = in.scratch().at(y);
      if (made == value_id::none && whole.per_row && !part.per_row && part.dims.rank() == 1 && ends_with(whole.dims, part.dims))
        made = in.apply(ops::add_bias{}, {x, y});
    }
  if (made == value_id::none)
    made = in.apply(ops::binary{op}, {both.a, both.b});
  if (const auto fused = op == binary_op::multiply ? as_activation(in, made)
                         : op == binary_op::add    ? as_layernorm(in, made)
                                                   : value_id::none;
      fused != value_id::none)
    made = fused;
  return {importer::tensor_value(made, both.batch_axis)};
}

template <binary_op Op>
outputs read_binary(const importer::call& c) {
  return combine_values(c, Op);
}

template <unary_op Op>
outputs read_unary(const importer::call& c) {
  const auto x = c.tensor(0);
  return {importer::tensor_value(c.in.apply(ops::unary{Op}, {x.id}), x.batch_axis)};
}

outputs read_pow(const importer::call& c) {
  auto& in = c.in;
  const auto x = c.tensor(0);
  const auto exponent = c.array(1).uniform();
  const auto apply = [&](unary_op op) { return in.apply(ops::unary{op}, {x.id}); };
  if (exponent == 2.0)
    return {importer::tensor_value(apply(unary_op::square), x.batch_axis)};
  if (exponent == 0.5)
    return {importer::tensor_value(apply(unary_op::sqrt), x.batch_axis)};
  if (exponent == 3.0)
    return {importer::tensor_value(in.apply(ops::binary{binary_op::multiply}, {apply(unary_op::square), x.id}), x.batch_axis)};
  throw misfit{"has an exponent other than 2, 3 and 0.5"};
}

imported sum_of(importer& in, const imported& like, value_id a, value_id b) {
  return importer::tensor_value(in.apply(ops::binary{binary_op::add}, {a, b}), like.batch_axis);
}

value_id times(importer& in, value_id v, double by) {
  return by == 1 ? v : in.apply(ops::binary{binary_op::multiply}, {v, in.constant(by)});
}

value_id plus(importer& in, value_id v, double number) {
  return number == 0 ? v : in.apply(ops::binary{binary_op::add}, {v, in.constant(number)});
}

value_id relu_of(importer& in, value_id v) {
  return in.apply(ops::unary{unary_op::relu}, {v});
}

/// v, but at least `low` and at most `high`: low + relu(v - low) - relu(v - high).
value_id clipped(importer& in, value_id v, std::optional<double> low, std::optional<double> high) {
  if (low && high) {
    const auto above =
        in.apply(ops::binary{binary_op::subtract}, {relu_of(in, plus(in, v, -*low)), relu_of(in, plus(in, v, -*high))});
    return plus(in, above, *low);
  }
  if (low)
    return plus(in, relu_of(in, plus(in, v, -*low)), *low);
  return high ? plus(in, times(in, relu_of(in, plus(in, times(in, v, -1), *high)), -1), *high) : v;
}

outputs read_clip(const importer::call& c) {
  const auto x = c.tensor(0);
  const auto bound = [&](std::size_t i) {
    if (!c.has(i))
      return std::optional<double>{};
    const auto number = c.array(i).uniform();
    if (!number)
      throw misfit{"has a bound that is not one number"};
    return std::isfinite(*number) && std::abs(*number) < 1e30 ? number : std::nullopt;
  };
  return {importer::tensor_value(clipped(c.in, x.id, bound(1), bound(2)), x.batch_axis)};
}

outputs read_leaky_relu(const importer::call& c) {
  const auto x = c.tensor(0);
  const double slope = static_cast<double>(float_attribute(c.n, "alpha", 0.01F));
  return {sum_of(c.in, x, times(c.in, relu_of(c.in, x.id), 1 - slope), times(c.in, x.id, slope))};
}

outputs read_hard_sigmoid(const importer::call& c) {
  const auto x = c.tensor(0);
  const auto line = plus(c.in, times(c.in, x.id, static_cast<double>(float_attribute(c.n, "alpha", 0.2F))),
                         static_cast<double>(float_attribute(c.n, "beta", 0.5F)));
  return {importer::tensor_value(clipped(c.in, line, 0, 1), x.batch_axis)};
}

outputs read_hard_swish(const importer::call& c) {
  const auto x = c.tensor(0);
  const auto gate = clipped(c.in, plus(c.in, times(c.in, x.id, 1.0 / 6), 0.5), 0, 1);
  return {importer::tensor_value(c.in.apply(ops::binary{binary_op::multiply}, {x.id, gate}), x.batch_axis)};
}

/// min(v, 0).
value_id negative_part(importer& in, value_id v) {
  return times(in, relu_of(in, times(in, v, -1)), -1);
}

outputs read_elu(const importer::call& c) {
  const auto x = c.tensor(0);
  const auto below = plus(c.in, c.in.apply(ops::unary{unary_op::exp}, {negative_part(c.in, x.id)}), -1);
  return {sum_of(c.in, x, relu_of(c.in, x.id), times(c.in, below, static_cast<double>(float_attribute(c.n, "alpha", 1))))};
}

/// relu(x) + log(1 + exp(-|x|)), which does not overflow.
outputs read_softplus(const importer::call& c) {
  const auto x = c.tensor(0);
  const auto apply = [&](unary_op op, value_id v) { return c.in.apply(ops::unary{op}, {v}); };
  const auto rest = apply(unary_op::log, plus(c.in, apply(unary_op::exp, times(c.in, apply(unary_op::abs, x.id), -1)), 1));
  return {sum_of(c.in, x, relu_of(c.in, x.id), rest)};
}

outputs read_reciprocal(const importer::call& c) {
  const auto x = c.tensor(0);
  return {importer::tensor_value(c.in.apply(ops::binary{binary_op::divide}, {c.in.constant(1), x.id}), x.batch_axis)};
}

outputs read_where(const importer::call& c) {
  auto& in = c.in;
  if (in.as_known(c.at(0)) == std::nullopt)
    throw misfit{"chooses by what is computed from the samples; conditions must be constants"};
  const auto condition = c.array(0);
  for (const std::size_t i : {1U, 2U}) { // the other one is filled
    const auto filler = c.uniform(3 - i);
    if (!filler || c.at(i).is != imported::kind::tensor)
      continue;
    const auto x = c.tensor(i);
    const auto hides = i == 2 ? is_not_zero : is_zero;
    std::vector<float> numbers;
    for (const double each : condition.data)
      numbers.push_back(hides(each) ? 1.0F : 0.0F);
    const auto name = c.n.outputs.at(0) + ".mask";
    if (is_masking(*filler)) {
      for (auto& each : numbers)
        each = each == 0 ? 0.0F : -1e30F;
      return {masked_by(c, x, name, condition, std::move(numbers), is_causal(condition, hides))};
    }
    if (*filler == 0) {
      for (auto& each : numbers)
        each = 1 - each;
      const auto slot = in.frozen(name, shape{without_leading_ones(condition.dims)}, std::move(numbers));
      const auto both = align(in, x, importer::tensor_value(slot, -1));
      return {importer::tensor_value(in.apply(ops::binary{binary_op::multiply}, {both.a, both.b}), both.batch_axis)};
    }
  }
  throw misfit{"fills with a number that is neither 0 nor far below 0, which masks"};
}

// -- products

/// The value, or what it is the transposition of over its last two axes.
struct operand {
  value_id id{};
  bool transposed = false;
};

operand untransposed(importer& in, value_id v) {
  const auto* order = in.made_by<ops::permute>(v);
  const auto rank = in.dims(v).rank();
  if (order == nullptr || rank < 2)
    return {v, false};
  for (std::size_t i = 0; i + 2 < rank; ++i)
    if (order->axes[i] != i)
      return {v, false};
  return {in.input_of(v), true};
}

imported multiply(importer& in, const imported& a, const imported& b) {
  const auto rank_a = in.rank(a), rank_b = in.rank(b);
  if (rank_a < 2 || rank_b < 2)
    throw misfit{"multiplies a vector; give both sides two axes or more"};
  if (b.batch_axis < 0 && rank_b == 2) {
    if (a.batch_axis == static_cast<int>(rank_a) - 1)
      throw misfit{"sums over the rows of the batch, and each row is computed by itself"};
    const auto right = untransposed(in, b.id);
    return importer::tensor_value(in.apply(ops::matmul{false, right.transposed}, {a.id, right.id}), a.batch_axis);
  }
  if (a.batch_axis != b.batch_axis || rank_a != rank_b || (a.batch_axis >= 0 && a.batch_axis + 2 >= static_cast<int>(rank_a)))
    throw misfit{"multiplies matrices whose rows of the batch are on different axes, or within the matrices"};
  const auto left = untransposed(in, a.id), right = untransposed(in, b.id);
  const auto made = in.apply(ops::batched_matmul{left.transposed, right.transposed}, {left.id, right.id});
  if (const auto fused = as_attention(in, made); fused != value_id::none)
    return importer::tensor_value(fused, a.batch_axis);
  return importer::tensor_value(made, a.batch_axis);
}

outputs read_matmul(const importer::call& c) {
  return {multiply(c.in, c.tensor(0), c.tensor(1))};
}

outputs read_gemm(const importer::call& c) {
  auto& in = c.in;
  const auto a = c.tensor(0), b = c.tensor(1);
  if (a.batch_axis != 0 || integer_attribute(c.n, "transA", 0) != 0 || b.batch_axis >= 0 || in.rank(b) != 2)
    throw misfit{"must multiply rows of the batch by a matrix"};
  const bool transposed = integer_attribute(c.n, "transB", 0) != 0;
  const auto right = untransposed(in, b.id);
  auto made = in.apply(ops::matmul{false, transposed != right.transposed}, {a.id, right.id});
  made = times(in, made, static_cast<double>(float_attribute(c.n, "alpha", 1)));
  if (c.has(2)) {
    auto bias = c.tensor(2);
    if (bias.batch_axis < 0 && in.dims(bias.id).rank() == 2 && in.dims(bias.id)[0] == 1)
      bias.id = in.reshaped(bias.id, {in.dims(bias.id)[1]});
    const auto term = times(in, bias.id, static_cast<double>(float_attribute(c.n, "beta", 1)));
    const bool per_unit = bias.batch_axis < 0 && in.dims(term).rank() == 1 && in.dims(term)[0] == in.dims(made)[0];
    made = per_unit ? in.apply(ops::add_bias{}, {made, term}) : in.apply(ops::binary{binary_op::add}, {made, term});
  }
  return {importer::tensor_value(made, 0)};
}

} // namespace

std::vector<named_handler> arithmetic_operators() {
  return {{"Add", read_binary<binary_op::add>},
          {"Sub", read_binary<binary_op::subtract>},
          {"Mul", read_binary<binary_op::multiply>},
          {"Div", read_binary<binary_op::divide>},
          {"Pow", read_pow},
          {"Reciprocal", read_reciprocal},
          {"Clip", read_clip},
          {"Elu", read_elu},
          {"Softplus", read_softplus},
          {"LeakyRelu", read_leaky_relu},
          {"HardSigmoid", read_hard_sigmoid},
          {"HardSwish", read_hard_swish},
          {"Relu", read_unary<unary_op::relu>},
          {"Tanh", read_unary<unary_op::tanh>},
          {"Sigmoid", read_unary<unary_op::sigmoid>},
          {"Exp", read_unary<unary_op::exp>},
          {"Log", read_unary<unary_op::log>},
          {"Erf", read_unary<unary_op::erf>},
          {"Sqrt", read_unary<unary_op::sqrt>},
          {"Abs", read_unary<unary_op::abs>},
          {"Neg", read_unary<unary_op::negate>},
          {"Where", read_where},
          {"MatMul", read_matmul},
          {"Gemm", read_gemm}};
}

} // namespace troupe::onnx
