// SPDX-License-Identifier: BSD-3-Clause
// Keys: one line each says what a key accepts, what it means and where it goes. Parsing, listings and results follow it.
#pragma once

#include <algorithm>
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

/// A whole number, and a number: the same ranges as those of protocols' parameters.
using integer = protocols::integer_range;
using real = protocols::real_range;
/// A text: any, or one of `choices`; those in `planned` are not implemented yet.
struct text {
  std::vector<std::string> choices, planned;
  std::string (*wrong)(const std::string&) = nullptr; ///< "is empty; it takes ...": why one is refused; empty: it is not
};
/// "cpu", "cuda" or "cuda:N".
struct device {};
/// true or false.
struct boolean {};
/// A list of texts: any, or each one of `choices`.
struct text_list {
  std::vector<std::string> choices;
};
/// A list of devices.
struct device_list {};
/// A list of whole numbers.
struct integer_list {
  std::int64_t least = 0, most = no_limit;
};
/// A whole number, or a word for one that is out of its range.
struct integer_or_word {
  integer range;
  std::string word;
  std::int64_t stands_for = 0;
};
struct table_key;
/// Tables with their own keys, or the same as SPECs; job_inject.cpp reads them.
struct tables {
  std::vector<table_key> keys;
};

using domain = std::variant<integer, real, text, device, boolean, text_list, device_list, integer_list, integer_or_word, tables>;

/// One key of such a table.
struct table_key {
  std::string name;
  domain accepts;
  std::string meaning;
};

/// The values of a domain, as a phrase: "a whole number from 1 to 256".
std::string expected(const domain& accepts);
/// The same for programs: `type`, and where they apply `least` and `most`, `above` and `below` for open ends of a range,
/// `choices`, and the `keys` of tables.
boost::json::object to_json(const domain& accepts);

/// A value that a domain accepts, or a complaint to follow the key's name and value: "is a text; it takes ...".
struct reading {
  value accepted;
  std::string wrong;
};
reading read_value(const toml_value& from, const domain& accepts);

/// One key of a file that fills a Target.
template <class Target>
struct key_info {
  std::string section, name;
  domain accepts;
  std::string meaning;
  bool optional = false; ///< has no value unless given: its field's initial value means "does not apply"
  std::function<void(Target&, const value&)> set;
  std::function<value(const Target&)> get;

  std::string full_name() const { return section.empty() ? name : section + "." + name; }
};

/// The key of that name in that section, or null.
template <class Target>
const key_info<Target>* find_key(const std::vector<key_info<Target>>& keys, const std::string& section, const std::string& name) {
  const auto found = std::ranges::find_if(keys, [&](const auto& key) { return key.section == section && key.name == name; });
  return found == keys.end() ? nullptr : &*found;
}
/// The names of a section's keys.
template <class Target>
std::vector<std::string> names_in(const std::vector<key_info<Target>>& keys, const std::string& section) {
  std::vector<std::string> names;
  for (const auto& key : keys)
    if (key.section == section && !key.name.empty())
      names.push_back(key.name);
  return names;
}

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

/// A value as the domain spells it.
inline value spelled(const value& v, const domain& in) {
  const auto* either = std::get_if<integer_or_word>(&in);
  return either != nullptr && v == value{either->stands_for} ? value{either->word} : v;
}

/// A key whose value lives in the field that `access` picks out of a Target.
template <class Target, class Access>
key_info<Target> key_of(std::string section, std::string name, domain accepts, Access access, std::string meaning,
                        bool optional = false) {
  return {std::move(section),
          std::move(name),
          accepts,
          std::move(meaning),
          optional,
          [access](Target& t, const value& v) { store(access(t), v); },
          [access, accepts](const Target& t) { return spelled(load(access(t)), accepts); }};
}

/// The field `path` of the Target, for key_of.
#define TROUPE_FIELD(path)                                                                                                       \
  [](auto& target) -> auto& {                                                                                                    \
    return target.path;                                                                                                          \
  }

} // namespace troupe::config
