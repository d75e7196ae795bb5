// SPDX-License-Identifier: BSD-3-Clause
// Problems in the order of the file, and files read whole.
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

/// Of a line: a dotted key as long as the file would be as many tables in each other.
constexpr std::size_t longest_line = 16U << 10U;
/// More than anybody reads at once.
constexpr std::size_t most_problems = 50;

/// What would be TOML, from how the parser says that something is not.
std::string toml_remedy(const std::string& what) {
  static const std::vector<std::pair<std::string_view, std::string_view>> remedies{
      {"utf-8", "save the file as UTF-8 text"},
      {"control characters", "a text ends on its line, with the quote that it began with"},
      {"end-of-file", "what is opened has to be closed: quotes, brackets, braces"},
      {"escape", R"(write a backslash twice, or the text in 'single' quotes)"},
      {"cannot redefine", "each key and each section stands once; put what belongs together in one place"},
      {"64 bits", "whole numbers go up to 9223372036854775807"},
      {"leading zeroes", "write the number without zeroes before it"},
      {"underscores", "one underscore may stand between two digits"},
      {"expected digit", "a number is digits alone; the unit is that of its key"},
      {"decimal digit", "a number is written 0.05 or 5e-2, and an address is a text, in quotes"},
      {"nested", "nothing here is more than four brackets deep"},
      {"month", "no key takes a date; a text stands in quotes"},
      {"expected '='", "write key = value"},
      {"expected value", "write the value behind the ="},
      {"value type", "a text stands in quotes; else it is a number, true or false"},
      {"boolean", "write true or false, in small letters"},
      {"'nan'", "leave out a key that has no value"},
      {"parsing array", "items stand in [ ], with a comma between two"},
      {"inline table", "a table in braces stands in one line: {key = value, key = value}"},
      {"comment or whitespace", "one key = value a line, and one [section] a line"},
      {"table header", "a section is [name], a list of them [[name]]"},
  };
  for (const auto& [part, remedy] : remedies)
    if (what.find(part) != std::string::npos)
      return std::string{remedy};
  return "a line is [section] or key = value, with texts in quotes";
}

/// The file beside a path's place that it was likely meant to be; empty: there is none.
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
  for (auto& [p, what] : found_)
    all.all.push_back({where(p), std::move(what)});
  if (left_out != 0)
    all.all.back().what += fmt::format(" (and {} more problems; mend these first)", left_out);
  found_.clear();
  return all;
}

checked<std::string> read_config_file(const std::string& path) {
  constexpr std::size_t most_bytes = 1U << 20U;
  std::error_code unknown;
  const auto type = std::filesystem::status(path, unknown).type();
  const bool handed = path.starts_with("/dev/") || path.starts_with("/proc/"); // a shell's <(...), or standard input
  if (!handed && (type == std::filesystem::file_type::fifo || type == std::filesystem::file_type::socket))
    return refusal{{{path, "is a pipe, from which nobody may ever write; give the path of a TOML file"}}};
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
  const auto refuse = [&](position at, std::string what) {
    return refusal{{{fmt::format("{}:{}:{}", path, at.line, at.column), std::move(what)}}};
  };
  int line = 1;
  for (std::size_t begin = 0; begin < text->size(); ++line) {
    const auto end = std::min(text->find('\n', begin), text->size());
    if (end - begin > longest_line)
      return refuse({line, static_cast<int>(longest_line) + 1},
                    "this line is longer than 16 kB; break the list into lines, or look whether this is a configuration");
    begin = end + 1;
  }
  auto parsed = parse_toml(*text);
  if (!parsed)
    return refuse(parsed.error().at,
                  fmt::format("this is not TOML: {}; {}", parsed.error().what, toml_remedy(parsed.error().what)));
  return std::move(*parsed);
}

} // namespace troupe::config
