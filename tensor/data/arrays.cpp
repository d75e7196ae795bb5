// SPDX-License-Identifier: BSD-3-Clause
// A data set over two arrays.
#include "tensor/data/arrays.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "kernels/assert.hpp"
#include "tensor/data/npy.hpp"
#include "tensor/data/stored_array.hpp"
#include "tensor/safetensors.hpp"

namespace troupe {

namespace {

constexpr std::int64_t most_rows = std::numeric_limits<std::uint32_t>::max();
constexpr std::int32_t largest_id = (1 << 24) - 1;
constexpr std::int64_t elements_at_once = 1 << 16;
constexpr double brightest_byte = 255;

/// Two arrays and which of their rows are meant.
struct labelled_half {
  stored_array features, labels;
  std::int64_t begin = 0, end = 0;
};

struct labelled_halves {
  labelled_half train, test;
};

/// What has a mean and a deviation of its own: element i of a row is of pair i / inner.
struct scaled_parts {
  std::int64_t pairs = 0, inner = 1; ///< without pairs, numbers stay as they are
};

/// x stands for (x - mean) * factor. In double: numbers may be as large or small as a float can be.
struct scaling_pair {
  double mean = 0, factor = 1;
};

bool holds_ids(const stored_array& features) {
  return !is_real(features.type) && features.type != array_type::U8;
}

shape row_shape(const stored_array& array) {
  return shape{std::vector<std::int64_t>(array.extents.begin() + 1, array.extents.end())};
}

/// Calls `visit(first, values)` with all elements of some rows, piece by piece.
template <class T, class Visit>
result<void> each_piece(const stored_array& array, std::int64_t begin, std::int64_t end, Visit visit) {
  std::vector<T> piece;
  const auto last = end * array.row_elements();
  for (auto at = begin * array.row_elements(); at < last; at += std::ssize(piece)) {
    piece.resize(static_cast<std::size_t>(std::min(last - at, elements_at_once)));
    if (auto read = array.read(at, std::span{piece}); !read)
      return read;
    if (auto ok = visit(at, std::span<const T>{piece}); !ok)
      return ok;
  }
  return {};
}

/// The largest of an array's integers. `ignored`: labels that are not predicted may be among them.
result<std::int32_t> largest(const stored_array& array, std::int64_t begin, std::int64_t end, bool ignored) {
  constexpr std::int32_t ignored_by_pytorch = -100;
  std::int32_t most = 0;
  const auto seen =
      each_piece<std::int32_t>(array, begin, end, [&](std::int64_t at, std::span<const std::int32_t> values) -> result<void> {
        for (std::size_t i = 0; i < values.size(); ++i) {
          const auto value = values[i];
          if ((value < 0 && !(ignored && (value == ignored_label || value == ignored_by_pytorch))) || value > largest_id)
            return array.fail(fmt::format("element {} is {}; {} are from 0 to {}{}", at + static_cast<std::int64_t>(i), value,
                                          ignored ? "labels" : "ids", largest_id,
                                          ignored ? ", or -1 or -100: not predicted" : ""));
          most = std::max(most, value);
        }
        return {};
      });
  return seen ? result<std::int32_t>(most) : seen.error();
}

result<void> all_finite(const stored_array& array, std::int64_t begin, std::int64_t end) {
  return each_piece<float>(array, begin, end, [&](std::int64_t at, std::span<const float> values) -> result<void> {
    const auto found = std::ranges::find_if_not(values, [](float value) { return std::isfinite(value); });
    if (found == values.end())
      return {};
    return array.fail(fmt::format("element {} is {}; numbers are finite", at + (found - values.begin()), *found));
  });
}

/// Mean and deviation of each pair over a half; a deviation of 0 where nothing varies.
result<data_scaling> measure(const labelled_half& half, const scaled_parts& parts) {
  struct seen {
    double sum = 0, squares = 0;
    float least = std::numeric_limits<float>::infinity(), most = -least;
  };
  std::vector<seen> all(static_cast<std::size_t>(parts.pairs));
  const auto& x = half.features;
  const auto row = x.row_elements();
  const auto count = static_cast<double>((half.end - half.begin) * parts.inner);
  const auto each = [&](auto&& visit) {
    return each_piece<float>(x, half.begin, half.end, [&](std::int64_t at, std::span<const float> values) -> result<void> {
      for (std::size_t i = 0; i < values.size(); ++i)
        visit(all[static_cast<std::size_t>((at + static_cast<std::int64_t>(i)) % row / parts.inner)], values[i]);
      return {};
    });
  };
  auto read = each([](seen& pair, float value) {
    pair.sum += static_cast<double>(value);
    pair.least = std::min(pair.least, value);
    pair.most = std::max(pair.most, value);
  });
  const auto mean_of = [count](const seen& pair) {
    return pair.least == pair.most ? static_cast<double>(pair.least) : pair.sum / count;
  };
  if (read)
    read = each([&](seen& pair, float value) { pair.squares += std::pow(static_cast<double>(value) - mean_of(pair), 2); });
  if (!read)
    return read.error();
  data_scaling out;
  for (const auto& pair : all) {
    out.mean.push_back(mean_of(pair));
    out.deviation.push_back(std::sqrt(pair.squares / count));
  }
  return out;
}

/// How features are scaled, and what is said of it. `scale`: that of the job.
struct chosen_scaling {
  scaled_parts parts;
  std::vector<scaling_pair> pairs;
  data_scaling said;
};

result<chosen_scaling> choose_scaling(const labelled_half& train, const std::string& scale) {
  const auto& x = train.features;
  const auto dims = row_shape(x);
  const bool pixels = x.type == array_type::U8, standard = scale == "standard";
  if (holds_ids(x) || (!pixels && !standard))
    return chosen_scaling{};
  if (!pixels && dims.rank() != 1)
    return x.fail(fmt::format("rows are {}, and data.scale = \"standard\" is for columns of numbers and for bytes; write "
                              "scale = \"unit\", which takes numbers as they are",
                              dims.to_string()));
  chosen_scaling out;
  out.parts.pairs = pixels ? (dims.rank() == 3 ? dims[0] : 1) : dims[0];
  out.parts.inner = x.row_elements() / std::max<std::int64_t>(out.parts.pairs, 1);
  const auto pairs = static_cast<std::size_t>(out.parts.pairs);
  out.said = {.mean = std::vector<double>(pairs, 0), .deviation = std::vector<double>(pairs, brightest_byte)};
  if (standard) {
    auto measured = measure(train, out.parts);
    if (!measured)
      return measured.error();
    out.said = std::move(*measured);
  }
  out.said.pair_of = pixels ? "channel" : "column";
  for (std::size_t i = 0; i < pairs; ++i) {
    auto &mean = out.said.mean[i], &deviation = out.said.deviation[i];
    deviation = deviation > 0 ? deviation : 1;
    out.pairs.push_back({mean, 1 / deviation});
    mean /= pixels ? brightest_byte : 1;
    deviation /= pixels ? brightest_byte : 1;
  }
  return out;
}

/// Reads each sample where it is; single labels are in memory.
class array_set final : public data_set {
public:
  array_set(labelled_half half, data_format format, const chosen_scaling& how, std::vector<std::int32_t> labels)
      : half_(std::move(half)), format_(std::move(format)), parts_(how.parts), pairs_(how.pairs), labels_(std::move(labels)) {}

