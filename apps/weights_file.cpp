// SPDX-License-Identifier: BSD-3-Clause
// Metadata of weights: written and compared.
#include "apps/weights_file.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

#include <boost/json.hpp>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "tensor/layers.hpp"
#include "tensor/weights_names.hpp"

namespace troupe::apps {

namespace {

namespace json = boost::json;

/// Smaller differences come from rounding on other machines.
constexpr double rounding = 1e-6;
constexpr std::size_t most_shown = 4;

/// Nothing where `key` is missing or its text is not an array of such values.
template <class T>
std::optional<std::vector<T>> read_array(const std::map<std::string, std::string>& metadata, const std::string& key) {
  const auto found = metadata.find(key);
  if (found == metadata.end())
    return std::nullopt;
  json::error_code broken;
  const auto parsed = json::parse(found->second, broken);
  if (broken)
    return std::nullopt;
  auto values = json::try_value_to<std::vector<T>>(parsed);
  return values ? std::optional(std::move(*values)) : std::nullopt;
}

constexpr const char* every_byte = "bytes";

/// Of the first id that two vocabularies have for different texts.
std::string first_difference(const vocabulary& theirs, const vocabulary& ours) {
  const auto common = static_cast<std::int32_t>(std::min(theirs.size(), ours.size()));
  for (std::int32_t id = 0; id < common; ++id)
    if (theirs.text(id) != ours.text(id))
      return fmt::format("; id {} is {} there and {} here", id, json::serialize(json::value(theirs.text(id))),
                         json::serialize(json::value(ours.text(id))));
  return "";
}

bool same_layers(const std::vector<std::string>& a, const std::vector<std::string>& b) {
  return std::ranges::equal(a, b, [](const std::string& one, const std::string& other) {
    const auto left = layers::parse(one), right = layers::parse(other);
    return left && right ? *left == *right : one == other;
  });
}

bool same_numbers(const std::vector<double>& a, const std::vector<double>& b) {
  return std::ranges::equal(a, b, [](double one, double other) {
    return std::abs(one - other) <= rounding * std::max({1.0, std::abs(one), std::abs(other)});
  });
}

} // namespace

std::string with_names(const std::string& whose, std::vector<tensor_to_save>& tensors,
                       std::map<std::string, std::string>& metadata) {
  if (whose == "troupe")
    return "";
  if (!has_huggingface_names(tensors))
    return "Hugging Face has names for a GPT-2 alone ([model] kind = \"gpt\"): leave it out";
  tensors = with_huggingface_names(std::move(tensors));
  metadata["format"] = "pt";
  return "";
}

std::string numbers_text(const std::vector<double>& all) {
  std::vector<std::string> shown;
  for (std::size_t i = 0; i < std::min(all.size(), most_shown); ++i)
    shown.push_back(fmt::format("{:.5g}", all[i]));
  if (all.size() > most_shown)
    shown.push_back(fmt::format("... ({} in all)", all.size()));
  return fmt::format("{}", fmt::join(shown, ", "));
}

std::string scaling_text(const data_scaling& scaling) {
  if (scaling.pair_of.empty())
    return "";
  return fmt::format("(x - mean) / deviation, one pair a {}{}", scaling.pair_of,
                     scaling.pair_of == "channel" ? ", x = pixel / 255" : "");
}

std::map<std::string, std::string> weights_metadata(const actors::job& job, const data_scaling& scaling, const vocabulary* words,
                                                    std::uint64_t step) {
  std::map<std::string, std::string> all{{"step", std::to_string(step)}, {"version", TROUPE_VERSION}};
  if (!job.model.layers.empty())
    all["layers"] = json::serialize(json::value_from(job.model.layers));
  if (const auto text = scaling_text(scaling); !text.empty()) {
    all["mean"] = fmt::format("[{}]", fmt::join(scaling.mean, ", "));
    all["deviation"] = fmt::format("[{}]", fmt::join(scaling.deviation, ", "));
    all["scaling"] = text;
  }
  if (words != nullptr)
    all["vocabulary"] = words->has_bytes() ? every_byte : json::serialize(json::value_from(words->characters()));
  return all;
}

std::string other_model(const std::map<std::string, std::string>& metadata, const actors::job& job) {
  const auto theirs = read_array<std::string>(metadata, "layers");
  if (!theirs || job.model.layers.empty() || same_layers(*theirs, job.model.layers))
    return "";
  return fmt::format("weights of another model: layers = {}; the job's are {}", *theirs, job.model.layers);
}

std::string other_scaling(const std::map<std::string, std::string>& metadata, const data_scaling& scaling) {
  const auto mean = read_array<double>(metadata, "mean"), deviation = read_array<double>(metadata, "deviation");
  if (!mean || !deviation || scaling.pair_of.empty()
      || (same_numbers(*mean, scaling.mean) && same_numbers(*deviation, scaling.deviation)))
    return "";
  return fmt::format("mean {} and deviation {}, and this job's have {} and {}", numbers_text(*mean), numbers_text(*deviation),
                     numbers_text(scaling.mean), numbers_text(scaling.deviation));
}

data_scaling scaling_of_weights(const std::map<std::string, std::string>& metadata, const data_scaling& otherwise) {
  auto mean = read_array<double>(metadata, "mean"), deviation = read_array<double>(metadata, "deviation");
  if (!mean || !deviation || mean->size() != otherwise.mean.size() || deviation->size() != mean->size()
      || !std::ranges::all_of(*deviation, [](double each) { return each > 0; }))
    return otherwise;
  return {otherwise.pair_of, std::move(*mean), std::move(*deviation)};
}

result<std::optional<vocabulary>> read_vocabulary(const std::map<std::string, std::string>& metadata) {
  const auto found = metadata.find("vocabulary");
  if (found == metadata.end())
    return std::optional<vocabulary>{};
  if (found->second == every_byte)
    return std::optional{vocabulary::of_bytes()};
  const auto characters = read_array<std::string>(metadata, "vocabulary");
  if (!characters)
    return error{errc::bad_weights, "their vocabulary is neither a JSON array of texts nor \"bytes\""};
  auto words = vocabulary::of_characters(*characters);
  if (!words)
    return error{errc::bad_weights, "their vocabulary cannot be used: " + words.error().message};
  return std::optional{std::move(*words)};
}

std::string other_vocabulary(const std::map<std::string, std::string>& metadata, const vocabulary* words) {
  const auto theirs = read_vocabulary(metadata);
  if (!theirs)
    return theirs.error().message;
  if (words == nullptr || !*theirs || **theirs == *words)
    return "";
  const auto counted = [](const vocabulary& all) {
    return all.has_bytes() ? std::string("bytes") : fmt::format("{} characters", all.size());
  };
  return fmt::format(
      "weights of another vocabulary: their ids stand for {}, those of data.path for {}{}; give the text that they "
      "were trained on, or one with the same characters",
      counted(**theirs), counted(*words), (*theirs)->has_bytes() || words->has_bytes() ? "" : first_difference(**theirs, *words));
}

} // namespace troupe::apps
