// SPDX-License-Identifier: BSD-3-Clause
// `troupe weights`: what files of weights hold, how far two are apart, and the same under other names.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <boost/json.hpp>
#include <fmt/format.h>

#include "apps/report.hpp"
#include "apps/weights_file.hpp"
#include "tensor/safetensors.hpp"
#include "tensor/weights_names.hpp"

namespace troupe::apps {

namespace {

namespace json = boost::json;

exit_code fail(const error& why) {
  fmt::print(stderr, "troupe: {}\n", why.message);
  return exit_failed;
}

exit_code list_tensors(const weights_options& options, const safetensors_file& file) {
  std::vector<std::vector<std::string>> rows{{"tensor", "type", "shape", "bytes"}};
  json::array tensors;
  std::uint64_t bytes = 0;
  std::int64_t elements = 0;
  for (const stored_tensor& each : file.tensors()) {
    rows.push_back({each.name, each.type, each.dims.to_string(), std::to_string(each.bytes())});
    tensors.push_back(
        {{"name", each.name}, {"type", each.type}, {"shape", json::value_from(each.dims.extents())}, {"bytes", each.bytes()}});
    bytes += each.bytes();
    elements += each.dims.elements();
  }
  if (options.json) {
    print_json({{"file", options.file},
                {"elements", elements},
                {"bytes", bytes},
                {"metadata", json::value_from(file.metadata())},
                {"tensors", std::move(tensors)}});
    return exit_done;
  }
  fmt::print("{}{}, {} elements, {}\n", table(rows), counted(file.tensors().size(), "tensor"), elements,
             bytes_text(static_cast<double>(bytes)));
  for (const auto& [key, text] : file.metadata())
    fmt::print("{}: {}\n", key, text);
  return exit_done;
}

/// How far two tensors of one shape are apart.
struct distance {
  double largest = 0;  ///< |a - b| of an element
  double relative = 0; ///< |a - b| / |b|, of the whole
  bool equal = true;   ///< in every bit
};

distance between(const std::vector<float>& a, const std::vector<float>& b) {
  distance out;
  double apart = 0, size = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    const double by = std::abs(static_cast<double>(a[i]) - b[i]);
    out.largest = by <= out.largest ? out.largest : by; // what is not a number counts as larger
    out.equal = out.equal && a[i] == b[i] && std::signbit(a[i]) == std::signbit(b[i]);
    apart += by * by;
    size += static_cast<double>(b[i]) * b[i];
  }
  out.relative = apart == 0 ? 0 : std::sqrt(apart / size);
  return out;
}

result<std::vector<float>> values_of(const safetensors_file& file, const named_tensor& tensor) {
  std::vector<float> out(static_cast<std::size_t>(tensor.dims.elements()));
  if (auto read = read_tensor(file, tensor, out.data()); !read)
    return read.error();
  return out;
}

/// What `troupe weights diff` finds.
struct difference {
  std::vector<std::vector<std::string>> rows{{"tensor", "largest difference", "of its norm"}};
  json::array tensors, only_in_file, only_in_other;
  bool equal = true;

  result<void> add(const safetensors_file& file, const named_tensor& ours, const safetensors_file& other,
                   const named_tensor* theirs) {
    if (theirs == nullptr) {
      equal = false;
      rows.push_back({ours.name, "only in the first", ""});
      only_in_file.emplace_back(ours.name);
      return {};
    }
    if (ours.dims != theirs->dims) {
      equal = false;
      rows.push_back({ours.name, fmt::format("{} and {}", ours.dims.to_string(), theirs->dims.to_string()), ""});
      tensors.push_back({{"name", ours.name},
                         {"shape", json::value_from(ours.dims.extents())},
                         {"other_shape", json::value_from(theirs->dims.extents())}});
      return {};
    }
    const auto a = values_of(file, ours), b = values_of(other, *theirs);
    if (!a || !b)
      return a ? b.error() : a.error();
    const distance apart = between(*a, *b);
    if (apart.equal)
      return {};
    equal = false;
    rows.push_back({ours.name, fmt::format("{:.3g}", apart.largest), fmt::format("{:.3g}", apart.relative)});
    tensors.push_back({{"name", ours.name},
                       {"largest_difference", finite_or_null(apart.largest)},
                       {"relative_difference", finite_or_null(apart.relative)}});
    return {};
  }
};

exit_code diff(const weights_options& options, const safetensors_file& file) {
  const auto other = safetensors_file::open(options.other);
  if (!other)
    return fail(other.error());
  const auto ours = named_tensors(file), theirs = named_tensors(*other);
  if (!ours || !theirs)
    return fail(ours ? theirs.error() : ours.error());
  difference found;
  for (const named_tensor& each : *ours) {
    const auto match = std::ranges::find(*theirs, each.name, &named_tensor::name);
    if (auto read = found.add(file, each, *other, match == theirs->end() ? nullptr : &*match); !read)
      return fail(read.error());
  }
  for (const named_tensor& each : *theirs)
    if (std::ranges::find(*ours, each.name, &named_tensor::name) == ours->end()) {
      found.equal = false;
      found.rows.push_back({each.name, "only in the second", ""});
      found.only_in_other.emplace_back(each.name);
    }
  if (options.json)
    print_json({{"file", options.file},
                {"other", options.other},
                {"equal", found.equal},
                {"only_in_file", std::move(found.only_in_file)},
                {"only_in_other", std::move(found.only_in_other)},
                {"tensors", std::move(found.tensors)}});
  else if (found.equal)
    fmt::print("equal: {}\n", counted(ours->size(), "tensor"));
  else
    fmt::print("{}", table(found.rows));
  return found.equal ? exit_done : exit_failed;
}

exit_code convert(const weights_options& options, const safetensors_file& file) {
  if (const auto why = cannot_write(options.to); !why.empty())
    return refuse({{{"--to", why}}});
  const auto named = named_tensors(file);
  if (!named)
    return fail(named.error());
  const std::map<std::string, stored_type> types{
      {"f32", stored_type::f32}, {"f16", stored_type::f16}, {"bf16", stored_type::bf16}};
  std::vector<std::vector<float>> values;
  std::vector<tensor_to_save> tensors;
  for (const named_tensor& each : *named) {
    auto read = values_of(file, each);
    if (!read)
      return fail(read.error());
    values.push_back(std::move(*read));
    tensors.push_back({each.name, each.dims, values.back().data(), types.at(options.type)});
  }
  auto metadata = file.metadata();
  if (auto renamed = with_names(options.names, tensors, metadata); !renamed.empty())
    return refuse({{{"--names", fmt::format("{}: {}", options.file, renamed)}}});
  if (const auto saved = save_safetensors(options.to, tensors, metadata); !saved)
    return fail(saved.error());
  const auto left_out = file.tensors().size() - tensors.size();
  if (options.json)
    print_json({{"file", options.file}, {"to", options.to}, {"tensors", tensors.size()}, {"left_out", left_out}});
  else
    fmt::print("{}: {}{}\n", options.to, counted(tensors.size(), "tensor"),
               left_out == 0 ? "" : fmt::format("; {} left out: masks, counters or the table again", counted(left_out, "other")));
  return exit_done;
}

} // namespace

int execute(const weights_options& options) {
  const auto file = safetensors_file::open(options.file);
  if (!file)
    return fail(file.error());
  switch (options.action) {
  case weights_options::verb::list:
    return list_tensors(options, *file);
  case weights_options::verb::diff:
    return diff(options, *file);
  case weights_options::verb::convert:
    return convert(options, *file);
  }
  return exit_usage;
}

} // namespace troupe::apps
