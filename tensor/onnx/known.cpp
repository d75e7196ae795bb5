// SPDX-License-Identifier: BSD-3-Clause
// Known arrays and attributes.
#include "tensor/onnx/known.hpp"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

namespace troupe::onnx {

namespace {

template <class T>
const T* attribute_of(const node& n, const std::string& name) {
  const auto found = std::ranges::find(n.attributes, name, &attribute::name);
  return found == n.attributes.end() ? nullptr : std::get_if<T>(&found->value);
}

} // namespace

misfit not_a_multiple_of_rows() {
  return {"computes with the number of rows in a way that is not its multiple; keep the rows apart from other axes"};
}

std::optional<double> known::uniform() const {
  if (data.empty() || std::ranges::count(rows, true) != 0
      || std::ranges::any_of(data, [this](double each) { return each != data[0]; }))
    return std::nullopt;
  return data[0];
}

known known_of(const tensor& from) {
  known out;
  out.dims = from.dims;
  out.is_float = from.is_float();
  if (out.is_float)
    out.data.assign(from.floats.begin(), from.floats.end());
  else
    out.data.assign(from.integers.begin(), from.integers.end());
  return out;
}

known known_scalar(double value, bool is_float) {
  known out;
  out.is_float = is_float;
  out.data = {value};
  return out;
}

std::size_t axis_of(std::int64_t axis, std::size_t rank) {
  const auto own = axis < 0 ? axis + static_cast<std::int64_t>(rank) : axis;
  if (own < 0 || own >= static_cast<std::int64_t>(rank))
    throw misfit{fmt::format("names axis {} of {}", axis, rank)};
  return static_cast<std::size_t>(own);
}

std::vector<std::int64_t> integers_of(const known& list) {
  std::vector<std::int64_t> out;
  for (std::size_t i = 0; i < list.data.size(); ++i) {
    if (list.counts_rows(i))
      throw not_a_multiple_of_rows();
    if (!(std::abs(list.data[i]) < 9e18))
      throw misfit{fmt::format("has a number of {:.0f}, which is too large", list.data[i])};
    out.push_back(static_cast<std::int64_t>(list.data[i]));
  }
  return out;
}

taken slice_of(double begin, double end, std::int64_t extent) {
  const auto n = static_cast<double>(extent);
  const auto place = [n](double at) { return std::clamp(at < 0 ? at + n : at, 0.0, n); };
  const double from = place(begin), to = place(end);
  return {static_cast<std::int64_t>(from), static_cast<std::int64_t>(std::max(0.0, to - from))};
}

std::int64_t integer_attribute(const node& n, const std::string& name, std::int64_t fallback) {
  const auto* found = attribute_of<std::int64_t>(n, name);
  return found != nullptr ? *found : fallback;
}

float float_attribute(const node& n, const std::string& name, float fallback) {
  const auto* found = attribute_of<float>(n, name);
  return found != nullptr ? *found : fallback;
}

std::string text_attribute(const node& n, const std::string& name, const std::string& fallback) {
  const auto* found = attribute_of<std::string>(n, name);
  return found != nullptr ? *found : fallback;
}

std::optional<std::vector<std::int64_t>> integers_attribute(const node& n, const std::string& name) {
  const auto* found = attribute_of<std::vector<std::int64_t>>(n, name);
  return found != nullptr ? std::optional{*found} : std::nullopt;
}

const tensor* tensor_attribute(const node& n, const std::string& name) {
  return attribute_of<tensor>(n, name);
}

} // namespace troupe::onnx
