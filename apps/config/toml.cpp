// SPDX-License-Identifier: BSD-3-Clause
// TOML documents with positions: the only source that includes toml++.
#include "apps/config/toml.hpp"

#include <algorithm>
#include <array>
#include <optional>
#include <stdexcept>
#include <utility>

#include <boost/throw_exception.hpp>
#include <fmt/format.h>
#include <toml++/toml.h>

#include "tensor/parse_number.hpp"

namespace troupe::config {

namespace {

position begin_of(const toml::source_region& region) {
  return {static_cast<int>(region.begin.line), static_cast<int>(region.begin.column)};
}

/// Escapes control characters: texts come from anywhere and go to a terminal, in lines.
std::string printable(std::string_view text) {
  std::string out;
  for (const char c : text)
    if (static_cast<unsigned char>(c) < ' ' || c == '\x7f')
      out += c == '\n' ? "\\n" : c == '\t' ? "\\t" : fmt::format("\\u{:04x}", static_cast<unsigned char>(c));
    else
      out += c;
  return out;
}

/// Cut short where it is long, and not in the middle of a UTF-8 character.
std::string shortened(const std::string& text) {
  constexpr std::size_t longest = 60;
  if (text.size() <= longest)
    return text;
  std::size_t end = longest - 3;
  while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xC0U) == 0x80U)
    --end;
  return text.substr(0, end) + "...";
}

/// A key, made fit for a message; a key of ours stays as it is.
std::string key_text(std::string_view key) {
  return key.empty() ? "\"\"" : shortened(printable(key));
}

/// As many as toml++ follows into brackets. It follows the dots of a key without end, and what walks the tables would run out of
/// stack.
constexpr int deepest = TOML_MAX_NESTED_VALUES;

toml_value convert(const toml::node& node, int depth);

toml_table convert_table(const toml::table& table, int depth) {
  toml_table entries;
  for (const auto& [key, node] : table) {
    if (depth > deepest)
      throw toml_error{begin_of(key.source()), fmt::format("tables are nested more than {} deep", deepest)};
    entries.push_back({key_text(key.str()), begin_of(key.source()), convert(node, depth + 1)});
  }
  // toml++ keeps its tables sorted by name; people read files from the top.
  std::stable_sort(entries.begin(), entries.end(), [](const auto& a, const auto& b) { return a.key_at < b.key_at; });
  return entries;
}

toml_value convert(const toml::node& node, int depth) {
  const position at = begin_of(node.source());
  if (const auto* b = node.as_boolean())
    return {b->get(), at};
  if (const auto* i = node.as_integer())
    return {i->get(), at};
  if (const auto* d = node.as_floating_point())
    return {d->get(), at};
  if (const auto* s = node.as_string())
    return {s->get(), at};
  if (const auto* table = node.as_table())
    return {convert_table(*table, depth), at};
  if (const auto* array = node.as_array()) {
    toml_array items;
    for (const toml::node& item : *array)
      items.push_back(convert(item, depth + 1));
    return {std::move(items), at};
  }
  return {toml_date{}, at};
}

} // namespace

void throw_exception_from_error(const toml_error& e, const boost::source_location& where) {
  boost::throw_with_location(std::runtime_error(fmt::format("{}:{}: {}", e.at.line, e.at.column, e.message)), where);
}

boost::system::result<toml_table, toml_error> parse_toml(std::string_view document) {
  try {
    return convert_table(toml::parse(document), 0);
  } catch (const toml_error& e) {
    return e;
  } catch (const toml::parse_error& e) {
    return toml_error{begin_of(e.source()), std::string(e.description())};
  }
}

namespace {

/// A number such as ".5" or "5.", which TOML does not take: it wants digits on both sides of the point.
std::optional<double> plain_number(std::string_view text) {
  if (text.find('.') == std::string_view::npos)
    return std::nullopt;
  return parse_number<double>(text.starts_with('+') ? text.substr(1) : text);
}

} // namespace

toml_value parse_toml_value(const std::string& text) {
  const auto parsed = parse_toml("value = " + text);
  // More than one entry: the text held a line break and a second assignment, which is no value.
  if (!parsed || parsed->size() != 1 || parsed->front().key != "value") {
    if (const auto number = plain_number(text))
      return {*number, {}};
    return {text, {}};
  }
  return parsed->front().value;
}

bool is_list_of_tables(const toml_value& v) {
  const auto* items = std::get_if<toml_array>(&v.held);
  return items != nullptr && !items->empty() && std::holds_alternative<toml_table>(items->front().held);
}

std::string_view type_name(const toml_value& v) {
  static constexpr std::array<std::string_view, 7> names{"true or false", "a whole number", "a number", "a text",
                                                         "a date",        "a list",         "a table"};
  return names[v.held.index()];
}

std::string as_argument(const toml_value& v) {
  const auto* text = std::get_if<std::string>(&v.held);
  return text == nullptr ? to_text(v) : shortened(printable(*text));
}

std::string to_text(const toml_value& v) {
  struct writer {
    std::string operator()(bool b) const { return b ? "true" : "false"; }
    std::string operator()(std::int64_t i) const { return fmt::format("{}", i); }
    std::string operator()(double d) const { // 64.0 is not the whole number 64
      const auto digits = fmt::format("{}", d);
      return digits.find_first_not_of("-0123456789") == std::string::npos ? digits + ".0" : digits;
    }
    std::string operator()(const std::string& s) const { return '"' + printable(s) + '"'; }
    std::string operator()(toml_date) const { return "(date or time)"; }
    std::string operator()(const toml_table&) const { return "{...}"; }
    std::string operator()(const toml_array& items) const {
      std::string text = "[";
      for (const toml_value& item : items)
        text += (text.size() > 1 ? ", " : "") + to_text(item);
      return text + "]";
    }
  };
  return shortened(std::visit(writer{}, v.held));
}

} // namespace troupe::config
