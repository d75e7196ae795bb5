// SPDX-License-Identifier: BSD-3-Clause
// `troupe checkpoint`: what checkpoints a folder has, whether they are whole, and what is in one.
#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <iterator>
#include <optional>
#include <stdexcept>

#include <boost/json.hpp>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "actors/checkpoint/checkpoint_file.hpp"
#include "actors/checkpoint/names.hpp"
#include "apps/report.hpp"
#include "tensor/safetensors.hpp"

namespace troupe::apps {

namespace {

namespace fs = std::filesystem;
namespace json = boost::json;
using actors::checkpoint_manifest;
using protocols::version;

/// The checkpoints that the command line names: those of a folder, or a single one.
struct chosen_checkpoints {
  std::string dir;
  std::vector<version> steps{}; ///< in order, one at least
  bool single = false;

  std::string folder(version step) const { return (fs::path(dir) / actors::checkpoint_name(step)).string(); }
};

std::string listed_names(const std::vector<version>& steps) {
  std::vector<std::string> names;
  std::ranges::transform(steps, std::back_inserter(names), actors::checkpoint_name);
  return fmt::format("{}", fmt::join(names, ", "));
}

/// Fails with what would be right instead.
config::checked<chosen_checkpoints> choose(const std::string& given) {
  const auto refuse_it = [&](const std::string& why) { return config::refusal{{{given, why}}}; };
  fs::path path = fs::path(given).lexically_normal();
  if (path.filename().empty()) // "step-40/"
    path = path.parent_path();
  const std::string name = fs::weakly_canonical(path).filename().string(); // also where it is ".", within one
  if (const auto step = actors::checkpoint_version(name)) {
    const fs::path parent = path.filename() != name ? path / ".." : path.has_parent_path() ? path.parent_path() : fs::path{"."};
    const auto others = actors::checkpoints_in(parent.string());
    if (std::ranges::find(others, *step) != others.end())
      return chosen_checkpoints{parent.string(), {*step}, true};
    return refuse_it(others.empty() ? "no such checkpoint; give a folder of checkpoints, or one of its step-N"
                                    : fmt::format("no such checkpoint; {} has {}", parent.string(), listed_names(others)));
  }
  if (!fs::is_directory(path))
    return refuse_it(fmt::format("{}; give a folder of checkpoints, or one of its step-N",
                                 fs::exists(path) ? "not a folder" : "no such folder"));
  auto steps = actors::checkpoints_in(path.string());
  if (steps.empty())
    return refuse_it("holds no checkpoint; give a folder of checkpoints, with folders step-N in it, or one of these");
  return chosen_checkpoints{path.string(), std::move(steps)};
}

std::uint64_t bytes_of_files(const checkpoint_manifest& manifest) {
  std::uint64_t bytes = 0;
  for (const actors::written_file& each : manifest.files)
    bytes += each.bytes;
  return bytes;
}

double training_seconds(const checkpoint_manifest& manifest) {
  return static_cast<double>(manifest.training_ns) * 1e-9;
}

/// Nothing where it cannot be read: faults_of says why.
std::optional<checkpoint_manifest> manifest_in(const std::string& folder) {
  try {
    return actors::read_manifest(folder);
  } catch (const std::runtime_error&) {
    return std::nullopt;
  }
}

json::object listed_json(version step, const std::optional<checkpoint_manifest>& manifest,
                         const std::vector<std::string>& faults) {
  return {{"step", step.value},
          {"samples", manifest ? json::value(manifest->samples) : json::value(nullptr)},
          {"training_s", number_or_null(manifest.has_value(), manifest ? training_seconds(*manifest) : 0)},
          {"bytes", manifest ? json::value(bytes_of_files(*manifest)) : json::value(nullptr)},
          {"good", faults.empty()},
          {"faults", json::value_from(faults)}};
}

exit_code list_all(const checkpoint_options& options, const chosen_checkpoints& chosen) {
  std::vector<std::vector<std::string>> rows{{"step", "samples", "training", "size", "state"}};
  json::array list;
  for (const version step : chosen.steps) {
    const auto manifest = manifest_in(chosen.folder(step));
    const auto faults = actors::faults_of(chosen.folder(step));
    const auto shown = [&](const std::string& text) { return manifest ? text : ""; };
    rows.push_back({std::to_string(step.value), shown(manifest ? std::to_string(manifest->samples) : ""),
                    shown(manifest ? fmt::format("{:.1f} s", training_seconds(*manifest)) : ""),
                    shown(manifest ? bytes_text(static_cast<double>(bytes_of_files(*manifest))) : ""),
                    faults.empty() ? "good" : faults.front()});
    list.push_back(listed_json(step, manifest, faults));
  }
  if (options.json)
    print_json({{"folder", chosen.dir}, {"checkpoints", std::move(list)}});
  else
    fmt::print("{}", table(rows));
  return exit_done;
}

exit_code verify_all(const checkpoint_options& options, const chosen_checkpoints& chosen) {
  json::array list;
  bool good = true;
  for (const version step : chosen.steps) {
    const std::string folder = chosen.folder(step);
    const auto faults = actors::faults_of(folder);
    const auto manifest = manifest_in(folder);
    good = good && faults.empty();
    list.push_back(listed_json(step, manifest, faults));
    if (options.json)
      continue;
    if (manifest && faults.empty())
      fmt::print("{}: good ({}, {})\n", folder, counted(manifest->files.size(), "file"),
                 bytes_text(static_cast<double>(bytes_of_files(*manifest))));
    for (const std::string& fault : faults)
      fmt::print("{}\n", fault);
  }
  if (options.json)
    print_json({{"folder", chosen.dir}, {"good", good}, {"checkpoints", std::move(list)}});
  return good ? exit_done : exit_failed;
}

/// The one that was named, or the newest that is good; those that are passed over are told. None: said on stderr.
std::optional<version> good_one(const chosen_checkpoints& chosen) {
  for (auto step = chosen.steps.rbegin(); step != chosen.steps.rend(); ++step) {
    const auto fault = actors::fault_of(chosen.folder(*step));
    if (!fault)
      return *step;
    fmt::print(stderr, "troupe: {}{}\n", chosen.single ? "" : "passed over: ", *fault);
  }
  if (!chosen.single)
    fmt::print(stderr, "troupe: {}: no checkpoint is good\n", chosen.dir);
  return std::nullopt;
}

json::object shard_file_json(const actors::written_file& file, const actors::shard_file& shard) {
  json::object numbers;
  for (const auto& [name, number] : shard.head().numbers)
    numbers[name] = number;
  return {{"name", file.name},
          {"bytes", file.bytes},
          {"crc", fmt::format("{:08x}", file.crc)},
          {"shard", shard.head().shard},
          {"step", shard.head().ver.value},
          {"begin", shard.head().range.begin},
          {"end", shard.head().range.end},
          {"numbers", std::move(numbers)},
          {"blocks", json::value_from(shard.blocks())}};
}

exit_code inspect_json(const std::string& folder, const checkpoint_manifest& manifest) {
  json::array files, tensors;
  for (const actors::written_file& each : manifest.files)
    files.push_back(shard_file_json(each, actors::shard_file(folder, each)));
  for (const actors::tensor_place& each : manifest.tensors)
    tensors.push_back({{"name", each.name}, {"shape", json::value_from(each.dims.extents())}, {"offset", each.offset}});
  print_json({{"checkpoint", folder},
              {"job", manifest.job},
              {"step", manifest.ver.value},
              {"samples", manifest.samples},
              {"training_s", training_seconds(manifest)},
              {"parameters", manifest.floats},
              {"facts", json::value_from(manifest.facts)},
              {"data", json::value_from(manifest.data)},
              {"files", std::move(files)},
              {"tensors", std::move(tensors)}});
  return exit_done;
}

exit_code inspect_one(const checkpoint_options& options, const chosen_checkpoints& chosen) {
  const auto step = good_one(chosen);
  if (!step)
    return exit_failed;
  const std::string folder = chosen.folder(*step);
  const auto manifest = actors::read_manifest(folder);
  if (options.json)
    return inspect_json(folder, manifest);
  fmt::print("{}: job \"{}\", step {}, {} samples, {:.1f} s of training\n", folder, manifest.job, manifest.ver.value,
             manifest.samples, training_seconds(manifest));
  std::vector<std::vector<std::string>> facts{{"fact", "value"}},
      files{{"file", "size", "step", "elements", "numbers", "blocks"}}, tensors{{"tensor", "shape", "offset"}},
      data{{"data", "SHA-256"}};
  for (const auto& [key, value] : manifest.facts)
    facts.push_back({key, value});
  for (const auto& [path, sha256] : manifest.data)
    data.push_back({path, sha256});
  for (const actors::written_file& each : manifest.files) {
    const actors::shard_file shard(folder, each);
    std::vector<std::string> numbers;
    for (const auto& [name, number] : shard.head().numbers)
      numbers.push_back(fmt::format("{} {}", name, number));
    files.push_back({each.name, bytes_text(static_cast<double>(each.bytes)), std::to_string(shard.head().ver.value),
                     fmt::format("{} to {}", shard.head().range.begin, shard.head().range.end),
                     fmt::format("{}", fmt::join(numbers, ", ")), fmt::format("{}", fmt::join(shard.blocks(), ", "))});
  }
  for (const actors::tensor_place& each : manifest.tensors)
    tensors.push_back({each.name, each.dims.to_string(), std::to_string(each.offset)});
  for (const auto& rows : {facts, data, files, tensors})
    if (rows.size() > 1)
      fmt::print("\n{}", table(rows));
  return exit_done;
}

exit_code export_one(const checkpoint_options& options, const chosen_checkpoints& chosen) {
  if (const auto why = cannot_write(options.to); !why.empty())
    return refuse({{{"--to", why}}});
  const auto step = good_one(chosen);
  if (!step)
    return exit_failed;
  const std::string folder = chosen.folder(*step);
  const auto manifest = actors::read_manifest(folder);
  parameter_layout layout;
  for (const actors::tensor_place& each : manifest.tensors)
    layout.slots.push_back({each.name, each.dims, each.offset, {}});
  std::vector<float> parameters(manifest.floats); // its files are as large: good_one has read them
  if (layout.slots.empty()
      || !actors::read_block(folder, manifest, actors::parameters_name, {0, static_cast<std::int64_t>(manifest.floats)},
                             parameters.data())) {
    fmt::print(stderr, "troupe: {}: holds no {} to export\n", folder, layout.slots.empty() ? "names of tensors" : "parameters");
    return exit_failed;
  }
  std::map<std::string, std::string> metadata{
      {"job", manifest.job}, {"step", std::to_string(manifest.ver.value)}, {"version", TROUPE_VERSION}};
  if (const auto layers = manifest.facts.find("model.layers"); layers != manifest.facts.end())
    metadata["layers"] = layers->second;
  if (const auto saved = save_safetensors(options.to, layout, parameters.data(), metadata); !saved) {
    fmt::print(stderr, "troupe: {}\n", saved.error().message);
    return exit_failed;
  }
  const std::string digest = weights_digest(layout, parameters.data());
  if (options.json)
    print_json({{"checkpoint", folder},
                {"step", manifest.ver.value},
                {"to", options.to},
                {"tensors", layout.slots.size()},
                {"weights_digest", digest}});
  else
    fmt::print("{}: the parameters of step {}, {} (weights {})\n", options.to, manifest.ver.value,
               counted(layout.slots.size(), "tensor"), digest);
  return exit_done;
}

} // namespace

int execute(const checkpoint_options& options) {
  const auto chosen = choose(options.folder);
  if (!chosen)
    return refuse(chosen.error());
  switch (options.action) {
  case checkpoint_options::verb::list:
    return list_all(options, *chosen);
  case checkpoint_options::verb::inspect:
    return inspect_one(options, *chosen);
  case checkpoint_options::verb::verify:
    return verify_all(options, *chosen);
  case checkpoint_options::verb::export_parameters:
    return export_one(options, *chosen);
  }
  return exit_usage;
}

} // namespace troupe::apps
