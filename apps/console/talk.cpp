// SPDX-License-Identifier: BSD-3-Clause
// Lines and their completion, by libedit.
#include "apps/console/talk.hpp"

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

#include <editline/readline.h>
#include <fmt/format.h>

#include "apps/console/commands.hpp"
#include "apps/console/line.hpp"

namespace troupe::apps::console {

namespace {

/// libedit calls plain functions, so these are globals.
session* completing = nullptr;
words matches;

char* next_match(const char*, int index) {
  const auto i = static_cast<std::size_t>(index);
  return i < matches.size() ? strdup(matches[i].c_str()) : nullptr;
}

char** complete(const char* text, int start, int) {
  rl_attempted_completion_over = 1; // file names mean nothing here
  matches.clear();
  for (const auto& each : completions(*completing, std::string(rl_line_buffer, static_cast<std::size_t>(start))))
    if (each.starts_with(text))
      matches.push_back(each);
  return matches.empty() ? nullptr : rl_completion_matches(text, next_match);
}

/// Without the blanks around it: completion leaves one.
std::string trimmed(const std::string& line) {
  const auto begin = line.find_first_not_of(' ');
  return begin == std::string::npos ? "" : line.substr(begin, line.find_last_not_of(' ') - begin + 1);
}

std::string history_file() {
  const char* home = std::getenv("HOME");
  return home == nullptr ? "" : std::string{home} + "/.troupe_history";
}

} // namespace

void talk(session& client) {
  completing = &client;
  prepare_lines();
  rl_attempted_completion_function = complete;
  using_history();
  const auto file = history_file();
  read_history(file.c_str());
  for (;;) {
    const auto read = read_line("troupe> ");
    if (read.given_up)
      continue;
    if (!read.text)
      break;
    const auto line = trimmed(*read.text);
    if (line == "quit" || line == "exit")
      break;
    if (line.empty())
      continue;
    add_history(line.c_str());
    write_history(file.c_str()); // whatever ends this process
    fmt::print("{}", carry_out(client, line).text);
    std::fflush(stdout);
  }
}

} // namespace troupe::apps::console
