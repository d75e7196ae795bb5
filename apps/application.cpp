// SPDX-License-Identifier: BSD-3-Clause
// One subcommand, its exit code, and a last resort for what nobody caught.
#include "apps/application.hpp"

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <exception>

#include <fmt/format.h>

#include "apps/command_line.hpp"

namespace troupe {

namespace {

struct dispatch {
  int operator()(const apps::run_options& o) const { return run_command(o); }
  int operator()(const apps::evaluate_options& o) const { return evaluate_command(o); }
  int operator()(const apps::node_options& o) const { return node_command(o); }
  int operator()(const apps::check_options& o) const { return check_command(o); }
  int operator()(const apps::devices_options& o) const { return devices_command(o); }
  int operator()(const apps::protocols_options& o) const { return protocols_command(o); }
  int operator()(const apps::version_options& o) const { return version_command(o); }
  int operator()(const apps::bench_options& o) const { return bench_command(o); }
  int operator()(const apps::compare_options& o) const { return compare_command(o); }
  int operator()(const apps::simulate_options& o) const { return simulate_command(o); }
  int operator()(const apps::certs_options& o) const { return certs_command(o); }
  int operator()(const apps::console_options& o) const { return console_command(o); }
};

/// What was printed may still wait in a buffer, and nobody looks at whether each line was taken: the end does, for all of them.
int check_stdout(int code) {
  if (std::fflush(stdout) == 0 && std::ferror(stdout) == 0)
    return code;
  fmt::print(stderr, "troupe: the output cannot be written: {}\n",
             errno == 0 ? "what it goes to takes no more; is the disk full?" : std::strerror(errno));
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
    return std::visit(dispatch{}, std::get<apps::command_options>(parsed));
  } catch (const std::exception& e) {
    if (std::ferror(stdout) == 0) // else that is the reason, and said at the end
      fmt::print(stderr, "troupe: {}\n", e.what());
    return apps::exit_failed;
  }
}

} // namespace

int application::main(int argc, const char* const* argv) const {
  const int code = run_subcommand(argc, argv, added_);
  errno = 0;
  return check_stdout(code);
}

} // namespace troupe
