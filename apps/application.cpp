// SPDX-License-Identifier: BSD-3-Clause
// Runs one subcommand; exceptions that it does not catch become an exit code.
#include "apps/application.hpp"

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>

#include <fmt/format.h>

#include "apps/bounded_system.hpp"
#include "apps/command_line.hpp"

namespace troupe {

namespace {

/// Output may still be buffered, and single prints are not checked: this checks them all at the end.
int check_stdout(int code) {
  if (std::fflush(stdout) == 0 && std::ferror(stdout) == 0)
    return code;
  fmt::print(stderr, "troupe: the output cannot be written: {}\n",
             errno == 0 ? "the write failed; is the disk full?" : std::strerror(errno));
  return code == apps::exit_done ? apps::exit_failed : code;
}

int run_subcommand(int argc, const char* const* argv, const actors::extensions& added) {
  try {
    if (const auto wrong = config::check_extensions(added); !wrong.empty()) {
      fmt::print(stderr, "troupe: {}\n", fmt::join(wrong, "\ntroupe: "));
      return apps::exit_usage;
    }
    const auto parsed = apps::parse_command_line(argc, argv, added);
    if (const auto* code = std::get_if<apps::exit_code>(&parsed))
      return *code;
    return std::visit([](const auto& options) { return apps::execute(options); }, std::get<apps::command_options>(parsed));
  } catch (const std::exception& e) {
    if (std::ferror(stdout) == 0) // else that is the reason, and said at the end
      fmt::print(stderr, "troupe: {}\n", e.what());
    return apps::exit_failed;
  }
}

} // namespace

int application::main(int argc, const char* const* argv) const {
  std::signal(SIGXFSZ, SIG_IGN); // a file beyond its limit is an error of that write, as on a full disk
  int code = run_subcommand(argc, argv, added_);
  errno = 0;
  code = check_stdout(code);
  if (apps::bounded_system::any_left_behind())
    std::_Exit(code);
  return code;
}

} // namespace troupe
