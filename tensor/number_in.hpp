// SPDX-License-Identifier: BSD-3-Clause
// Numbers in text.
#pragma once

#include <charconv>
#include <optional>
#include <string_view>
#include <system_error>

namespace troupe {

/// The number that the whole text is, or nothing.
template <class Number>
std::optional<Number> number_in(std::string_view text) {
  Number value{};
  const char* const end = text.data() + text.size();
  const auto [stopped_at, wrong] = std::from_chars(text.data(), end, value);
  return wrong == std::errc{} && stopped_at == end ? std::optional{value} : std::nullopt;
}

} // namespace troupe
