// SPDX-License-Identifier: BSD-3-Clause
// Finding and calling a program's additions.
#include "actors/extensions.hpp"

#include <algorithm>
#include <stdexcept>

#include <fmt/format.h>

namespace troupe::actors {

namespace {

std::string model_name(const std::string& name) {
  return fmt::format("model \"{}\"", name);
}
std::string source_name(const std::string& name) {
  return fmt::format("data source \"{}\"", name);
}
std::string protocol_name(const std::string& name) {
  return fmt::format("protocol \"{}\"", name);
}

template <class Kind>
const Kind* find(const std::vector<Kind>& kinds, const std::string& name) {
  const auto found = std::ranges::find(kinds, name, &Kind::name);
  return found == kinds.end() ? nullptr : &*found;
}

/// Calls a function of the application; its exceptions become errors.
template <class F>
auto guarded(const std::string& whose, errc code, F make) -> decltype(make()) {
  try {
    return make();
  } catch (const std::exception& e) {
    return error{code, fmt::format("{}: {}", whose, e.what())};
  }
}

} // namespace

template <class T>
const T& parameters::get(const std::string& name) const {
  const auto found = values_.find(name);
  const T* held = found == values_.end() ? nullptr : std::get_if<T>(&found->second);
  if (held == nullptr)
    throw std::logic_error(fmt::format("no parameter \"{}\" of this type was declared", name));
  return *held;
}
template const bool& parameters::get(const std::string&) const;
template const std::int64_t& parameters::get(const std::string&) const;
template const double& parameters::get(const std::string&) const;
template const std::string& parameters::get(const std::string&) const;
template const std::vector<std::string>& parameters::get(const std::string&) const;

std::vector<std::string> names_of(const extensions& added) {
  std::vector<std::string> names;
  for (const auto& kind : added.models)
    names.push_back(model_name(kind.name));
  for (const auto& source : added.sources)
    names.push_back(source_name(source.name));
  for (const auto& entry : added.protocols)
    names.push_back(protocol_name(entry.name));
  return names;
}

std::vector<std::string> missing_names(const job& job, const extensions& added) {
  std::vector<std::string> missing;
  if (const auto& name = job.own_model.name; !name.empty() && !find(added.models, name))
    missing.push_back(model_name(name));
  if (const auto& name = job.own_data.name; !name.empty() && !find(added.sources, name))
    missing.push_back(source_name(name));
  for (const auto& spec : protocols::planned_specs(job.protocol, added.protocols))
    if (!protocols::find_protocol(spec.name, added.protocols))
      missing.push_back(protocol_name(spec.name));
  return missing;
}

result<data_pair> load_data(const job& job, const extensions& added) {
  const auto& [name, values] = job.own_data;
  if (name.empty())
    return troupe::load_data(job.data, job.seed);
  const auto* source = find(added.sources, name);
  if (source == nullptr)
    return error{errc::bad_option, fmt::format("this program has no {}", source_name(name))};
  auto loaded =
      guarded(source_name(name), errc::bad_option, [&, &values = values] { return source->load(parameters{values}, job.seed); });
  if (loaded && !(loaded->train && loaded->test && loaded->train->size() > 0 && loaded->test->size() > 0))
    return error{errc::bad_option, fmt::format("{} gave no samples to train with, or none to test with", source_name(name))};
  return loaded;
}

result<model> build_model(const job& job, const data_format& data, const extensions& added) {
  const auto& [name, values] = job.own_model;
  if (name.empty())
    return model::build(job.model, data);
  const auto* kind = find(added.models, name);
  if (kind == nullptr)
    return error{errc::bad_model, fmt::format("this program has no {}", model_name(name))};
  return guarded(model_name(name), errc::bad_model, [&, &values = values] { return kind->build(parameters{values}, data); });
}

} // namespace troupe::actors
