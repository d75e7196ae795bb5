// SPDX-License-Identifier: BSD-3-Clause
// Folding: each operator on known arrays.
#include "tensor/onnx/known.hpp"

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <numeric>

#include <fmt/format.h>

namespace troupe::onnx {

namespace {

using arrays = std::vector<const known*>;
using extents_of_known = std::vector<std::int64_t>;

std::size_t known_elements(const extents_of_known& dims) {
  double count = 1;
  for (const auto extent : dims) {
    count *= static_cast<double>(extent);
    if (extent < 0 || count > most_known_elements)
      throw misfit{fmt::format("makes a constant with an extent of {}, which is too large", extent)};
  }
  return static_cast<std::size_t>(count);
}

const known& input_at(const arrays& in, std::size_t i) {
  if (i >= in.size() || in[i] == nullptr)
    throw misfit{fmt::format("lacks its input {}", i + 1)};
  return *in[i];
}

void copy_element(const known& from, std::size_t i, known& to) {
  to.data.push_back(from.data[i]);
  if (from.counts_rows(i))
    to.rows.resize(to.data.size() - 1, false);
  if (from.counts_rows(i) || !to.rows.empty())
    to.rows.push_back(from.counts_rows(i));
}

/// Steps of a part within a whole that it is repeated to.
extents_of_known steps_in(const extents_of_known& part, const extents_of_known& whole) {
  extents_of_known steps(whole.size(), 0);
  std::int64_t step = 1;
  for (std::size_t i = 0; i < part.size(); ++i) {
    const auto axis = part.size() - 1 - i, at = whole.size() - 1 - i;
    if (part[axis] != 1 && part[axis] != whole[at])
      throw misfit{fmt::format("has operands whose extents {} and {} differ", part[axis], whole[at])};
    steps[at] = part[axis] == 1 ? 0 : step;
    step *= part[axis];
  }
  return steps;
}

/// What all repeat to, without elements.
known whole_of(const arrays& in) {
  known out;
  for (const auto* each : in)
    out.dims.resize(std::max(out.dims.size(), each->dims.size()), 1);
  for (const auto* each : in)
    for (std::size_t i = 0; i < each->dims.size(); ++i) {
      auto& extent = out.dims[out.dims.size() - each->dims.size() + i];
      if (each->dims[i] != 1)
        extent = each->dims[i];
    }
  for (const auto* each : in)
    if (each->batch_axis >= 0)
      out.batch_axis = static_cast<int>(out.dims.size() - each->dims.size()) + each->batch_axis;
  return out;
}

/// Calls f(index of each input's element) for each element of the whole, in order.
template <class F>
void each_repeated(const known& whole, const arrays& in, F f) {
  std::vector<extents_of_known> steps;
  for (const auto* each : in)
    steps.push_back(steps_in(each->dims, whole.dims));
  const auto count = known_elements(whole.dims);
  extents_of_known place(whole.dims.size(), 0), at(in.size(), 0);
  for (std::size_t i = 0; i < count; ++i) {
    f(at);
    for (auto axis = whole.dims.size(); axis-- > 0;) {
      for (std::size_t k = 0; k < in.size(); ++k)
        at[k] += steps[k][axis];
      if (++place[axis] < whole.dims[axis])
        break;
      for (std::size_t k = 0; k < in.size(); ++k)
        at[k] -= steps[k][axis] * whole.dims[axis];
      place[axis] = 0;
    }
  }
}

struct number_of_rows {
  double value = 0;
  bool rows = false;
};

number_of_rows combine(const std::string& type, number_of_rows a, number_of_rows b, bool whole_numbers) {
  const bool some = a.rows || b.rows;
  if (type == "Add" || type == "Sub") {
    const double sign = type == "Add" ? 1 : -1;
    if (a.rows != b.rows && (a.rows ? b.value : a.value) != 0)
      throw not_a_multiple_of_rows();
    return {a.value + sign * b.value, some};
  }
  if (type == "Mul") {
    if (a.rows && b.rows)
      throw not_a_multiple_of_rows();
    return {a.value * b.value, some};
  }
  if (type == "Div") {
    if (b.value == 0 && whole_numbers)
      throw misfit{"divides by 0"};
    const double quotient = a.value / b.value;
    if ((b.rows && !a.rows) || (some && !b.rows && quotient != std::floor(quotient)))
      throw not_a_multiple_of_rows();
    return {whole_numbers ? std::trunc(quotient) : quotient, a.rows && !b.rows};
  }
  if (type == "Equal" && some) // the number of rows is no number that a file knows
    return {a.rows == b.rows && a.value == b.value ? 1.0 : 0.0, false};
  if (some)
    throw not_a_multiple_of_rows();
  static const std::map<std::string, std::function<double(double, double)>> plain{
      {"Pow", [](double x, double y) { return std::pow(x, y); }},
      {"Mod", [](double x, double y) { return y == 0 ? 0 : x - std::floor(x / y) * y; }},
      {"Equal", [](double x, double y) { return x == y ? 1.0 : 0.0; }},
      {"Less", [](double x, double y) { return x < y ? 1.0 : 0.0; }},
      {"LessOrEqual", [](double x, double y) { return x <= y ? 1.0 : 0.0; }},
      {"Greater", [](double x, double y) { return x > y ? 1.0 : 0.0; }},
      {"GreaterOrEqual", [](double x, double y) { return x >= y ? 1.0 : 0.0; }},
      {"And", [](double x, double y) { return x != 0 && y != 0 ? 1.0 : 0.0; }},
      {"Or", [](double x, double y) { return x != 0 || y != 0 ? 1.0 : 0.0; }},
      {"Min", [](double x, double y) { return std::min(x, y); }},
      {"Max", [](double x, double y) { return std::max(x, y); }}};
  return {plain.at(type)(a.value, b.value), false};
}

known fold_binary(const node& n, const arrays& in) {
  const auto &a = input_at(in, 0), &b = input_at(in, 1);
  known out = whole_of({&a, &b});
  out.is_float = a.is_float;
  each_repeated(out, {&a, &b}, [&](const auto& at) {
    const auto i = static_cast<std::size_t>(at[0]), j = static_cast<std::size_t>(at[1]);
    const auto made = combine(n.type, {a.data[i], a.counts_rows(i)}, {b.data[j], b.counts_rows(j)}, !a.is_float);
    out.data.push_back(made.value);
    if (made.rows || !out.rows.empty()) {
      out.rows.resize(out.data.size(), false);
      out.rows.back() = made.rows;
    }
  });
  return out;
}

known fold_unary(const node& n, const arrays& in, double (*f)(double)) {
  known out = input_at(in, 0);
  if (std::ranges::count(out.rows, true) != 0 && n.type != "Neg")
    throw not_a_multiple_of_rows();
  for (auto& each : out.data)
    each = f(each);
  return out;
}

known fold_where(const node&, const arrays& in) {
  const auto &condition = input_at(in, 0), &a = input_at(in, 1), &b = input_at(in, 2);
  known out = whole_of({&condition, &a, &b});
  out.is_float = a.is_float;
  each_repeated(out, {&condition, &a, &b}, [&](const auto& at) {
    const bool first = condition.data[static_cast<std::size_t>(at[0])] != 0;
    copy_element(first ? a : b, static_cast<std::size_t>(first ? at[1] : at[2]), out);
  });
  return out;
}

/// Extents that a list gives, of which one may be the number of rows.
known shaped_by(const known& list) {
  known out;
  for (std::size_t i = 0; i < list.data.size(); ++i) {
    if (list.counts_rows(i) && (list.data[i] != 1 || out.batch_axis >= 0))
      throw not_a_multiple_of_rows();
    if (list.counts_rows(i))
      out.batch_axis = static_cast<int>(i);
    if (!(std::abs(list.data[i]) <= most_known_elements))
      throw misfit{fmt::format("makes a constant with an extent of {:.0f}, which is too large", list.data[i])};
    out.dims.push_back(static_cast<std::int64_t>(list.data[i]));
  }
  return out;
}

known fold_constant(const node& n, const arrays&) {
  if (const auto* value = tensor_attribute(n, "value"))
    return known_of(*value);
  for (const auto& each : n.attributes) {
    if (const auto* number = std::get_if<std::int64_t>(&each.value))
      return known_scalar(static_cast<double>(*number), false);
    if (const auto* real = std::get_if<float>(&each.value))
      return known_scalar(static_cast<double>(*real), true);
    known out;
    if (const auto* list = std::get_if<std::vector<std::int64_t>>(&each.value))
      out.data.assign(list->begin(), list->end());
    else if (const auto* reals = std::get_if<std::vector<float>>(&each.value))
      out.data.assign(reals->begin(), reals->end());
    else
      continue;
    out.is_float = std::holds_alternative<std::vector<float>>(each.value);
    out.dims = {static_cast<std::int64_t>(out.data.size())};
    return out;
  }
  throw misfit{"has no value that is read"};
}

known fold_constant_of_shape(const node& n, const arrays& in) {
  const auto* value = tensor_attribute(n, "value");
  const auto filler = value != nullptr ? known_of(*value) : known_scalar(0, true);
  if (filler.data.size() != 1)
    throw misfit{"has a value that is not one number"};
  known out = shaped_by(input_at(in, 0));
  out.is_float = filler.is_float;
  out.data.assign(known_elements(out.dims), filler.data[0]);
  return out;
}

known fold_expand(const node&, const arrays& in) {
  const auto& x = input_at(in, 0);
  const known target = shaped_by(input_at(in, 1));
  known out = whole_of({&x, &target});
  out.is_float = x.is_float;
  each_repeated(out, {&x}, [&](const auto& at) { copy_element(x, static_cast<std::size_t>(at[0]), out); });
  return out;
}

known fold_gather(const node& n, const arrays& in) {
  const auto &x = input_at(in, 0), &indices = input_at(in, 1);
  const auto axis = axis_of(integer_attribute(n, "axis", 0), x.dims.size());
  if (x.batch_axis >= 0 && static_cast<std::size_t>(x.batch_axis) == axis)
    throw not_a_multiple_of_rows();
  known out;
  out.is_float = x.is_float;
  out.dims.assign(x.dims.begin(), x.dims.begin() + static_cast<std::ptrdiff_t>(axis));
  out.dims.insert(out.dims.end(), indices.dims.begin(), indices.dims.end());
  out.dims.insert(out.dims.end(), x.dims.begin() + static_cast<std::ptrdiff_t>(axis) + 1, x.dims.end());
  if (x.batch_axis >= 0)
    out.batch_axis =
        x.batch_axis + (static_cast<std::size_t>(x.batch_axis) > axis ? static_cast<int>(indices.dims.size()) - 1 : 0);
  known_elements(out.dims);
  std::size_t outer = 1, inner = 1;
  for (std::size_t i = 0; i < x.dims.size(); ++i)
    (i < axis ? outer : inner) *= i == axis ? 1 : static_cast<std::size_t>(x.dims[i]);
  const auto extent = x.dims[axis];
  for (std::size_t o = 0; o < outer; ++o)
    for (const double each : indices.data) {
      const double index = each < 0 ? each + static_cast<double>(extent) : each;
      if (!(index >= 0 && index < static_cast<double>(extent)))
        throw misfit{fmt::format("takes element {:.0f} of {}", each, extent)};
      for (std::size_t k = 0; k < inner; ++k)
        copy_element(x, (o * static_cast<std::size_t>(extent) + static_cast<std::size_t>(index)) * inner + k, out);
    }
  return out;
}

known fold_slice(const node&, const arrays& in) {
  known out = input_at(in, 0);
  const auto &begins = input_at(in, 1), &ends = input_at(in, 2);
  for (std::size_t i = 0; i < begins.data.size(); ++i) {
    const auto axis =
        axis_of(in.size() > 3 && in[3] != nullptr ? integers_of(*in[3]).at(i) : static_cast<std::int64_t>(i), out.dims.size());
    if (in.size() > 4 && in[4] != nullptr && in[4]->data.at(i) != 1)
      throw misfit{"has a step other than 1"};
    if (begins.counts_rows(i) || (i < ends.rows.size() && ends.rows[i]) || i >= ends.data.size()) {
      if (out.batch_axis >= 0 && static_cast<std::size_t>(out.batch_axis) == axis && begins.data[i] == 0)
        continue; // all rows
      throw not_a_multiple_of_rows();
    }
    const auto part = slice_of(begins.data[i], ends.data[i], out.dims[axis]);
    known cut = out;
    cut.data.clear(), cut.rows.clear();
    cut.dims[axis] = part.length;
    std::size_t inner = 1;
    for (std::size_t k = axis + 1; k < out.dims.size(); ++k)
      inner *= static_cast<std::size_t>(out.dims[k]);
    const auto whole = inner * static_cast<std::size_t>(out.dims[axis]);
    for (std::size_t begin = 0; whole != 0 && begin < out.data.size(); begin += whole)
      for (std::size_t k = 0; k < inner * static_cast<std::size_t>(part.length); ++k)
        copy_element(out, begin + inner * static_cast<std::size_t>(part.begin) + k, cut);
    out = std::move(cut);
  }
  return out;
}

known fold_concat(const node& n, const arrays& in) {
  const auto& first = input_at(in, 0);
  known out;
  out.dims = first.dims, out.is_float = first.is_float, out.batch_axis = first.batch_axis;
  const auto axis = axis_of(integer_attribute(n, "axis", 0), first.dims.size());
  if (out.batch_axis >= 0 && static_cast<std::size_t>(out.batch_axis) == axis)
    throw not_a_multiple_of_rows();
  std::size_t outer = 1;
  for (std::size_t i = 0; i < axis; ++i)
    outer *= static_cast<std::size_t>(first.dims[i]);
  out.dims[axis] = 0;
  for (std::size_t i = 0; i < in.size(); ++i) {
    auto alike = input_at(in, i).dims;
    if (alike.size() != out.dims.size() || outer == 0)
      throw misfit{"joins arrays of different ranks"};
    out.dims[axis] += alike[axis];
    alike[axis] = first.dims[axis];
    if (alike != first.dims)
      throw misfit{"joins arrays of different extents"};
  }
  known_elements(out.dims);
  for (std::size_t o = 0; o < outer; ++o)
    for (const auto* each : in) {
      const auto part = each->data.size() / outer;
      for (std::size_t k = 0; k < part; ++k)
        copy_element(*each, o * part + k, out);
    }
  return out;
}

known fold_range(const node&, const arrays& in) {
  const double begin = input_at(in, 0).data.at(0), end = input_at(in, 1).data.at(0), step = input_at(in, 2).data.at(0);
  for (const auto* each : in)
    if (each->counts_rows(0))
      throw not_a_multiple_of_rows();
  const double count = step == 0 ? 0 : std::max(0.0, std::ceil((end - begin) / step));
  if (!(count <= most_known_elements))
    throw misfit{"makes a range that is too long"};
  known out;
  out.is_float = in[0]->is_float;
  out.dims = {static_cast<std::int64_t>(count)};
  for (double i = 0; i < count; ++i)
    out.data.push_back(begin + i * step);
  return out;
}

known fold_reshape(const node&, const arrays& in) {
  known out = input_at(in, 0);
  known target = input_at(in, 1);
  if (out.batch_axis >= 0 || std::ranges::count(target.rows, true) > 1)
    throw not_a_multiple_of_rows();
  auto dims = target.data;
  double product = 1;
  std::optional<std::size_t> open;
  for (std::size_t i = 0; i < dims.size(); ++i) {
    if (target.counts_rows(i))
      throw not_a_multiple_of_rows();
    if (dims[i] == 0 && i < out.dims.size())
      dims[i] = static_cast<double>(out.dims[i]);
    if (dims[i] == -1)
      open = i;
    else
      product *= dims[i];
  }
  if (open)
    dims[*open] = product == 0 ? 0 : static_cast<double>(out.data.size()) / product;
  if ((open ? dims[*open] : 1) * product != static_cast<double>(out.data.size())
      || std::ranges::any_of(dims, [](double each) { return each < 0 || each != std::floor(each); }))
    throw misfit{"reshapes to another number of elements"};
  out.dims.assign(dims.begin(), dims.end());
  return out;
}

known fold_transpose(const node& n, const arrays& in) {
  const auto& x = input_at(in, 0);
  if (x.batch_axis >= 0)
    throw not_a_multiple_of_rows();
  std::vector<std::int64_t> order(x.dims.size());
  std::iota(order.rbegin(), order.rend(), 0);
  order = integers_attribute(n, "perm").value_or(order);
  if (order.size() != x.dims.size())
    throw misfit{"has an order of another rank"};
  extents_of_known steps(x.dims.size(), 1);
  for (auto i = x.dims.size(); i-- > 1;)
    steps[i - 1] = steps[i] * x.dims[i];
  known out;
  out.is_float = x.is_float;
  for (const auto axis : order)
    out.dims.push_back(x.dims[axis_of(axis, x.dims.size())]);
  const auto count = known_elements(out.dims);
  if (count != x.data.size())
    throw misfit{"has an order that names an axis twice"};
  extents_of_known place(out.dims.size(), 0);
  for (std::size_t i = 0; i < count; ++i) {
    std::int64_t at = 0;
    for (std::size_t k = 0; k < place.size(); ++k)
      at += place[k] * steps[axis_of(order[k], place.size())];
    copy_element(x, static_cast<std::size_t>(at), out);
    for (auto axis = place.size(); axis-- > 0;) {
      if (++place[axis] < out.dims[axis])
        break;
      place[axis] = 0;
    }
  }
  return out;
}

/// The axes of squeeze and unsqueeze: an attribute, an input from opset 13 on.
std::optional<std::vector<std::int64_t>> listed_axes(const node& n, const arrays& in) {
  return in.size() > 1 && in[1] != nullptr ? std::optional{integers_of(*in[1])} : integers_attribute(n, "axes");
}

known fold_unsqueeze(const node& n, const arrays& in) {
  known out = input_at(in, 0);
  const auto axes = listed_axes(n, in).value_or(std::vector<std::int64_t>{});
  std::vector<std::size_t> places;
  for (const auto axis : axes)
    places.push_back(axis_of(axis, out.dims.size() + axes.size()));
  std::ranges::sort(places);
  for (const auto place : places) {
    out.dims.insert(out.dims.begin() + static_cast<std::ptrdiff_t>(std::min(place, out.dims.size())), 1);
    out.batch_axis += out.batch_axis >= static_cast<int>(place) ? 1 : 0;
  }
  return out;
}

known fold_squeeze(const node& n, const arrays& in) {
  known out = input_at(in, 0);
  std::vector<std::size_t> places;
  if (const auto axes = listed_axes(n, in)) {
    for (const auto axis : *axes)
      places.push_back(axis_of(axis, out.dims.size()));
  } else {
    for (std::size_t i = 0; i < out.dims.size(); ++i)
      if (out.dims[i] == 1 && static_cast<int>(i) != out.batch_axis)
        places.push_back(i);
  }
  std::ranges::sort(places, std::greater{});
  for (const auto place : places) {
    if (out.dims[place] != 1 || static_cast<int>(place) == out.batch_axis)
      throw misfit{fmt::format("squeezes an axis of extent {}", out.dims[place])};
    out.dims.erase(out.dims.begin() + static_cast<std::ptrdiff_t>(place));
    out.batch_axis -= out.batch_axis > static_cast<int>(place) ? 1 : 0;
  }
  return out;
}

known fold_cast(const node& n, const arrays& in) {
  known out = input_at(in, 0);
  const tensor like{
      .name = {}, .type = static_cast<element_type>(integer_attribute(n, "to", 1)), .dims = {}, .floats = {}, .integers = {}};
  out.is_float = like.is_float();
  for (auto& each : out.data)
    each = like.type == element_type::boolean ? (each != 0 ? 1 : 0) : out.is_float ? each : std::trunc(each);
  return out;
}

known fold_trilu(const node& n, const arrays& in) {
  known out = input_at(in, 0);
  if (out.dims.size() < 2)
    throw misfit{"needs a matrix"};
  const bool upper = integer_attribute(n, "upper", 1) != 0;
  const double k = in.size() > 1 && in[1] != nullptr && !in[1]->data.empty() ? in[1]->data[0] : 0;
  const auto columns = static_cast<std::size_t>(out.dims.back()), rows = static_cast<std::size_t>(out.dims[out.dims.size() - 2]);
  for (std::size_t i = 0; i < out.data.size(); ++i) {
    const double along = static_cast<double>(i % columns) - static_cast<double>(i / columns % rows) - k;
    if (upper ? along < 0 : along > 0)
      out.data[i] = 0;
  }
  return out;
}

known fold_reduce_prod(const node& n, const arrays& in) {
  const auto& x = input_at(in, 0);
  if (x.dims.size() != 1 || integer_attribute(n, "keepdims", 1) != 0)
    throw misfit{"reduces a constant of several axes"};
  known out = known_scalar(1, x.is_float);
  bool rows = false;
  for (std::size_t i = 0; i < x.data.size(); ++i) {
    if (rows && x.counts_rows(i))
      throw not_a_multiple_of_rows();
    rows = rows || x.counts_rows(i);
    out.data[0] *= x.data[i];
  }
  if (rows)
    out.rows = {true};
  return out;
}

known fold_same(const node&, const arrays& in) {
  return input_at(in, 0);
}

template <double (*F)(double)>
known fold_by(const node& n, const arrays& in) {
  return fold_unary(n, in, F);
}

double negative_of(double x) {
  return -x;
}
double root_of(double x) {
  return std::sqrt(x);
}
double not_of(double x) {
  return x == 0 ? 1 : 0;
}
double floor_of(double x) {
  return std::floor(x);
}
double ceiling_of(double x) {
  return std::ceil(x);
}
double magnitude_of(double x) {
  return std::abs(x);
}

using folding = known (*)(const node&, const arrays&);
const std::map<std::string, folding>& foldings() {
  static const std::map<std::string, folding> all = [] {
    std::map<std::string, folding> out{{"Constant", fold_constant},
                                       {"ConstantOfShape", fold_constant_of_shape},
                                       {"Expand", fold_expand},
                                       {"Gather", fold_gather},
                                       {"Slice", fold_slice},
                                       {"Concat", fold_concat},
                                       {"Range", fold_range},
                                       {"Reshape", fold_reshape},
                                       {"Transpose", fold_transpose},
                                       {"Unsqueeze", fold_unsqueeze},
                                       {"Squeeze", fold_squeeze},
                                       {"Cast", fold_cast},
                                       {"Where", fold_where},
                                       {"Trilu", fold_trilu},
                                       {"ReduceProd", fold_reduce_prod},
                                       {"Identity", fold_same},
                                       {"Neg", fold_by<negative_of>},
                                       {"Sqrt", fold_by<root_of>},
                                       {"Not", fold_by<not_of>},
                                       {"Floor", fold_by<floor_of>},
                                       {"Ceil", fold_by<ceiling_of>},
                                       {"Abs", fold_by<magnitude_of>}};
    for (const char* binary : {"Add", "Sub", "Mul", "Div", "Pow", "Mod", "Equal", "Less", "LessOrEqual", "Greater",
                               "GreaterOrEqual", "And", "Or", "Min", "Max"})
      out[binary] = fold_binary;
    return out;
  }();
  return all;
}

} // namespace

std::optional<known> fold(const node& n, const std::vector<const known*>& inputs) {
  const auto found = foldings().find(n.type);
  if (found == foldings().end())
    return std::nullopt;
  return found->second(n, inputs);
}

} // namespace troupe::onnx
