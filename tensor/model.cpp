// SPDX-License-Identifier: BSD-3-Clause
// Models from layer lists.
#include "tensor/model.hpp"

#include <algorithm>

#include <fmt/format.h>

namespace troupe {

namespace {

result<void> check_sample(const shape& sample, int classes) {
  if (sample.rank() == 0 || std::ranges::any_of(sample.extents(), [](auto extent) { return extent < 1; }))
    return error{errc::bad_model, fmt::format("a sample of shape {} has no elements", sample.to_string())};
  if (classes < 2)
    return error{errc::bad_model, fmt::format("a classifier needs at least 2 classes, got {}", classes)};
  return {};
}

} // namespace

std::vector<std::string> mlp_layers(const std::vector<int>& hidden, int classes) {
  std::vector<std::string> list{"flatten"};
  for (auto units : hidden)
    list.push_back(fmt::format("linear {} relu", units));
  list.push_back(fmt::format("linear {}", classes));
  return list;
}

result<model> model::build(const model_spec& spec, const shape& sample, int classes) {
  if (auto ok = check_sample(sample, classes); !ok)
    return ok.error();
  layers::builder built{sample};
  for (std::size_t i = 0; i < spec.layers.size(); ++i) {
    auto layer = layers::parse(spec.layers[i]);
    if (!layer)
      return error{layer.error().code, fmt::format("layer {}: {}", i + 1, layer.error().message)};
    if (auto ok = built.add(*layer, fmt::format("layer {} \"{}\"", i + 1, spec.layers[i])); !ok)
      return ok.error();
  }
  return finish(built, sample, classes);
}

result<model> model::build(const std::vector<layers::any>& list, const shape& sample, int classes) {
  if (auto ok = check_sample(sample, classes); !ok)
    return ok.error();
  layers::builder built{sample};
  for (std::size_t i = 0; i < list.size(); ++i)
    if (auto ok = built.add(list[i], fmt::format("layer {}", i + 1)); !ok)
      return ok.error();
  return finish(built, sample, classes);
}

result<model> model::finish(layers::builder& built, const shape& sample, int classes) {
  if (auto ok = built.finish(classes); !ok)
    return ok.error();
  model m;
  m.input_ = built.input();
  m.labels_ = built.labels();
  m.logits_ = built.last();
  m.loss_ = built.loss();
  m.graph_ = built.take_graph();
  m.layout_ = built.take_layout();
  m.sample_ = sample;
  m.classes_ = classes;
  return m;
}

} // namespace troupe
