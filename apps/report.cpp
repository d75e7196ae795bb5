// SPDX-License-Identifier: BSD-3-Clause
// What subcommands print: refusals, tables, and the one line of JSON.
#include "apps/report.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>

#include <boost/json.hpp>
#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

namespace troupe::apps {

exit_code refuse(const config::refusal& why) {
  fmt::print(stderr, "{}", why.text());
  return exit_usage;
}

void print_notes(const config::problems& notes) {
  for (const config::problem& p : notes)
    fmt::print(stderr, "{}: note: {}\n", p.where, p.message);
}

boost::json::array errors_json(const config::refusal& why) {
  boost::json::array errors;
  for (const config::problem& p : why.all)
    errors.push_back({{"where", p.where}, {"what", p.message}});
  return errors;
}

void print_json(const boost::json::object& object) {
  fmt::print("{}\n", boost::json::serialize(object));
  std::fflush(stdout);
}

boost::json::value finite_or_null(double value) {
  return std::isfinite(value) ? boost::json::value(value) : boost::json::value(nullptr);
}

boost::json::value number_or_null(bool applies, double value) {
  return applies ? finite_or_null(value) : boost::json::value(nullptr);
}

namespace {

bool begins_letter(char byte) {
  return (static_cast<unsigned char>(byte) & 0xc0) != 0x80;
}

} // namespace

std::size_t letters(std::string_view text) {
  return static_cast<std::size_t>(std::ranges::count_if(text, begins_letter));
}

std::string_view first_letters(std::string_view text, std::size_t count) {
  std::size_t end = 0;
  for (std::size_t begun = 0; end < text.size(); ++end)
    if (begins_letter(text[end]) && begun++ == count)
      break;
  return text.substr(0, end);
}

std::string table(const std::vector<std::vector<std::string>>& rows) {
  std::vector<std::size_t> widths;
  for (const auto& row : rows) {
    widths.resize(std::max(widths.size(), row.size()));
    for (std::size_t i = 0; i < row.size(); ++i)
      widths[i] = std::max(widths[i], letters(row[i]));
  }
  std::string text;
  for (const auto& row : rows) {
    std::string line;
    for (std::size_t i = 0; i < row.size(); ++i)
      line += row[i] + std::string(widths[i] + 2 - letters(row[i]), ' ');
    line.erase(line.find_last_not_of(' ') + 1);
    text += line + '\n';
  }
  return text;
}

std::string counted(std::uint64_t count, const std::string& noun) {
  return fmt::format("{} {}{}", count, noun, count == 1 ? "" : "s");
}

std::string cannot_write(const std::string& path) {
  std::error_code ignored;
  const auto there = std::filesystem::status(path, ignored);
  if (std::filesystem::is_directory(there))
    return fmt::format("{} is a folder; name a file in it", path);
  if (std::filesystem::exists(there) && !std::filesystem::is_regular_file(there))
    return fmt::format("{} is not a regular file and would be replaced by one; name another", path);
  auto beside = path + ".XXXXXX"; // tried, not asked: permissions tell nothing about a read-only file system, or to root
  const int made = mkostemp(beside.data(), O_CLOEXEC);
  if (made < 0)
    return fmt::format("cannot write {}: {}; name a file in a folder that is there and can be written", path,
                       std::strerror(errno));
  close(made);
  unlink(beside.c_str());
  return {};
}

std::string bytes_text(double bytes) {
  constexpr std::array<const char*, 5> units{"B", "kB", "MB", "GB", "TB"};
  std::size_t unit = 0;
  for (; bytes >= 1000 && unit + 1 < units.size(); ++unit)
    bytes /= 1000;
  return fmt::format("{:.{}f} {}", bytes, unit == 0 ? 0 : 1, units[unit]);
}

} // namespace troupe::apps
