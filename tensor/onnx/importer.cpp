// SPDX-License-Identifier: BSD-3-Clause
// Node by node: values, folding, and the copy of what stays.
#include "tensor/onnx/importer.hpp"

#include <algorithm>
#include <exception>
#include <iterator>
#include <set>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "kernels/assert.hpp"
#include "tensor/onnx/file.hpp"
#include "tensor/onnx/import.hpp"

namespace troupe::onnx {

namespace {

/// No tensor of a model has more elements a row, and products of extents stay far from overflow.
constexpr double most_elements_of_a_value = 1e12;

std::string described(const node& n) {
  const auto name = !n.name.empty() ? n.name : n.outputs.empty() ? std::string{} : n.outputs[0];
  return name.empty() ? fmt::format("a node {}", n.type) : fmt::format("node \"{}\" ({})", name, n.type);
}

imported refused_value(std::string why) {
  imported out;
  out.is = imported::kind::refused;
  out.why = std::move(why);
  return out;
}

} // namespace

// -- what an operator sees

std::size_t importer::call::count() const {
  return inputs.size();
}

bool importer::call::has(std::size_t i) const {
  return i < inputs.size() && inputs[i].is != imported::kind::absent;
}

const imported& importer::call::at(std::size_t i) const {
  if (!has(i))
    throw misfit{fmt::format("lacks its input {}", i + 1)};
  return inputs[i];
}

imported importer::call::tensor(std::size_t i) const {
  return in.as_tensor(at(i));
}

known importer::call::array(std::size_t i) const {
  if (auto array = in.as_known(at(i)))
    return *std::move(array);
  throw misfit{fmt::format("has an input {} that is computed from the samples, and here it must be a constant", i + 1)};
}

std::optional<std::vector<std::int64_t>> importer::call::integers(std::size_t input, const std::string& attribute) const {
  return has(input) ? std::optional{integers_of(array(input))} : integers_attribute(n, attribute);
}

std::optional<double> importer::call::uniform(std::size_t i) const {
  const auto array = has(i) && at(i).is == imported::kind::constant ? at(i).array : nullptr;
  return array ? array->uniform() : std::nullopt;
}

// -- values

importer::importer(const data_format& data, document& from) : data_(data), from_(from) {}

imported importer::tensor_value(value_id id, int batch_axis) {
  imported out;
  out.is = imported::kind::tensor;
  out.id = id;
  out.batch_axis = batch_axis;
  return out;
}

imported importer::constant_value(known array) {
  known_elements_ += static_cast<double>(array.data.size());
  if (known_elements_ > most_known_elements)
    throw misfit{"makes constants that are too large, with those before it"};
  imported out;
  out.is = imported::kind::constant;
  out.batch_axis = array.batch_axis;
  out.array = std::make_shared<const known>(std::move(array));
  return out;
}

std::optional<known> importer::as_known(const imported& v, int depth) const {
  constexpr int deepest_mask = 16;
  if (v.is == imported::kind::constant)
    return *v.array;
  if (v.is == imported::kind::weight)
    return known_of(from_.initializers[v.initializer]);
  if (v.is != imported::kind::tensor || v.made_by == nullptr || depth == deepest_mask || looked_up_ > most_known_elements)
    return std::nullopt;
  std::vector<known> arrays;
  for (const auto& name : v.made_by->inputs) {
    auto array = name.empty() ? std::nullopt : as_known(values_.at(name), depth + 1);
    if (!array && !name.empty())
      return std::nullopt;
    arrays.push_back(array ? *std::move(array) : known{});
  }
  std::vector<const known*> inputs;
  for (std::size_t i = 0; i < arrays.size(); ++i)
    inputs.push_back(v.made_by->inputs[i].empty() ? nullptr : &arrays[i]);
  auto folded = v.made_by->outputs.size() == 1 ? fold(*v.made_by, inputs) : std::nullopt;
  looked_up_ += folded ? static_cast<double>(folded->data.size()) + 1 : 1;
  return folded;
}

std::vector<value_id> importer::apply_all(ops::any op, std::vector<value_id> inputs) {
  const auto made = graph_.add(std::move(op), std::move(inputs));
  if (!made) { // the node is named by whoever catches it
    const auto& why = made.error().message;
    throw misfit{why.starts_with(layer_ + ": ") ? why.substr(layer_.size() + 2) : why};
  }
  for (auto id : graph_.at(*made).outputs) {
    double elements = 1;
    for (auto extent : dims(id).extents()) {
      elements *= static_cast<double>(extent);
      if (extent < 1 || elements > most_elements_of_a_value)
        throw misfit{fmt::format("gives {}, which is empty or too large", graph_.at(id).to_string())};
    }
  }
  return graph_.at(*made).outputs;
}

value_id importer::apply(ops::any op, std::vector<value_id> inputs) {
  return apply_all(std::move(op), std::move(inputs))[0];
}

value_id importer::constant(double value, shape dims) {
  return apply(ops::constant{std::move(dims), false, static_cast<float>(value)}, {});
}

std::optional<double> importer::constant_number(value_id v) const {
  const auto* made = made_by<ops::constant>(v);
  return made != nullptr ? std::optional{static_cast<double>(made->value)} : std::nullopt;
}

value_id importer::add_slot(slot of) {
  const auto index = static_cast<int>(slots_.size());
  of.parameter = apply(ops::parameter{index, of.dims}, {});
  slots_.push_back(std::move(of));
  return slots_.back().parameter;
}

value_id importer::frozen(const std::string& name, const shape& dims, std::vector<float> values) {
  return add_slot({.name = name,
                   .dims = dims,
                   .values = std::make_shared<const std::vector<float>>(std::move(values)),
                   .kind = slot_kind::frozen,
                   .order = from_.initializers.size() + slots_.size()});
}

void importer::mark_statistic(value_id parameter) {
  const auto found = std::ranges::find(slots_, parameter, &slot::parameter);
  if (found == slots_.end())
    throw misfit{"has a running mean or variance that is no initializer of the file"};
  found->kind = slot_kind::statistic;
}

imported importer::as_tensor(const imported& v) {
  if (v.is == imported::kind::tensor)
    return v;
  if (v.is == imported::kind::weight) {
    auto& parameter = parameters_.try_emplace(v.initializer, value_id::none).first->second;
    if (parameter == value_id::none) {
      auto& from = from_.initializers[v.initializer];
      parameter = add_slot({.name = from.name,
                            .dims = shape{from.dims},
                            .values = std::make_shared<const std::vector<float>>(from.floats),
                            .kind = slot_kind::trained,
                            .order = v.initializer});
    }
    return tensor_value(parameter, -1);
  }
  TROUPE_ASSERT(v.is == imported::kind::constant);
  if (const auto same = v.array->uniform())
    return tensor_value(constant(*same, shape{v.array->dims}), -1);
  return tensor_value(frozen(v.name, shape{v.array->dims}, {v.array->data.begin(), v.array->data.end()}), -1);
}

std::vector<axis_extent> importer::axes(const imported& v) const {
  std::vector<axis_extent> out;
  const auto add = [&out](const std::vector<std::int64_t>& extents) {
    for (const auto extent : extents)
      out.push_back({extent, false});
  };
  if (v.is == imported::kind::weight)
    add(from_.initializers[v.initializer].dims);
  else if (v.is == imported::kind::constant)
    add(v.array->dims);
  else
    add(dims(v.id).extents());
  if (v.batch_axis >= 0 && v.is == imported::kind::constant)
    out[static_cast<std::size_t>(v.batch_axis)] = {1, true};
  else if (v.batch_axis >= 0)
    out.insert(out.begin() + v.batch_axis, {1, true});
  return out;
}

std::size_t importer::own_axis(const imported& v, std::int64_t axis) const {
  const auto at = axis_of(axis, rank(v));
  if (v.batch_axis >= 0 && at == static_cast<std::size_t>(v.batch_axis))
    throw misfit{"works along the rows of the batch, and each row is computed by itself; keep them apart"};
  return at - (v.batch_axis >= 0 && at > static_cast<std::size_t>(v.batch_axis) ? 1 : 0);
}

value_id importer::reshaped(value_id v, shape to) {
  if (made_by<ops::reshape>(v) != nullptr)
    v = input_of(v);
  return dims(v) == to ? v : apply(ops::reshape{std::move(to)}, {v});
}

value_id importer::permuted(value_id v, std::vector<std::size_t> order) {
  if (const auto* inner = made_by<ops::permute>(v)) {
    for (auto& axis : order)
      axis = inner->axes.at(axis);
    v = input_of(v);
  }
  return std::ranges::is_sorted(order) ? v : apply(ops::permute{std::move(order)}, {v});
}

value_id importer::cut(value_id v, std::size_t axis, std::int64_t begin, std::int64_t length) {
  const auto extent = dims(v)[axis];
  if (length == extent)
    return v;
  std::vector<std::int64_t> lengths;
  for (const auto part : {begin, length, extent - begin - length})
    if (part > 0)
      lengths.push_back(part);
  return apply_all(ops::split{axis, std::move(lengths)}, {v})[begin > 0 ? 1 : 0];
}

// -- nodes

std::string importer::begin() {
  std::set<std::string> initialized;
  for (std::size_t i = 0; i < from_.initializers.size(); ++i) {
    const auto& each = from_.initializers[i];
    imported v;
    v.name = each.name;
    v.initializer = i;
    v.is = each.is_float() ? imported::kind::weight : imported::kind::constant;
    if (!each.is_float())
      v.array = std::make_shared<const known>(known_of(each));
    if (!initialized.insert(each.name).second)
      return fmt::format("two initializers are called {}; export the model anew", each.name);
    values_[each.name] = std::move(v);
  }
  std::vector<const declared_value*> inputs; // old files list initializers, too
  for (const auto& each : from_.inputs)
    if (!initialized.contains(each.name))
      inputs.push_back(&each);
  if (inputs.size() != 1 || from_.outputs.size() != 1)
    return fmt::format("the graph has {} inputs and {} outputs, and a model here has one of each; export one that takes a sample "
                       "and gives what it predicts",
                       inputs.size(), from_.outputs.size());
  const auto& input = *inputs[0];
  const bool wants_ids = input.type == element_type::i64 || input.type == element_type::i32;
  if (!wants_ids && input.type != element_type::f32)
    return fmt::format("the input {} has elements of type {}; export a model of float32, or of int64 ids", input.name,
                       static_cast<int>(input.type));
  if (wants_ids != (data_.type == dtype::i32))
    return fmt::format("the input {} takes {}, and the data has {}", input.name, wants_ids ? "ids" : "numbers",
                       wants_ids ? "numbers" : "ids");
  const value_id samples = apply(ops::input{data_.sample, data_.type}, {});
  auto own = data_.sample.extents();
  if (input.has_dims) {
    if (input.dims.empty())
      return fmt::format("the input {} has no axis of rows; export a model of batches", input.name);
    declared_rows_ = input.dims[0];
    const std::vector<std::int64_t> wanted(input.dims.begin() + 1, input.dims.end());
    const bool open = std::ranges::any_of(wanted, [](auto extent) { return extent < 0; });
    double elements = 1;
    for (auto extent : wanted)
      elements *= static_cast<double>(extent);
    bool fits = wanted.size() == own.size();
    for (std::size_t i = 0; fits && i < own.size(); ++i)
      fits = wanted[i] < 0 || wanted[i] == own[i];
    if (!fits && (open || elements != static_cast<double>(data_.sample.elements())))
      return fmt::format("the input {} takes samples of ({}), and the data has ({})", input.name, fmt::join(wanted, ", "),
                         fmt::join(own, ", "));
    if (!fits)
      own = wanted;
  }
  values_[input.name] = tensor_value(reshaped(samples, shape{own}), 0);
  return {};
}

importer::outputs importer::run(const node& n, const std::vector<imported>& inputs) {
  bool all_known = true;
  for (const auto& each : inputs) {
    if (each.is == imported::kind::refused)
      throw each; // the first reason is the one to tell
    all_known = all_known && (each.is == imported::kind::constant || each.is == imported::kind::absent);
  }
  if (n.type == "Identity" && inputs.size() == 1)
    return {inputs[0]};
  if (!n.domain.empty() && n.domain != "ai.onnx")
    throw misfit{
        fmt::format("is of the operators of {}, which are not read; there are {}", n.domain, fmt::join(operators(), ", "))};
  if (all_known) {
    std::vector<const known*> arrays;
    for (const auto& each : inputs)
      arrays.push_back(each.array.get());
    if (auto folded = fold(n, arrays))
      return {constant_value(*std::move(folded))};
  }
  const auto handler = operator_named(n.type);
  if (handler == nullptr) {
    // An initializer that is arithmetic's, such as a mask: read as a constant where nothing else knows the operator.
    std::vector<std::shared_ptr<const known>> arrays;
    std::vector<const known*> pointers;
    for (const auto& each : inputs) {
      auto array = as_known(each);
      if (!array && each.is != imported::kind::absent)
        break;
      arrays.push_back(array ? std::make_shared<const known>(*std::move(array)) : nullptr);
      pointers.push_back(arrays.back().get());
    }
    if (pointers.size() == inputs.size())
      if (auto folded = fold(n, pointers))
        return {constant_value(*std::move(folded))};
    const auto known_types = operators();
    if (std::ranges::count(known_types, n.type) != 0)
      throw misfit{"computes with samples or parameters, and it is read of constants alone"};
    throw misfit{fmt::format("is of an operator that is not read; there are {}", fmt::join(known_types, ", "))};
  }
  return handler({*this, n, inputs});
}

importer::outputs importer::read_node(const node& n) {
  std::vector<imported> inputs;
  for (const auto& name : n.inputs)
    inputs.push_back(name.empty() ? imported{} : values_.at(name));
  layer_ = !n.name.empty() || n.outputs.empty() ? n.name : n.outputs[0];
  graph_.begin_layer(layer_);
  const auto every = [&n](std::string why) { return outputs(n.outputs.size(), refused_value(std::move(why))); };
  try {
    return run(n, inputs);
  } catch (const misfit& e) {
    return every(fmt::format("{}: {}", described(n), e.why));
  } catch (const imported& refused) {
    return every(refused.why);
  } catch (const std::exception&) { // an index beyond a list
    return every(fmt::format("{}: has fewer numbers than it needs; export the model anew", described(n)));
  }
}

std::string importer::read_nodes() {
  constexpr std::size_t most_nodes = 1'000'000;
  if (from_.nodes.size() > most_nodes)
    return fmt::format("the graph has {} nodes, and {} are read", from_.nodes.size(), most_nodes);
  try {
    if (auto why = begin(); !why.empty())
      return why;
  } catch (const misfit& e) {
    return e.why;
  }
  for (const auto& n : from_.nodes) {
    for (const auto& name : n.inputs)
      if (!name.empty() && !values_.contains(name))
        return fmt::format("{} reads {}, which nothing before it makes: the graph has a cycle, or its nodes are not in order; "
                           "export it anew",
                           described(n), name);
    auto made = read_node(n);
    for (std::size_t i = 0; i < n.outputs.size(); ++i) {
      if (n.outputs[i].empty())
        continue;
      if (values_.contains(n.outputs[i]))
        return fmt::format("{} makes {} a second time; export the model anew", described(n), n.outputs[i]);
      auto& to = values_[n.outputs[i]];
      to = i < made.size() ? std::move(made[i])
                           : refused_value(fmt::format("{} has a result {} that is not read", described(n), n.outputs[i]));
      if (to.name.empty() || to.is == imported::kind::constant)
        to.name = n.outputs[i];
      if (to.is == imported::kind::tensor && to.batch_axis < 0 && to.made_by == nullptr)
        to.made_by = &n;
    }
  }
  const auto& last = from_.outputs[0].name;
  return values_.contains(last) ? std::string{} : fmt::format("the output {} is made by no node; export the model anew", last);
}

result<value_id> importer::copy_into(layers::builder& b, value_id last) {
  const auto& nodes = graph_.nodes();
  std::vector<bool> stays(nodes.size(), false);
  stays[static_cast<std::size_t>(graph_.at(last).producer)] = true;
  std::set<int> used;
  for (auto i = nodes.size(); i-- > 0;)
    if (stays[i]) {
      if (const auto* parameter = std::get_if<ops::parameter>(&nodes[i].op))
        used.insert(parameter->slot);
      for (auto in : nodes[i].inputs)
        stays[static_cast<std::size_t>(graph_.at(in).producer)] = true;
    }
  std::map<value_id, value_id> copies;
  std::vector<int> in_order(used.begin(), used.end());
  std::ranges::sort(in_order, {}, [this](int slot) { return slots_[static_cast<std::size_t>(slot)].order; });
  for (const int index : in_order) {
    auto& of = slots_[static_cast<std::size_t>(index)];
    copies[of.parameter] = b.add_parameter(of.name, of.dims, {}, of.kind, of.values);
  }
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    if (!stays[i] || std::holds_alternative<ops::parameter>(nodes[i].op))
      continue;
    if (std::holds_alternative<ops::input>(nodes[i].op)) {
      copies[nodes[i].outputs[0]] = b.input();
      continue;
    }
    std::vector<value_id> inputs;
    for (auto in : nodes[i].inputs)
      inputs.push_back(copies.at(in));
    b.begin_layer(nodes[i].layer);
    const auto made = b.apply_all(nodes[i].op, std::move(inputs));
    for (std::size_t k = 0; k < made.size() && k < nodes[i].outputs.size(); ++k)
      copies[nodes[i].outputs[k]] = made[k];
  }
  return copies.at(last);
}

