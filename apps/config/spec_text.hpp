// SPDX-License-Identifier: BSD-3-Clause
// `key=value,key=value`: how the command line writes what is a table in a file.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "apps/config/toml.hpp"

namespace troupe::config {

/// The parts of `text` between separators; one inside brackets or double quotes separates nothing. Of "" one part, empty.
std::vector<std::string> split_outside_brackets(std::string_view text, char separator);

/// `key=value`, the value TOML or else a text; nothing where there is no `=` or no key before it.
std::optional<toml_entry> parse_pair(const std::string& text);

/// A SPEC: pairs separated by `separator`; nothing where one of them is none, or a key comes twice.
std::optional<toml_table> parse_spec(std::string_view text, char separator = ',');

/// A table as a SPEC: `worker=1,factor=5`.
std::string to_spec(const toml_table& table);

} // namespace troupe::config
