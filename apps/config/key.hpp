// SPDX-License-Identifier: BSD-3-Clause
// Keys: one line each says what a key accepts, what it means and where it goes. Parsing, listings and results follow it.
#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include "apps/config/toml.hpp"
#include "apps/config/value.hpp"
#include "protocols/parameters.hpp"

namespace troupe::config {

inline constexpr std::int64_t no_limit = std::numeric_limits<std::int64_t>::max();

/// A whole number, and a number, as parameters of protocols are declared.
using whole = protocols::integer_range;
using real = protocols::real_range;
/// A text: any, or one of `choices`; those in `later` are designed and not there yet.
struct text {
  std::vector<std::string> choices, later;
  std::string (*wrong)(const std::string&) = nullptr; ///< "is empty; it takes ...": what is wrong with one; empty: nothing
};
/// "cpu", "cuda" or "cuda:N".
struct device {};
/// true or false.
struct flag {};
/// A list of texts: any, or each one of `choices`.
struct texts {
  std::vector<std::string> choices;
};
/// A list of devices.
struct devices {};
/// A list of whole numbers.
struct wholes {
  std::int64_t least = 0, most = no_limit;
};
struct table_key;
/// Tables with keys of their own, or their SPECs; whoever owns them reads them.
struct tables {
  std::vector<table_key> keys;
};
/// A key, or with an empty name a whole section, that is designed and not there yet.
struct later {};

using domain = std::variant<whole, real, text, device, flag, texts, devices, wholes, tables, later>;

/// One key of such a table.
struct table_key {
  std::string name;
  domain accepts;
  std::string meaning;
};

/// What a domain accepts, as a phrase: "a whole number from 1 to 256".
std::string expected(const domain& accepts);
/// The same for programs: `type`, and where they apply `least` and `most`, `above` and `below` for ends that do not belong to the
/// range, `choices`, and the `keys` of tables.
boost::json::object to_json(const domain& accepts);

/// A value that a domain accepts, or what is wrong with it: "is a text; it takes ...", to follow the key's name and value.
struct reading {
  value what;
  std::string wrong;
};
reading read_value(const toml_value& from, const domain& accepts);

/// One key of a file that fills a Target.
template <class Target>
struct key_info {
  std::string section, name;
  domain accepts;
  std::string meaning;
  bool optional = false; ///< nothing unless given: its field's initial value means "does not apply"
  std::function<void(Target&, const value&)> set;
  std::function<value(const Target&)> get;

  std::string full_name() const { return section.empty() ? name : name.empty() ? section : section + "." + name; }
};

/// A field's value as a key's and back; overload both for an enumeration.
template <class Field>
void store(Field& field, const value& v) {
  if constexpr (std::is_integral_v<Field> && !std::is_same_v<Field, bool>)
    field = static_cast<Field>(std::get<std::int64_t>(v)); // its domain says that it fits
  else
    field = std::get<Field>(v);
}
template <class Field>
value load(const Field& field) {
  if constexpr (std::is_integral_v<Field> && !std::is_same_v<Field, bool>)
    return static_cast<std::int64_t>(field);
  else
    return field;
}

/// A key whose value lives in the field that `access` picks out of a Target.
template <class Target, class Access>
key_info<Target> key_of(std::string section, std::string name, domain accepts, Access access, std::string meaning,
                        bool optional = false) {
  return {std::move(section),
          std::move(name),
          std::move(accepts),
          std::move(meaning),
          optional,
          [access](Target& t, const value& v) { store(access(t), v); },
          [access](const Target& t) { return load(access(t)); }};
}

/// A key or section that is not there yet.
template <class Target>
key_info<Target> later_key(std::string section, std::string name, std::string meaning) {
  return {std::move(section), std::move(name), later{}, std::move(meaning), true, {}, {}};
}

} // namespace troupe::config
