// SPDX-License-Identifier: BSD-3-Clause
// A TOML document with the position of everything in it. The parser itself is included by one source: it is slow to compile.
#pragma once

#include <compare>
#include <cstdint>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include <boost/system/result.hpp>

namespace troupe::config {

/// Line and column, from 1; {0, 0}: nowhere.
struct position {
  int line = 0, column = 0;
  friend auto operator<=>(const position&, const position&) = default;
};

struct toml_value;
struct toml_entry;
using toml_array = std::vector<toml_value>;
/// Entries in the order of the file.
using toml_table = std::vector<toml_entry>;
/// A date, a time or both, which no key of ours takes.
struct toml_date {};

struct toml_value {
  std::variant<bool, std::int64_t, double, std::string, toml_date, toml_array, toml_table> held;
  position at;
};

struct toml_entry {
  std::string key;
  position key_at;
  toml_value value;
};

/// A TOML array that is not empty and begins with a table: [[name]].
bool is_list_of_tables(const toml_value& v);

struct toml_error {
  position at;
  std::string message;
};

[[noreturn]] void throw_exception_from_error(const toml_error& e, const boost::source_location& where);

/// Parses a document; the error is the first thing that is not TOML.
boost::system::result<toml_table, toml_error> parse_toml(std::string_view document);

/// Parses the value of a --set: TOML, a number as C writes it (".05", "5."), or else the text as it stands.
toml_value parse_toml_value(const std::string& text);

/// "a text", "a whole number", "a list": for messages.
std::string_view type_name(const toml_value& v);

/// The value as the command line would have it: a text without its quotes.
std::string as_argument(const toml_value& v);

/// The value as TOML spells it, cut short where it is long.
std::string to_text(const toml_value& v);

} // namespace troupe::config