// -- the whole

std::vector<std::string> operators() {
  auto all = handled_operators();
  for (const char* folded :
       {"Constant", "ConstantOfShape", "Range", "Trilu", "Equal", "Less", "Greater", "Not", "And", "Or", "Mod"})
    all.emplace_back(folded);
  std::ranges::sort(all);
  all.erase(std::ranges::unique(all).begin(), all.end());
  return all;
}

result<void> add_graph(layers::builder& b, document from) {
  const auto refuse = [](std::string why) { return error{errc::bad_model, std::move(why)}; };
  importer reads(b.data(), from);
  if (auto why = reads.read_nodes(); !why.empty())
    return refuse(std::move(why));
  auto last = reads.result_of(from.outputs[0].name);
  if (last.is == imported::kind::refused)
    return refuse(std::move(last.why));
  if (last.is != imported::kind::tensor || last.batch_axis != 0)
    return refuse(fmt::format("the output {} does not have the rows of the batch as its first axis", from.outputs[0].name));
  // A cross-entropy takes the logarithm of a softmax itself, and of logits and their log-softmax it is the same.
  if (const auto* log = reads.made_by<ops::unary>(last.id); log != nullptr && log->op == kernels::unary_op::log)
    if (const auto y = reads.input_of(last.id); reads.made_by<ops::softmax>(y) != nullptr)
      last.id = reads.input_of(y);
  const auto copied = reads.copy_into(b, last.id);
  if (!copied)
    return copied.error();
  b.begin_layer(fmt::format("output {}", from.outputs[0].name));
  return b.end_with(*copied);
}

result<void> add_file(layers::builder& b, const std::string& path) {
  auto from = read_file(path);
  if (!from)
    return from.error();
  auto added = add_graph(b, *std::move(from));
  if (!added)
    return error{added.error().code, fmt::format("{}: {}", path, added.error().message)};
  return added;
}

} // namespace troupe::onnx