  std::int64_t size() const override { return half_.end - half_.begin; }
  const data_format& format() const override { return format_; }
  std::int32_t label(std::uint32_t index) const override { return labels_.empty() ? 0 : labels_.at(index); }

  void gather(std::span<const std::uint32_t> indices, void* samples, void* labels) const override {
    const auto sample = format_.sample.elements(), own = format_.labels.elements();
    for (std::size_t i = 0; i < indices.size(); ++i) {
      const auto row = half_.begin + indices[i];
      TROUPE_ASSERT(row < half_.end);
      const auto at = static_cast<std::int64_t>(i);
      if (format_.type == dtype::i32)
        copy_row(half_.features, row, static_cast<std::int32_t*>(samples) + at * sample);
      else
        copy_scaled(row, static_cast<float*>(samples) + at * sample);
      if (!labels_.empty())
        static_cast<std::int32_t*>(labels)[i] = labels_[indices[i]];
      else if (format_.label_type == dtype::i32)
        copy_row(half_.labels, row, static_cast<std::int32_t*>(labels) + at * own);
      else
        copy_row(half_.labels, row, static_cast<float*>(labels) + at * own);
    }
  }

private:
  template <class T>
  static void copy_row(const stored_array& from, std::int64_t row, T* into) {
    const auto elements = from.row_elements();
    from.read(row * elements, std::span{into, static_cast<std::size_t>(elements)}).value();
  }

