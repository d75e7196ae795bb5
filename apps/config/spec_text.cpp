// SPDX-License-Identifier: BSD-3-Clause
// `key=value,key=value`.
#include "apps/config/spec_text.hpp"

#include <algorithm>

namespace troupe::config {

std::vector<std::string> split_outside_brackets(std::string_view text, char separator) {
  std::vector<std::string> parts(1);
  int depth = 0;
  bool quoted = false;
  for (const char c : text) {
    if (c == '"')
      quoted = !quoted;
    else if (!quoted && (c == '[' || c == '{'))
      ++depth;
    else if (!quoted && (c == ']' || c == '}'))
      --depth;
    if (c == separator && depth <= 0 && !quoted)
      parts.emplace_back();
    else
      parts.back() += c;
  }
  return parts;
}

std::optional<toml_entry> parse_pair(const std::string& text) {
  const auto equals = text.find('=');
  if (equals == std::string::npos || equals == 0)
    return std::nullopt;
  return toml_entry{text.substr(0, equals), {}, parse_toml_value(text.substr(equals + 1))};
}

std::optional<toml_table> parse_spec(std::string_view text, char separator) {
  toml_table table;
  for (const std::string& part : split_outside_brackets(text, separator)) {
    auto entry = parse_pair(part);
    if (!entry || std::any_of(table.begin(), table.end(), [&](const auto& e) { return e.key == entry->key; }))
      return std::nullopt;
    table.push_back(std::move(*entry));
  }
  return table;
}

std::string to_spec(const toml_table& table) {
  std::string spec;
  for (const toml_entry& entry : table) {
    const auto* text = std::get_if<std::string>(&entry.value.held);
    spec += (spec.empty() ? "" : ",") + entry.key + "=" + (text != nullptr ? *text : to_text(entry.value));
  }
  return spec;
}

} // namespace troupe::config
