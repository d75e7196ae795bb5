// SPDX-License-Identifier: BSD-3-Clause
// load_data: from a job file's `[data]` to two data sets.
#include "tensor/data/data_set.hpp"

#include <fmt/format.h>

#include "tensor/data/arrays.hpp"
#include "tensor/data/augmentation.hpp"
#include "tensor/data/byte_source.hpp"
#include "tensor/data/cifar10.hpp"
#include "tensor/data/csv.hpp"
#include "tensor/data/digits.hpp"
#include "tensor/data/idx.hpp"
#include "tensor/data/label_noise.hpp"
#include "tensor/data/memory_set.hpp"
#include "tensor/data/text.hpp"
#include "tensor/data/tokens.hpp"

namespace troupe {

namespace {

error bad_option(const std::string& message) {
  return {errc::bad_option, message};
}

result<image_halves> draw(const data_spec& spec, std::uint64_t seed) {
  constexpr auto most = static_cast<std::int64_t>(max_data_bytes / digit_pixels);
  for (auto [name, samples] : {std::pair{"train_samples", spec.train_samples}, {"test_samples", spec.test_samples}})
    if (samples < 1 || samples > most)
      return bad_option(fmt::format("data.{} = {}; digits draws 1 to {} samples", name, samples, most));
  return draw_digits(seed, spec.train_samples, spec.test_samples);
}

result<data_pair> load_table(const data_spec& spec, std::uint64_t seed) {
  if (spec.scale != "standard")
    return bad_option(fmt::format("data.scale = \"{}\" is for pixels; a csv source takes \"standard\"", spec.scale));
  auto tables = read_csv_files(spec.path, spec.test_path);
  if (!tables)
    return tables.error();
  replace_labels(std::span{tables->train.labels}, tables->train.classes, spec.label_noise, seed);
  return make_table_pair(std::move(*tables));
}

/// As the files have them.
result<data_pair> load_plain(const data_spec& spec, std::uint64_t seed) {
  if (spec.scale != "standard" && spec.scale != "unit")
    return bad_option(fmt::format("data.scale = \"{}\"; it is \"standard\" or \"unit\"", spec.scale));
  if (spec.source != "digits" && spec.path.empty())
    return bad_option(fmt::format("data.path is missing; source = \"{}\" reads from there", spec.source));
  if (!(spec.label_noise >= 0 && spec.label_noise <= 1))
    return bad_option(fmt::format("data.label_noise = {}; it is a fraction, 0 to 1", spec.label_noise));
  if (spec.source == "csv")
    return load_table(spec, seed);
  if (spec.source == "text")
    return load_text(spec);
  if (spec.source == "tokens")
    return load_tokens(spec);
  if (spec.source == "npy" || spec.source == "safetensors")
    return load_arrays(spec);

  if (std::error_code ignored; spec.source != "digits" && std::filesystem::exists(spec.path, ignored)
                               && !std::filesystem::is_directory(spec.path, ignored))
    return error{errc::bad_data, fmt::format("{}: a file, and source = \"{}\" reads a folder; did you mean {}?", spec.path,
                                             spec.source, std::filesystem::absolute(spec.path, ignored).parent_path().string())};
  auto images =
      spec.source == "digits" ? draw(spec, seed)
      : spec.source == "idx"  ? read_idx_folder(spec.path)
      : spec.source == "cifar10"
          ? read_cifar10_folder(spec.path)
          : bad_option(fmt::format("data.source = \"{}\"; it is \"digits\", \"idx\", \"cifar10\", \"csv\", \"text\", \"tokens\", "
                                   "\"npy\" or \"safetensors\"",
                                   spec.source));
  if (!images)
    return images.error();
  replace_labels(std::span{images->train.labels}, images->train.classes, spec.label_noise, seed);
  return make_image_pair(std::move(*images), spec.scale == "unit" ? pixel_scale::unit : pixel_scale::standard);
}

} // namespace

result<data_pair> load_data(const data_spec& spec, std::uint64_t seed) {
  const auto how = parse_augmentation(spec.augment);
  if (!how)
    return how.error();
  auto both = load_plain(spec, seed);
  if (!both || spec.augment.empty())
    return both;
  auto train = augmented(both->train, *how);
  if (!train)
    return train.error();
  both->train = std::move(*train);
  return both;
}

bool stays_on_disk(const data_spec& spec) {
  return spec.source == "text" || spec.source == "tokens" || spec.source == "npy" || spec.source == "safetensors";
}

std::vector<std::filesystem::path> data_files(const data_spec& spec) {
  if (spec.source == "idx")
    return idx_files(spec.path);
  if (spec.source == "cifar10")
    return cifar10_files(spec.path);
  std::vector<std::filesystem::path> files;
  if (spec.source != "digits")
    for (const auto* path : {&spec.path, &spec.labels_path, &spec.test_path, &spec.test_labels_path})
      if (!path->empty())
        files.emplace_back(*path);
  return files;
}

} // namespace troupe
