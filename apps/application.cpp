// SPDX-License-Identifier: BSD-3-Clause
// One subcommand, its exit code, and a last resort for what nobody caught.
#include "apps/application.hpp"

#include <cstdio>
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

} // namespace

int application::main(int argc, const char* const* argv) const {
  try {
    if (const auto wrong = config::check_extensions(added_); !wrong.empty()) {
      fmt::print(stderr, "troupe: {}\n", fmt::join(wrong, "\ntroupe: "));
      return apps::exit_usage;
    }
    const auto parsed = apps::parse_command_line(argc, argv, added_);
    if (const auto* code = std::get_if<apps::exit_code>(&parsed))
      return *code;
    return std::visit(dispatch{}, std::get<apps::command_options>(parsed));
  } catch (const std::exception& e) {
    fmt::print(stderr, "troupe: {}\n", e.what());
    return apps::exit_failed;
  }
}

} // namespace troupe
