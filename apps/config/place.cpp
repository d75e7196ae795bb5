// SPDX-License-Identifier: BSD-3-Clause
// Problems in the order of the file, and files read whole.
#include "apps/config/place.hpp"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <sstream>
#include <tuple>

#include <fmt/format.h>

namespace troupe::config {

std::string problem_list::where(const place& p) const {
  return p.flag.empty() ? fmt::format("{}:{}:{}", file_, p.at.line, p.at.column) : p.flag;
}

refusal problem_list::take() {
  std::stable_sort(found_.begin(), found_.end(), [](const auto& a, const auto& b) {
    return std::tie(a.first.turn, a.first.at) < std::tie(b.first.turn, b.first.at);
  });
  refusal all;
  for (auto& [p, what] : found_)
    all.all.push_back({where(p), std::move(what)});
  found_.clear();
  return all;
}

checked<std::string> read_config_file(const std::string& path) {
  constexpr std::size_t most_bytes = 1U << 20U;
  errno = 0;
  std::ifstream file(path, std::ios::binary);
  std::string text(most_bytes + 1, '\0');
  file.read(text.data(), static_cast<std::streamsize>(text.size()));
  const auto got = file.gcount();
  if (got == 0 && !file.eof())
    return refusal{{{path, fmt::format("cannot be read: {}; give the path of a TOML file", std::strerror(errno))}}};
  if (static_cast<std::size_t>(got) > most_bytes)
    return refusal{{{path, "is larger than 1 MiB; a configuration is a small TOML file"}}};
  text.resize(static_cast<std::size_t>(got));
  return text;
}

checked<toml_table> parse_config_file(const std::string& path) {
  const auto text = read_config_file(path);
  if (!text)
    return text.error();
  auto parsed = parse_toml(*text);
  if (!parsed) {
    const auto& [at, what] = parsed.error();
    return refusal{{{fmt::format("{}:{}:{}", path, at.line, at.column),
                     fmt::format("this is not TOML: {}; a line is [section] or key = value, with texts in quotes", what)}}};
  }
  return std::move(*parsed);
}

} // namespace troupe::config
