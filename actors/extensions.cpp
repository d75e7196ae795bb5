// SPDX-License-Identifier: BSD-3-Clause
// Finding and calling a program's additions.
#include "actors/extensions.hpp"

#include <algorithm>
#include <stdexcept>

#include <fmt/format.h>

#include "tensor/data/holdout.hpp"

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

namespace {

/// Of the kind that it names, with the job's keys.
network_spec network_of(const own_spec& own) {
  const parameters given{own.parameters};
  const auto has = [&own](const char* key) { return own.parameters.contains(key); };
  return {.kind = own.name,
          .depth = given.integer("depth"),
          .heads = has("heads") ? given.integer("heads") : 0,
          .width = given.integer("width"),
          .dropout = has("dropout") ? given.number("dropout") : 0};
}

result<model> build_graph(const job& job, const data_format& data, const extensions& added) {
  const auto& [name, values] = job.own_model;
  if (name.empty())
    return model::build(job.model, data);
  if (const auto networks = network_kinds(); std::ranges::count(networks, name) != 0)
    return model::build(model_spec{.layers = {}, .network = network_of(job.own_model), .loss = job.model.loss}, data);
  const auto* kind = find(added.models, name);
  if (kind == nullptr)
    return error{errc::bad_model, fmt::format("this program has no {}", model_name(name))};
  return guarded(model_name(name), errc::bad_model, [&, &values = values] { return kind->build(parameters{values}, data); });
}

/// Why the job's protocol cannot train a model with statistics (slot_kind); empty: it can, or there are none. A dual variable is
/// the price of a constraint on what is optimized, and a running mean is not optimized.
std::string no_statistics(const job& job, const parameter_layout& layout, const extensions& added) {
  const auto slot = std::ranges::find(layout.slots, slot_kind::statistic, &parameter_slot::kind);
  if (slot == layout.slots.end())
    return "";
  for (const auto& spec : protocols::planned_specs(job.protocol, added.protocols))
    if (const auto runs = protocols::find_protocol(spec.name, added.protocols); runs && runs->keeps && runs->keeps(spec).dual)
      return fmt::format(
          "{} is a running mean or variance, and protocol.name = \"{}\" constrains what it optimizes, which those are "
          "not; take \"groupnorm\" or \"layernorm\" instead of a batch norm, or another protocol",
          slot->name, spec.name);
  return "";
}

/// Why the job's pushes or parameters cannot be encoded as it says: a block of int8, int4 or onebit may mix what a statistic
/// moves by with numbers that are far larger, and a variance must not become negative; of a sparse push most are left out.
/// Empty: they can.
std::string no_blocks(const job& job, const parameter_layout& layout) {
  const auto slot = std::ranges::find(layout.slots, slot_kind::statistic, &parameter_slot::kind);
  const codec_spec& codec = job.codec;
  const bool sparse = kernels::is_sparse(codec.form()), push = sparse || kernels::block_of(codec.form()) > 1;
  if (slot == layout.slots.end() || (!push && kernels::block_of(codec.params_form()) == 1))
    return "";
  const char* const key = push ? "codec.push" : "codec.params";
  return fmt::format("{} is a running mean or variance, and {} = \"{}\" {}; take \"groupnorm\" or \"layernorm\" instead of a "
                     "batch norm, or {} = \"fp16\" or \"bf16\"",
                     slot->name, key, push ? codec.push : codec.params,
                     sparse ? "leaves most elements out" : "rounds it by the largest number near it", key);
}

/// Why some of the job's shards would have no parameters, and what would be right. Empty: all have some.
std::string empty_shards(const job& job, const parameter_layout& layout) {
  const std::int64_t unit = job.codec.cut_unit(), most = (layout.floats() + unit - 1) / unit;
  if (most == 0 || job.cluster.shards <= most)
    return "";
  const bool push = kernels::block_of(job.codec.form()) == unit;
  const std::string why = unit == flat_alignment
                              ? ""
                              : fmt::format(", which {} = \"{}\" encodes together", push ? "codec.push" : "codec.params",
                                            push ? job.codec.push : job.codec.params);
  return fmt::format(
      "cluster.shards = {} leaves some without parameters: those of this model are cut at multiples of {} elements{}; "
      "write at most cluster.shards = {}",
      job.cluster.shards, unit, why, most);
}

} // namespace

std::vector<model_kind> model_kinds(const extensions& added) {
  using protocols::integer_parameter;
  const auto depth = [](std::int64_t fallback, const char* meaning) { return integer_parameter("depth", fallback, 1, meaning); };
  const auto width = [](std::int64_t fallback, const char* meaning) { return integer_parameter("width", fallback, 1, meaning); };
  const auto dropout = [](const char* meaning) {
    return protocols::real_parameter("dropout", 0, {.least = 0, .most = 1, .open_most = true}, meaning);
  };
  const auto between = dropout("rate between layers");
  std::vector<model_kind> kinds{
      {"gpt",
       "a transformer that predicts the next id (Radford et al. 2019), with the names of GPT-2's weights",
       {depth(4, "blocks"), integer_parameter("heads", 4, 1, "of attention, in each block"), width(128, "of the stream"),
        dropout("rate, of the embedding, of attention and of what is added to the stream")},
       {}},
      {"lstm",
       "layers of LSTM over ids or features, then a linear layer",
       {depth(1, "layers"), width(256, "units"), between},
       {}},
      {"gru", "the same of GRU", {depth(1, "layers"), width(256, "units"), between}, {}},
      {"resnet",
       "for small images (He et al. 2016), with batch norms",
       {depth(20, "layers with weights: 6n + 2"), width(16, "channels of the first stage")},
       {}}};
  kinds.insert(kinds.end(), added.models.begin(), added.models.end());
  return kinds;
}

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
  if (const auto& name = job.own_model.name; !name.empty() && !find(model_kinds(added), name))
    missing.push_back(model_name(name));
  if (const auto& name = job.own_data.name; !name.empty() && !find(added.sources, name))
    missing.push_back(source_name(name));
  for (const auto& spec : protocols::planned_specs(job.protocol, added.protocols))
    if (!protocols::find_protocol(spec.name, added.protocols))
      missing.push_back(protocol_name(spec.name));
  return missing;
}

namespace {

result<data_pair> load_whole(const job& job, const extensions& added) {
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

} // namespace

result<data_pair> load_data(const job& job, const extensions& added) {
  auto loaded = load_whole(job, added);
  return loaded ? hold_out(std::move(*loaded), job.data.holdout, job.seed) : loaded;
}

result<model> build_model(const job& job, const data_format& data, const extensions& added) {
  auto made = build_graph(job, data, added);
  if (made)
    if (auto ok = choose_slots(made->layout(), job.optimizer); !ok)
      return ok.error();
  if (made)
    for (auto why :
         {no_statistics(job, made->layout(), added), no_blocks(job, made->layout()), empty_shards(job, made->layout())})
      if (!why.empty())
        return error{errc::bad_model, std::move(why)};
  return made;
}

} // namespace troupe::actors
