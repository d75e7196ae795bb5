// SPDX-License-Identifier: BSD-3-Clause
// `key=value,key=value`: a table of a file, as the command line writes it.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "apps/config/toml.hpp"

namespace troupe::config {

/// The parts of `text` between separators outside brackets and double quotes. "" has one part, which is empty.
std::vector<std::string> split_outside_brackets(std::string_view text, char separator);

/// `key=value`, where the value is TOML or else a text; nothing without `=` or without a key before it.
std::optional<toml_entry> parse_pair(const std::string& text);

/// A SPEC: pairs separated by `separator`; nothing where one of them is not a pair, or a key comes twice.
std::optional<toml_table> parse_spec(std::string_view text, char separator = ',');

/// A table as a SPEC: `worker=1,factor=5`.
std::string to_spec(const toml_table& table);

} // namespace troupe::config
