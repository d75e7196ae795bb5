// SPDX-License-Identifier: BSD-3-Clause
// A number that is a whole text.
#pragma once

#include <charconv>
#include <optional>
#include <string_view>
#include <system_error>

namespace troupe {

/// The number that all of `text` spells, as std::from_chars reads it; nothing where it spells none or one that is out of range.
template <class Number>
std::optional<Number> parse_number(std::string_view text) {
  Number number{};
  const auto [end, failed] = std::from_chars(text.data(), text.data() + text.size(), number);
  return failed == std::errc{} && end == text.data() + text.size() ? std::optional{number} : std::nullopt;
}

} // namespace troupe
