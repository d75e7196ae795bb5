// SPDX-License-Identifier: BSD-3-Clause
// The likely name behind a misspelt one.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace troupe::config {

/// Insertions, deletions, substitutions and swaps of neighbours that turn `a` into `b` (optimal string alignment,
/// Damerau 1964); letter case costs nothing.
std::size_t edit_distance(std::string_view a, std::string_view b);

/// The name nearest to `misspelt`, the first of equals, or an empty string where none is near: at most one edit in three
/// letters, or one is the beginning of the other.
std::string nearest(std::string_view misspelt, const std::vector<std::string>& names);

/// "; did you mean NAME?", to follow a complaint; empty where `likely` is.
std::string did_you_mean(const std::string& likely);

} // namespace troupe::config
