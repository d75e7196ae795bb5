// SPDX-License-Identifier: BSD-3-Clause
// Operators that move elements, and those that read shapes.
#include <algorithm>
#include <cmath>
#include <numeric>
#include <string>
#include <utility>

#include <fmt/format.h>

#include "tensor/onnx/importer.hpp"

namespace troupe::onnx {

namespace {

using outputs = importer::outputs;

misfit mixes_rows() {
  return {"mixes the rows of the batch with another axis, and each row is computed by itself; keep the first axis, as in "
          "x.reshape(x.shape[0], -1)"};
}

outputs read_shape(const importer::call& c) {
  const auto& x = c.at(0);
  known out;
  for (const auto& axis : c.in.axes(x)) {
    out.data.push_back(static_cast<double>(axis.extent));
    out.rows.push_back(axis.rows);
  }
  const auto rank = static_cast<std::int64_t>(out.data.size());
  const auto part = slice_of(static_cast<double>(integer_attribute(c.n, "start", 0)),
                             static_cast<double>(integer_attribute(c.n, "end", rank)), rank);
  out.data = {out.data.begin() + part.begin, out.data.begin() + part.begin + part.length};
  out.rows = {out.rows.begin() + part.begin, out.rows.begin() + part.begin + part.length};
  out.dims = {part.length};
  return {c.in.constant_value(std::move(out))};
}

/// A reshape's extents: which of them is the rows, and what the others are.
struct arranged {
  std::vector<std::int64_t> extents; ///< without the rows
  int batch_axis = -1;
};

double product_of(const std::vector<double>& extents, std::size_t begin, std::size_t end) {
  return std::accumulate(extents.begin() + static_cast<std::ptrdiff_t>(begin), extents.begin() + static_cast<std::ptrdiff_t>(end),
                         1.0, std::multiplies<>{});
}

arranged arrange(importer& in, const imported& x, const known& target, bool zero_copies) {
  const auto from = in.axes(x);
  const auto elements = static_cast<double>(in.dims(x.id).elements());
  auto extents = target.data;
  arranged out;
  std::size_t open = extents.size();
  for (std::size_t i = 0; i < extents.size(); ++i) {
    bool rows = target.counts_rows(i);
    if (rows && extents[i] != 1)
      throw mixes_rows();
    if (!rows && extents[i] == 0 && zero_copies && i < from.size()) {
      rows = from[i].rows;
      extents[i] = static_cast<double>(from[i].extent);
    }
    if (rows && out.batch_axis >= 0)
      throw mixes_rows();
    if (rows)
      out.batch_axis = static_cast<int>(i), extents[i] = 1;
    else if (extents[i] == -1)
      open = i, extents[i] = 1;
  }
  if (x.batch_axis >= 0 && out.batch_axis < 0) {
    // The rows by their place, as -1 or as the number that the model was exported with.
    const auto at = static_cast<std::size_t>(x.batch_axis);
    const bool is_open = open == at && product_of(extents, 0, extents.size()) == elements;
    const bool is_declared = at < extents.size() && extents[at] == static_cast<double>(in.declared_rows());
    if (!is_open && !is_declared)
      throw mixes_rows();
    out.batch_axis = x.batch_axis, extents[at] = 1;
    open = is_open ? extents.size() : open;
  }
  if (open < extents.size())
    extents[open] = elements / product_of(extents, 0, extents.size());
  if (product_of(extents, 0, extents.size()) != elements
      || std::ranges::any_of(extents, [](double each) { return each < 1 || each != std::floor(each); })) {
    if (x.batch_axis >= 0)
      throw mixes_rows();
    throw misfit{fmt::format("gives {} other extents of another product", in.scratch().at(x.id).to_string())};
  }
  if ((x.batch_axis < 0) != (out.batch_axis < 0))
    throw mixes_rows();
  if (x.batch_axis >= 0) { // what stands before the rows stays there
    double before = 1;
    for (int i = 0; i < x.batch_axis; ++i)
      before *= static_cast<double>(from[static_cast<std::size_t>(i)].extent);
    if (before != product_of(extents, 0, static_cast<std::size_t>(out.batch_axis)))
      throw mixes_rows();
    extents.erase(extents.begin() + out.batch_axis);
  }
  out.extents.assign(extents.begin(), extents.end());
  return out;
}

outputs read_reshape(const importer::call& c) {
  const auto x = c.tensor(0);
  const auto to = arrange(c.in, x, c.array(1), integer_attribute(c.n, "allowzero", 0) == 0);
  return {importer::tensor_value(c.in.reshaped(x.id, shape{to.extents}), to.batch_axis)};
}

outputs read_flatten(const importer::call& c) {
  const auto x = c.tensor(0);
  if (x.batch_axis != 0 || integer_attribute(c.n, "axis", 1) != 1)
    throw mixes_rows();
  return {importer::tensor_value(c.in.reshaped(x.id, {c.in.dims(x.id).elements()}), 0)};
}

outputs read_transpose(const importer::call& c) {
  const auto x = c.tensor(0);
  const auto rank = c.in.rank(x);
  std::vector<std::int64_t> order(rank);
  std::iota(order.rbegin(), order.rend(), 0);
  order = integers_attribute(c.n, "perm").value_or(order);
  int batch_axis = -1;
  std::vector<std::size_t> own;
  for (std::size_t i = 0; i < order.size(); ++i)
    if (x.batch_axis >= 0 && order[i] == x.batch_axis)
      batch_axis = static_cast<int>(i);
    else
      own.push_back(c.in.own_axis(x, order[i]));
  if (order.size() != rank)
    throw misfit{"has an order of another rank"};
  return {importer::tensor_value(c.in.permuted(x.id, std::move(own)), batch_axis)};
}

/// The same elements with the file's axes given anew.
imported with_axes(importer& in, const imported& x, const std::vector<axis_extent>& axes) {
  std::vector<std::int64_t> extents;
  int batch_axis = -1;
  for (std::size_t i = 0; i < axes.size(); ++i)
    if (axes[i].rows)
      batch_axis = static_cast<int>(i);
    else
      extents.push_back(axes[i].extent);
  return importer::tensor_value(in.reshaped(x.id, shape{std::move(extents)}), batch_axis);
}

outputs read_unsqueeze(const importer::call& c) {
  const auto x = c.tensor(0);
  auto axes = c.in.axes(x);
  const auto added = c.integers(1, "axes").value_or(std::vector<std::int64_t>{});
  std::vector<std::size_t> places;
  for (const auto axis : added)
    places.push_back(axis_of(axis, axes.size() + added.size()));
  std::ranges::sort(places);
  for (const auto place : places)
    axes.insert(axes.begin() + static_cast<std::ptrdiff_t>(std::min(place, axes.size())), axis_extent{1, false});
  return {with_axes(c.in, x, axes)};
}

outputs read_squeeze(const importer::call& c) {
  const auto x = c.tensor(0);
  auto axes = c.in.axes(x);
  std::vector<bool> goes(axes.size(), false);
  if (const auto named = c.integers(1, "axes")) {
    for (const auto axis : *named)
      goes[axis_of(axis, axes.size())] = true;
  } else {
    for (std::size_t i = 0; i < axes.size(); ++i)
      goes[i] = !axes[i].rows && axes[i].extent == 1;
  }
  std::vector<axis_extent> left;
  for (std::size_t i = 0; i < axes.size(); ++i) {
    if (goes[i] && (axes[i].rows || axes[i].extent != 1))
      throw misfit{axes[i].rows ? "squeezes the rows of the batch" : "squeezes an axis of several elements"};
    if (!goes[i])
      left.push_back(axes[i]);
  }
  return {with_axes(c.in, x, left)};
}

outputs read_slice(const importer::call& c) {
  auto x = c.tensor(0);
  const auto begins = c.array(1), ends = c.array(2);
  const auto axes = c.integers(3, "");
  const auto steps = c.integers(4, "");
  for (std::size_t i = 0; i < begins.data.size(); ++i) {
    const auto axis = axes ? axes->at(i) : static_cast<std::int64_t>(i);
    if (steps && steps->at(i) != 1)
      throw misfit{"has a step other than 1"};
    const bool all = begins.data[i] == 0 && (ends.counts_rows(i) ? ends.data[i] == 1 : ends.data.at(i) >= 1e9);
    if (x.batch_axis >= 0 && axis_of(axis, c.in.rank(x)) == static_cast<std::size_t>(x.batch_axis) && all)
      continue;
    const auto own = c.in.own_axis(x, axis);
    if (begins.counts_rows(i) || ends.counts_rows(i))
      throw mixes_rows();
    const auto part = slice_of(begins.data[i], ends.data[i], c.in.dims(x.id)[own]);
    if (part.length < 1)
      throw misfit{"takes nothing"};
    x.id = c.in.cut(x.id, own, part.begin, part.length);
  }
  x.name.clear();
  return {x};
}

outputs read_split(const importer::call& c) {
  const auto x = c.tensor(0);
  const auto axis = c.in.own_axis(x, integer_attribute(c.n, "axis", 0));
  const auto count = static_cast<std::int64_t>(c.n.outputs.size()), extent = c.in.dims(x.id)[axis];
  auto lengths = c.integers(1, "split");
  if (!lengths && (count < 1 || extent % count != 0))
    throw misfit{fmt::format("cuts {} elements into {} equal parts", extent, count)};
  if (!lengths)
    lengths = std::vector<std::int64_t>(static_cast<std::size_t>(count), extent / count);
  outputs out;
  for (const auto part : c.in.apply_all(ops::split{axis, std::move(*lengths)}, {x.id}))
    out.push_back(importer::tensor_value(part, x.batch_axis));
  return out;
}

/// A value without rows, once for each row.
value_id for_each_row(importer& in, value_id v, shape dims) {
  return in.apply(ops::expand{std::move(dims), true}, {v});
}

outputs read_expand(const importer::call& c) {
  auto& in = c.in;
  const auto x = c.tensor(0);
  const auto target = c.array(1);
  const auto from = in.axes(x);
  const auto rank = std::max(from.size(), target.data.size());
  std::vector<axis_extent> to(rank, {1, false}), own = to;
  for (std::size_t i = 0; i < from.size(); ++i)
    to[rank - from.size() + i] = own[rank - from.size() + i] = from[i];
  for (std::size_t i = 0; i < target.data.size(); ++i) {
    auto& axis = to[rank - target.data.size() + i];
    const bool declared = x.batch_axis >= 0 && axis.rows && target.data[i] == static_cast<double>(in.declared_rows());
    if (target.counts_rows(i))
      axis = {1, true};
    else if (target.data[i] != 1 && !declared) {
      if (axis.rows || (axis.extent != 1 && static_cast<double>(axis.extent) != target.data[i]) || !(target.data[i] < 1e9))
        throw mixes_rows();
      axis.extent = static_cast<std::int64_t>(target.data[i]);
    }
  }
  std::vector<std::int64_t> extents, before;
  int batch_axis = -1;
  for (std::size_t i = 0; i < rank; ++i) {
    if (to[i].rows) {
      if (batch_axis >= 0 || (!own[i].rows && own[i].extent != 1))
        throw mixes_rows();
      batch_axis = static_cast<int>(i);
      continue;
    }
    extents.push_back(to[i].extent);
    before.push_back(own[i].extent);
  }
  const auto arranged = in.reshaped(x.id, shape{before});
  if (batch_axis >= 0 && x.batch_axis < 0)
    return {importer::tensor_value(for_each_row(in, arranged, shape{extents}), batch_axis)};
  if (before == extents)
    return {importer::tensor_value(arranged, batch_axis)};
  return {importer::tensor_value(in.apply(ops::expand{shape{extents}, batch_axis >= 0}, {arranged}), batch_axis)};
}

outputs read_concat(const importer::call& c) {
  auto& in = c.in;
  std::vector<imported> parts;
  int batch_axis = -1;
  for (std::size_t i = 0; i < c.count(); ++i) {
    parts.push_back(c.tensor(i));
    batch_axis = std::max(batch_axis, parts.back().batch_axis);
  }
  if (parts.empty())
    throw misfit{"joins nothing"};
  std::vector<value_id> ids;
  std::size_t axis = 0;
  for (auto& part : parts) {
    if (part.batch_axis != batch_axis)
      throw misfit{"joins values of which some have rows of the batch, or have them on another axis"};
    axis = in.own_axis(part, integer_attribute(c.n, "axis", 0));
    ids.push_back(part.id);
  }
  return {importer::tensor_value(ids.size() == 1 ? ids[0] : in.apply(ops::concat{axis}, ids), batch_axis)};
}

/// Elements of a table by ids that come with the samples.
imported look_up(importer& in, const imported& table, const imported& ids, std::int64_t axis) {
  if (table.batch_axis >= 0 || ids.batch_axis < 0 || in.dims(table.id).rank() != 2 || axis != 0)
    throw misfit{"takes elements at places that depend on the samples; that is read of rows of a table alone"};
  const auto vocabulary = in.dims(table.id)[0];
  if (in.data().ids > vocabulary)
    throw misfit{fmt::format("has a table of {} ids, and the data has {}", vocabulary, in.data().ids)};
  return importer::tensor_value(in.apply(ops::embedding{}, {ids.id, table.id}), ids.batch_axis);
}

outputs read_gather(const importer::call& c) {
  auto& in = c.in;
  auto x = c.tensor(0);
  const auto axis = integer_attribute(c.n, "axis", 0);
  if (c.at(1).is == imported::kind::tensor)
    return {look_up(in, x, c.at(1), axis)};
  const auto indices = c.array(1);
  const auto places = integers_of(indices);
  const auto at = axis_of(axis, in.rank(x)), own = in.own_axis(x, axis);
  const auto extent = in.dims(x.id)[own];
  if (places.empty())
    throw misfit{"takes nothing"};
  const auto begin = places[0] < 0 ? places[0] + extent : places[0];
  const auto length = static_cast<std::int64_t>(places.size());
  for (std::int64_t i = 0; i < length; ++i) {
    const auto place = places[static_cast<std::size_t>(i)];
    if ((place < 0 ? place + extent : place) != begin + i)
      throw misfit{"takes elements that do not follow each other"};
  }
  if (begin < 0 || begin + length > extent)
    throw misfit{fmt::format("takes elements {} to {} of {}", begin, begin + length - 1, extent)};
  auto axes = in.axes(x);
  x.id = in.cut(x.id, own, begin, length);
  axes.erase(axes.begin() + static_cast<std::ptrdiff_t>(at));
  for (std::size_t i = 0; i < indices.dims.size(); ++i)
    axes.insert(axes.begin() + static_cast<std::ptrdiff_t>(at + i), axis_extent{indices.dims[i], false});
  return {with_axes(in, x, axes)};
}

/// A mean or a sum over axes.
outputs reduce(const importer::call& c, bool mean) {
  auto& in = c.in;
  const auto x = c.tensor(0);
  auto axes = in.axes(x);
  const auto named = c.integers(1, "axes");
  std::vector<bool> goes(axes.size(), false);
  if (!named)
    throw misfit{"reduces all axes, the rows of the batch too; name the axes"};
  double count = 1;
  auto extents = in.dims(x.id).extents();
  for (const auto each : *named) {
    const auto own = in.own_axis(x, each);
    goes[axis_of(each, axes.size())] = true;
    count *= static_cast<double>(std::exchange(extents[own], 1));
  }
  const auto made = in.apply(ops::sum_to{shape{extents}, x.batch_axis >= 0, mean ? static_cast<float>(1 / count) : 1.0F}, {x.id});
  std::vector<axis_extent> left;
  const bool keeps = integer_attribute(c.n, "keepdims", 1) != 0;
  for (std::size_t i = 0; i < axes.size(); ++i)
    if (keeps || !goes[i])
      left.push_back(goes[i] ? axis_extent{1, false} : axes[i]);
  return {with_axes(in, importer::tensor_value(made, x.batch_axis), left)};
}

outputs read_mean(const importer::call& c) {
  return reduce(c, true);
}
outputs read_sum(const importer::call& c) {
  return reduce(c, false);
}

outputs read_cast(const importer::call& c) {
  const tensor like{
      .name = {}, .type = static_cast<element_type>(integer_attribute(c.n, "to", 1)), .dims = {}, .floats = {}, .integers = {}};
  const auto& x = c.at(0);
  const bool is_ids = x.is == imported::kind::tensor && c.in.scratch().at(x.id).type == dtype::i32;
  if (is_ids == like.is_float() || like.type == element_type::boolean)
    throw misfit{"makes numbers of ids, or ids of numbers"};
  return {x};
}

/// PyTorch writes one that adds nothing before its average pooling.
outputs read_pad(const importer::call& c) {
  const auto pads = c.integers(1, "pads").value_or(std::vector<std::int64_t>{});
  if (std::ranges::any_of(pads, [](auto each) { return each != 0; }))
    throw misfit{"adds a border; give the convolution or the pooling after it the padding instead"};
  return {c.at(0)};
}

outputs read_identity(const importer::call& c) {
  return {c.at(0)};
}

} // namespace

std::vector<named_handler> arrangement_operators() {
  return {{"Shape", read_shape},     {"Reshape", read_reshape},     {"Flatten", read_flatten},   {"Transpose", read_transpose},
          {"Squeeze", read_squeeze}, {"Unsqueeze", read_unsqueeze}, {"Slice", read_slice},       {"Split", read_split},
          {"Expand", read_expand},   {"Concat", read_concat},       {"Gather", read_gather},     {"ReduceMean", read_mean},
          {"ReduceSum", read_sum},   {"Cast", read_cast},           {"Identity", read_identity}, {"Pad", read_pad}};
}

} // namespace troupe::onnx