  void copy_scaled(std::int64_t row, float* into) const {
    copy_row(half_.features, row, into);
    for (const auto& [mean, factor] : pairs_)
      for (std::int64_t i = 0; i < parts_.inner; ++i, ++into)
        *into = static_cast<float>((*into - mean) * factor);
  }

  labelled_half half_;
  data_format format_;
  scaled_parts parts_;
  std::vector<scaling_pair> pairs_;
  std::vector<std::int32_t> labels_; ///< of single classes; empty: others
};

result<labelled_half> fit(stored_array features, stored_array labels) {
  if (features.extents.size() < 2)
    return features.fail(fmt::format("has rank {}; features are (rows, ...), (rows, columns) say", features.extents.size()));
  if (labels.extents.empty())
    return labels.fail("has rank 0; labels are (rows), or (rows, ...)");
  if (features.rows() != labels.rows())
    return labels.fail(
        fmt::format("has {} rows, and {} has {}; each sample has its labels", labels.rows(), features.name, features.rows()));
  if (features.rows() < 1 || features.row_elements() < 1 || labels.row_elements() < 1 || features.rows() > most_rows)
    return features.fail(fmt::format("has {} rows of {}; it takes 1 to {} rows that are not empty", features.rows(),
                                     row_shape(features).to_string(), most_rows));
  const auto rows = features.rows();
  return labelled_half{std::move(features), std::move(labels), 0, rows};
}

/// The last tenth for the test, where there is nothing else.
result<labelled_halves> halves_of(result<labelled_half> train, std::optional<result<labelled_half>> test) {
  if (!train)
    return train.error();
  if (!test) {
    if (train->end < 2)
      return train->features.fail("has one row, and the last tenth of the rows, at least one, is for the test");
    labelled_halves out{*train, *train};
    out.train.end = out.test.begin = train->end - std::max<std::int64_t>(train->end / 10, 1);
    return out;
  }
  if (!*test)
    return test->error();
  const auto compared = [](const stored_array& a, const stored_array& b) -> result<void> {
    if (row_shape(a) != row_shape(b) || a.type != b.type)
      return b.fail(fmt::format("rows are {} of {}, and those of {} are {} of {}", row_shape(b).to_string(), name_of(b.type),
                                a.name, row_shape(a).to_string(), name_of(a.type)));
    return {};
  };
  if (auto same = compared(train->features, (*test)->features); !same)
    return same.error();
  if (auto same = compared(train->labels, (*test)->labels); !same)
    return same.error();
  return labelled_halves{std::move(*train), std::move(**test)};
}

result<labelled_half> open_half(const std::string& features, const std::string& labels) {
  auto x = open_npy(features);
  if (!x)
    return x.error();
  auto y = open_npy(labels);
  if (!y)
    return y.error();
  return fit(std::move(*x), std::move(*y));
}

result<labelled_halves> open_npy_halves(const data_spec& spec) {
  if (spec.test_path.empty() != spec.test_labels_path.empty())
    return error{errc::bad_option, "data.test_path and data.test_labels_path belong together; give both or neither"};
  return halves_of(open_half(spec.path, spec.labels_path),
                   spec.test_path.empty() ? std::nullopt : std::optional{open_half(spec.test_path, spec.test_labels_path)});
}

result<labelled_halves> open_tensor_halves(const data_spec& spec) {
  const auto index = safetensors_file::open(spec.path);
  if (!index)
    return error{errc::bad_data, index.error().message};
  const auto file = data_file::open(spec.path);
  if (!file)
    return file.error();
  const auto& all = index->tensors();
  if (spec.path.ends_with(".json"))
    return (*file)->fail("is an index of several files; data.path names one that holds the tensors");
  const auto there = [&](const std::string& name) { return std::ranges::find(all, name, &stored_tensor::name); };
  const auto open = [&](const std::string& name) -> result<stored_array> {
    const auto found = there(name);
    if (found == all.end())
      return (*file)->fail(fmt::format(
          "has no tensor \"{}\"; it takes features and labels and, for the test, test_features and test_labels", name));
    const auto called = fmt::format("{}: tensor \"{}\"", spec.path, name);
    const auto type = array_type_named(found->type);
    if (!type)
      return error{errc::bad_data, fmt::format("{}: its elements are {}; it takes U8, I8, U16, I16, U32, I32, I64, F32 or F64",
                                               called, found->type)};
    const auto data_begin = (*file)->bytes() - all.back().end; // there is nothing behind the last
    return stored_array{*file, called, *type, found->dims.extents(), data_begin + found->begin};
  };
  const auto half = [&](const std::string& prefix) -> result<labelled_half> {
    auto x = open(prefix + "features");
    if (!x)
      return x.error();
    auto y = open(prefix + "labels");
    return y ? fit(std::move(*x), std::move(*y)) : y.error();
  };
  const bool tested = there("test_features") != all.end() || there("test_labels") != all.end();
  return halves_of(half(""), tested ? std::optional{half("test_")} : std::nullopt);
}

/// What rows hold, after one pass over them.
result<data_format> format_of(const labelled_halves& both) {
  data_format out{.sample = row_shape(both.train.features), .labels = row_shape(both.train.labels)};
  std::int32_t most_ids = 0, most_labels = 0;
  for (const auto* half : {&both.train, &both.test}) {
    if (holds_ids(half->features)) {
      const auto most = largest(half->features, half->begin, half->end, false);
      if (!most)
        return most.error();
      most_ids = std::max(most_ids, *most);
    } else if (auto finite = all_finite(half->features, half->begin, half->end); !finite) {
      return finite.error();
    }
    if (!is_real(half->labels.type)) {
      const auto most = largest(half->labels, half->begin, half->end, true);
      if (!most)
        return most.error();
      most_labels = std::max(most_labels, *most);
    } else if (auto finite = all_finite(half->labels, half->begin, half->end); !finite) {
      return finite.error();
    }
  }
  if (holds_ids(both.train.features)) {
    out.type = dtype::i32;
    out.ids = std::int64_t{most_ids} + 1;
  }
  if (is_real(both.train.labels.type))
    out.label_type = dtype::f32;
  else
    out.classes = most_labels + 1;
  return out;
}

} // namespace

result<data_pair> load_arrays(const data_spec& spec) {
  const auto both = spec.source == "npy" ? open_npy_halves(spec) : open_tensor_halves(spec);
  if (!both)
    return both.error();
  const auto format = format_of(*both);
  if (!format)
    return format.error();
  const auto how = choose_scaling(both->train, spec.scale);
  if (!how)
    return how.error();
  const auto made = [&](const labelled_half& half) -> result<std::shared_ptr<const data_set>> {
    std::vector<std::int32_t> labels;
    if (format->label_type == dtype::i32 && format->labels.rank() == 0) {
      labels.resize(static_cast<std::size_t>(half.end - half.begin));
      if (auto read = half.labels.read(half.begin, std::span{labels}); !read)
        return read.error();
    }
    return std::make_shared<array_set>(half, *format, *how, std::move(labels));
  };
  auto train = made(both->train), test = made(both->test);
  if (!train || !test)
    return train ? test.error() : train.error();
  return data_pair{.train = std::move(*train), .test = std::move(*test), .scaling = how->said};
}

} // namespace troupe
