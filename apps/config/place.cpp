// SPDX-License-Identifier: BSD-3-Clause
// Problems in the order of the file, and reading whole files.
#include "apps/config/place.hpp"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string_view>
#include <tuple>

#include <fmt/format.h>

#include "apps/config/suggest.hpp"

namespace troupe::config {

namespace {

/// The longest line: a dotted key of a file's length would nest as many tables.
constexpr std::size_t longest_line = 16U << 10U;
/// More problems than anyone reads at once.
constexpr std::size_t most_problems = 50;

/// A remedy for an error message of the TOML parser.
std::string toml_remedy(const std::string& message) {
  static const std::vector<std::pair<std::string_view, std::string_view>> remedies{
      {"utf-8", "save the file as UTF-8 text"},
      {"control characters", "a text ends on its line, with the same quote that begins it"},
      {"end-of-file", "close every quote, bracket and brace"},
      {"escape", R"(write a backslash twice, or the text in 'single' quotes)"},
      {"cannot redefine", "each key and each section may appear only once"},
      {"64 bits", "whole numbers go up to 9223372036854775807"},
      {"leading zeroes", "write the number without zeroes before it"},
      {"underscores", "an underscore is allowed only between two digits"},
      {"expected digit", "a number has only digits; its key gives the unit"},
      {"decimal digit", "a number is written 0.05 or 5e-2; an address is a text in quotes"},
      {"nested", "no value is nested more than four brackets deep"},
      {"month", "no key takes a date; a text is in quotes"},
      {"expected '='", "write key = value"},
      {"expected value", "write a value after the ="},
      {"value type", "a text is in quotes; any other value is a number, true or false"},
      {"boolean", "write true or false, in small letters"},
      {"'nan'", "leave out a key that has no value"},
      {"parsing array", "a list is in [ ], with commas between its items"},
      {"inline table", "a table in braces is on one line: {key = value, key = value}"},
      {"comment or whitespace", "write one key = value or one [section] per line"},
      {"table header", "a section is [name], a list of them [[name]]"},
  };
  for (const auto& [part, remedy] : remedies)
    if (message.find(part) != std::string::npos)
      return std::string{remedy};
  return "a line is [section] or key = value, with texts in quotes";
}

/// The file in the same folder that a path was likely meant for; empty: there is none.
std::string likely_path(const std::string& path) {
  namespace fs = std::filesystem;
  const fs::path missing(path), folder = missing.has_parent_path() ? missing.parent_path() : fs::path(".");
  constexpr int most_looked_at = 1000;
  std::error_code unknown;
  std::vector<std::string> names;
  for (fs::directory_iterator at(folder, unknown), end; !unknown && at != end && std::ssize(names) < most_looked_at;
       at.increment(unknown))
    if (at->path().extension() == ".toml")
      names.push_back(at->path().filename().string());
  std::ranges::sort(names); // a folder has no order of its own
  const std::string likely = nearest(missing.filename().string(), names);
  return likely.empty() ? "" : (missing.parent_path() / likely).string();
}

} // namespace

std::string problem_list::where(const place& p) const {
  return p.flag.empty() ? fmt::format("{}:{}:{}", file_, p.at.line, p.at.column) : p.flag;
}

refusal problem_list::take() {
  std::stable_sort(found_.begin(), found_.end(), [](const auto& a, const auto& b) {
    return std::tie(a.first.turn, a.first.at) < std::tie(b.first.turn, b.first.at);
  });
  refusal all;
  const auto left_out = found_.size() - std::min(found_.size(), most_problems);
  found_.resize(found_.size() - left_out);
  for (auto& [p, message] : found_)
    all.all.push_back({where(p), std::move(message)});
  if (left_out != 0)
    all.all.back().message += fmt::format(" (and {} more problems; fix these first)", left_out);
  found_.clear();
  return all;
}

checked<std::string> read_config_file(const std::string& path) {
  constexpr std::size_t most_bytes = 1U << 20U;
  std::error_code unknown;
  const auto type = std::filesystem::status(path, unknown).type();
  const bool handed = path.starts_with("/dev/") || path.starts_with("/proc/"); // a shell's <(...), or standard input
  if (!handed && (type == std::filesystem::file_type::fifo || type == std::filesystem::file_type::socket))
    return refusal{{{path, "is a pipe, which may never be written; give the path of a TOML file"}}};
  errno = 0;
  std::ifstream file(path, std::ios::binary);
  std::string text(most_bytes + 1, '\0');
  file.read(text.data(), static_cast<std::streamsize>(text.size()));
  const auto got = file.gcount();
  const int why = errno;
  if (const std::string likely = file.is_open() || why != ENOENT ? "" : likely_path(path); !likely.empty())
    return refusal{{{path, fmt::format("there is no such file; did you mean {}?", likely)}}};
  if (got == 0 && !file.eof())
    return refusal{{{path, fmt::format("cannot be read: {}; give the path of a TOML file", std::strerror(why))}}};
  if (static_cast<std::size_t>(got) > most_bytes)
    return refusal{{{path, "is larger than 1 MiB; a configuration is a small TOML file"}}};
  text.resize(static_cast<std::size_t>(got));
  return text;
}

checked<toml_table> parse_config_file(const std::string& path) {
  const auto text = read_config_file(path);
  if (!text)
    return text.error();
  const auto refuse = [&](position at, std::string message) {
    return refusal{{{fmt::format("{}:{}:{}", path, at.line, at.column), std::move(message)}}};
  };
  int line = 1;
  for (std::size_t begin = 0; begin < text->size(); ++line) {
    const auto end = std::min(text->find('\n', begin), text->size());
    if (end - begin > longest_line)
      return refuse({line, static_cast<int>(longest_line) + 1},
                    "this line is longer than 16 kB; break the list into lines, or check that this is a configuration file");
    begin = end + 1;
  }
  auto parsed = parse_toml(*text);
  if (!parsed)
    return refuse(parsed.error().at,
                  fmt::format("this is not TOML: {}; {}", parsed.error().message, toml_remedy(parsed.error().message)));
  return std::move(*parsed);
}

} // namespace troupe::config
