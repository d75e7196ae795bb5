// SPDX-License-Identifier: BSD-3-Clause
// Characters of UTF-8, and their ids.
#include "tensor/data/vocabulary.hpp"

#include <algorithm>
#include <numeric>
#include <utility>

#include <fmt/format.h>

namespace troupe {

namespace {

std::string utf8_of(std::uint32_t point) {
  const auto continued = [point](int shift) { return static_cast<char>(0x80 | (point >> shift & 0x3F)); };
  if (point < 0x80)
    return {static_cast<char>(point)};
  if (point < 0x800)
    return {static_cast<char>(0xC0 | point >> 6), continued(0)};
  if (point < 0x10000)
    return {static_cast<char>(0xE0 | point >> 12), continued(6), continued(0)};
  return {static_cast<char>(0xF0 | point >> 18), continued(12), continued(6), continued(0)};
}

} // namespace

utf8_character first_character(std::string_view text) {
  const auto at = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const std::uint32_t first = at(0);
  if (first < 0x80)
    return {first, 1};
  const std::size_t size = first >= 0xC2 && first < 0xE0   ? 2
                           : first >= 0xE0 && first < 0xF0 ? 3
                           : first >= 0xF0 && first < 0xF5 ? 4
                                                           : 0;
  if (size == 0 || size > text.size())
    return {};
  std::uint32_t point = first & (0x7FU >> size);
  for (std::size_t i = 1; i < size; ++i) {
    if (at(i) < 0x80 || at(i) > 0xBF)
      return {};
    point = point << 6 | (at(i) & 0x3FU);
  }
  const bool overlong = point < (size == 3 ? 0x800U : size == 4 ? 0x10000U : 0x80U);
  const bool beyond = (point >= 0xD800 && point < 0xE000) || point > 0x10FFFF; // surrogates; above Unicode
  return overlong || beyond ? utf8_character{} : utf8_character{point, size};
}

vocabulary vocabulary::of_bytes() {
  vocabulary out;
  std::iota(out.low_.begin(), out.low_.end(), 0);
  return out;
}

vocabulary vocabulary::of_characters(std::vector<std::uint32_t> points) {
  vocabulary out;
  out.points_ = std::move(points);
  for (std::size_t id = 0; id < out.points_.size() && out.points_[id] < out.low_.size(); ++id)
    out.low_[out.points_[id]] = static_cast<std::int32_t>(id);
  return out;
}

result<vocabulary> vocabulary::of_characters(std::span<const std::string> characters) {
  std::vector<std::uint32_t> points;
  for (const auto& text : characters) {
    const auto [point, bytes] = text.empty() ? utf8_character{} : first_character(text);
    if (bytes == 0 || bytes != text.size())
      return error{errc::bad_data, fmt::format("id {} of the vocabulary is not one character", points.size())};
    if (!points.empty() && point <= points.back())
      return error{errc::bad_data, fmt::format("id {} of the vocabulary is not behind the one before it", points.size())};
    points.push_back(point);
  }
  if (points.empty())
    return error{errc::bad_data, "the vocabulary is empty"};
  return of_characters(std::move(points));
}

std::int32_t vocabulary::id_of_high(std::uint32_t point) const {
  const auto found = std::ranges::lower_bound(points_, point);
  return found != points_.end() && *found == point ? static_cast<std::int32_t>(found - points_.begin()) : -1;
}

result<std::vector<std::int32_t>> vocabulary::ids(std::string_view text) const {
  std::vector<std::int32_t> out;
  for (std::size_t at = 0; at < text.size();) {
    const auto [point, bytes] =
        has_bytes() ? utf8_character{static_cast<unsigned char>(text[at]), 1} : first_character(text.substr(at));
    if (bytes == 0)
      return error{errc::bad_data, fmt::format("byte {} is in no character of UTF-8", at)};
    out.push_back(id_of(point));
    if (out.back() < 0)
      return error{errc::bad_data, fmt::format("the character \"{}\", U+{:04X}, is not among the {} of the vocabulary",
                                               text.substr(at, bytes), point, size())};
    at += bytes;
  }
  return out;
}

std::string vocabulary::text(std::int32_t id) const {
  return has_bytes() ? std::string(1, static_cast<char>(id)) : utf8_of(points_[static_cast<std::size_t>(id)]);
}

std::vector<std::string> vocabulary::characters() const {
  std::vector<std::string> out(points_.size());
  std::ranges::transform(points_, out.begin(), utf8_of);
  return out;
}

} // namespace troupe
