// SPDX-License-Identifier: BSD-3-Clause
// What of a job a checkpoint must agree with.
#include "actors/checkpoint/job_facts.hpp"

#include <algorithm>
#include <filesystem>
#include <ranges>
#include <sstream>

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace troupe::actors {

namespace {

std::string text_of(const protocols::spec_value& value) {
  return std::visit(
      [](const auto& held) -> std::string {
        if constexpr (std::is_same_v<std::decay_t<decltype(held)>, std::vector<std::string>>)
          return fmt::format("{}", fmt::join(held, ", "));
        else
          return fmt::format("{}", held);
      },
      value);
}

/// "linear 10" of " linear  10".
std::string single_spaced(const std::string& layer) {
  std::istringstream in(layer);
  std::string out;
  for (std::string word; in >> word;)
    out += (out.empty() ? "" : " ") + word;
  return out;
}

} // namespace

std::map<std::string, std::string> checkpoint_facts(const job& job) {
  std::map<std::string, std::string> facts{{"protocol.name", job.protocol.name}, {"seed", fmt::format("{}", job.seed)}};
  const auto own = [&facts](const std::string& section, const std::string& key, const own_spec& spec) {
    facts[section + "." + key] = spec.name;
    for (const auto& [name, value] : spec.parameters)
      facts[section + "." + name] = text_of(value);
  };
  if (!job.own_model.name.empty()) {
    own("model", "kind", job.own_model);
  } else if (!job.model.onnx.empty()) {
    facts["model.onnx"] = job.model.onnx;
  } else {
    std::vector<std::string> layers;
    for (const std::string& layer : job.model.layers)
      layers.push_back(single_spaced(layer));
    facts["model.layers"] = fmt::format("[\"{}\"]", fmt::join(layers, "\", \"")); // a list in JSON; layers have no quotes
  }
  if (const auto& loss = job.model.loss; loss != loss_spec{}) {
    facts["model.loss"] = loss.name;
    facts["model.label_smoothing"] = fmt::format("{}", loss.label_smoothing);
  }
  if (!job.own_data.name.empty()) {
    own("data", "source", job.own_data);
  } else {
    facts["data.source"] = job.data.source;
    facts["data.scale"] = job.data.scale;
    if (job.data.source == "digits")
      facts["data.train_samples"] = fmt::format("{}", job.data.train_samples);
    if (job.data.source == "tokens")
      facts["data.vocabulary_size"] = fmt::format("{}", job.data.vocabulary_size);
    if (job.data.source == "text")
      facts["data.vocabulary"] = job.data.vocabulary;
    if (job.data.source == "text" || job.data.source == "tokens") {
      facts["data.context"] = fmt::format("{}", job.data.context);
      facts["data.stride"] = fmt::format("{}", job.data.stride);
    }
  }
  if (job.data.holdout != 0)
    facts["evaluate.holdout"] = fmt::format("{}", job.data.holdout);
  const optimizer_spec& optimizer = job.optimizer;
  const auto fact = [&facts](const char* name, const auto& value) {
    facts[std::string("optimizer.") + name] = fmt::format("{}", value);
  };
  fact("name", optimizer.name);
  fact("weight_decay", optimizer.weight_decay);
  for (const auto& [name, named] : {std::pair{"freeze", &optimizer.freeze}, {"lr_scale", &optimizer.lr_scale}})
    if (!named->empty())
      fact(name, fmt::format("{}", fmt::join(*named, ", ")));
  if (optimizer.weight_decay_on != optimizer_spec{}.weight_decay_on)
    fact("weight_decay_on", optimizer.weight_decay_on);
  if (optimizer.name == "adamw") {
    fact("beta1", optimizer.beta1);
    fact("beta2", optimizer.beta2);
    fact("epsilon", optimizer.epsilon);
  } else {
    fact("momentum", optimizer.momentum);
    fact("nesterov", optimizer.nesterov);
  }
  if (optimizer.name == "lars")
    fact("trust", optimizer.trust);
  return facts;
}

std::string other_data(const std::map<std::string, std::string>& own, const std::map<std::string, std::string>& theirs,
                       const std::string& folder) {
  const auto known = theirs | std::views::values;
  for (const auto& [path, sha256] : own)
    if (!theirs.empty() && std::ranges::find(known, sha256) == known.end())
      return fmt::format(
          "{} (SHA-256 {}...) is not of the data that {} was made with, which are {}; give those, or leave out --resume", path,
          sha256.substr(0, 8), folder, fmt::join(theirs | std::views::keys, ", "));
  return {};
}

bool workers_keep_state(const job& job, const protocols::protocol& with) {
  const bool momentum = job.optimizer.name == "adamw" || job.optimizer.momentum != 0;
  const bool codes = job.codec.encodes_pushes() && (job.codec.error_feedback || job.codec.corrects_momentum());
  const auto kept = with.keeps ? with.keeps(job.protocol) : protocols::footprint{};
  return codes || kept.dual || kept.replica_goes_on || with.replicas_differ() || (momentum && kept.replica);
}

bool workers_write(const job& job, const protocols::protocol& with) {
  return with.reduces || workers_keep_state(job, with);
}

std::string absolute_folder(const std::string& path) {
  const auto normal = std::filesystem::absolute(path).lexically_normal();
  return normal.has_filename() ? normal : normal.parent_path();
}

} // namespace troupe::actors
