// SPDX-License-Identifier: BSD-3-Clause
// One TOML table, read by a table of keys: for tables that a file may hold many times.
#pragma once

#include <map>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "apps/config/key.hpp"
#include "apps/config/place.hpp"
#include "apps/config/suggest.hpp"

namespace troupe::config {

/// The place of something at `at`: in the file, or in the flag that `origin` names.
inline place place_in(const place& origin, position at) {
  return origin.flag.empty() ? place{at, "", 0} : origin;
}

/// Reads the entries of one table by the keys of its section into `target`. Returns the place of each value, also of refused and
/// misspelt ones, so that they are not reported as missing too. `origin` says whether the table is in the file.
template <class Target>
std::map<std::string, place> read_table(problem_list& problems, const std::vector<key_info<Target>>& keys,
                                        const std::string& section, const toml_table& entries, Target& target,
                                        const place& origin = {}) {
  std::map<std::string, place> given;
  for (const toml_entry& entry : entries) {
    const auto* key = find_key(keys, section, entry.key);
    const std::string full_name = section.empty() ? entry.key : section + "." + entry.key;
    if (key == nullptr) {
      const auto siblings = names_in(keys, section);
      const std::string likely = nearest(entry.key, siblings);
      const place at = place_in(origin, entry.key_at);
      problems.add(at, likely.empty() ? fmt::format("unknown key {}; there are {}", full_name, fmt::join(siblings, ", "))
                                      : fmt::format("unknown key {}; did you mean {}?", full_name, likely));
      given[likely] = at;
      continue;
    }
    const place at = place_in(origin, entry.value.at);
    given[entry.key] = at;
    const reading read = read_value(entry.value, key->accepts);
    if (read.wrong.empty())
      key->set(target, read.accepted);
    else
      problems.add(at, fmt::format("{} = {} {}", full_name, to_text(entry.value), read.wrong));
  }
  return given;
}

} // namespace troupe::config
