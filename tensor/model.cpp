// SPDX-License-Identifier: BSD-3-Clause
// Models from layer lists.
#include "tensor/model.hpp"

#include <algorithm>

#include <fmt/format.h>

#include "tensor/foreign.hpp"
#include "tensor/onnx/import.hpp"

namespace troupe {

namespace {

result<void> validate(const data_format& data) {
  if (data.sample.rank() == 0 || std::ranges::any_of(data.sample.extents(), [](auto extent) { return extent < 1; }))
    return error{errc::bad_model, fmt::format("a sample of shape {} has no elements", data.sample.to_string())};
  if (data.label_type == dtype::i32 && data.classes < 2)
    return error{errc::bad_model, fmt::format("a classifier needs at least 2 classes, got {}", data.classes)};
  return {};
}

result<model> finish(layers::builder& built, const loss_spec& loss) {
  if (auto ok = built.finish(loss); !ok)
    return ok.error();
  return model::from_graph({.forward = built.take_graph(),
                            .layout = built.take_layout(),
                            .input = built.input(),
                            .labels = built.labels(),
                            .loss = built.loss()});
}

} // namespace

std::vector<std::string> mlp_layers(const std::vector<int>& hidden, int classes) {
  std::vector<std::string> list{"flatten"};
  for (auto units : hidden)
    list.push_back(fmt::format("linear {} relu", units));
  list.push_back(fmt::format("linear {}", classes));
  return list;
}

result<model> model::build(const model_spec& spec, const data_format& data) {
  if (spec.network.kind.empty() && spec.onnx.empty()) {
    auto list = layers::parse(spec.layers);
    if (!list)
      return list.error();
    return build(*list, data, spec.loss);
  }
  if (auto ok = validate(data); !ok)
    return ok.error();
  layers::builder built{data};
  if (auto ok = spec.onnx.empty() ? add_network(built, spec.network) : onnx::add_file(built, spec.onnx); !ok)
    return ok.error();
  return finish(built, spec.loss);
}

result<model> model::build(const std::vector<layers::any>& list, const data_format& data, const loss_spec& loss) {
  if (auto ok = validate(data); !ok)
    return ok.error();
  layers::builder built{data};
  if (auto ok = built.add(list); !ok)
    return ok.error();
  return finish(built, loss);
}

result<model> model::from_graph(parts of) {
  const auto& g = of.forward;
  const auto misfit = [](std::string message) { return error{errc::bad_model, std::move(message)}; };
  for (auto [v, name] : {std::pair{of.input, "input"}, {of.labels, "labels"}})
    if (!std::holds_alternative<ops::input>(g.producer(v).op))
      return misfit(fmt::format("the model's {} {} is not an input of the graph", name, g.at(v).to_string()));
  if (!is_loss(g.producer(of.loss).op) || g.producer(of.loss).outputs[0] != of.loss)
    return misfit(fmt::format("{} is not the loss of a loss", g.at(of.loss).to_string()));
  for (const auto& n : g.nodes())
    if (const auto* parameter = std::get_if<ops::parameter>(&n.op)) {
      const auto& slots = of.layout.slots;
      if (parameter->slot < 0 || parameter->slot >= std::ssize(slots))
        return misfit(fmt::format("parameter {} has no slot: there are {}", parameter->slot, slots.size()));
      if (const auto& slot = slots[static_cast<std::size_t>(parameter->slot)]; slot.dims != parameter->dims)
        return misfit(fmt::format("parameter {} is {}, and its slot {} is {}", parameter->slot, parameter->dims.to_string(),
                                  slot.name, slot.dims.to_string()));
    }
  return model{std::move(of)};
}

model model::foreign(parameter_layout layout, std::shared_ptr<foreign_computer> by) {
  const auto of = foreign_rows(0, 1)->format();
  parts its;
  its.layout = std::move(layout);
  const auto input = [&](const shape& dims, dtype type) { return its.forward.apply(ops::input{dims, type}, {}).value(); };
  its.input = input(of.sample, of.type);
  its.labels = input(of.labels, of.label_type);
  its.loss = its.forward.apply(ops::mean_squared_error{}, {its.labels, its.labels}).value(); // one number a row
  auto made = from_graph(std::move(its)).value();
  made.computed_by_ = std::move(by);
  return made;
}

} // namespace troupe
