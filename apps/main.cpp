// SPDX-License-Identifier: BSD-3-Clause
// The `troupe` program: one subcommand, its exit code, and a last resort for what nobody caught.
#include <cstdio>
#include <exception>

#include <fmt/format.h>

#include "apps/command_line.hpp"

namespace {

struct dispatch {
  int operator()(const troupe::apps::run_options& o) const { return run_command(o); }
  int operator()(const troupe::apps::evaluate_options& o) const { return evaluate_command(o); }
  int operator()(const troupe::apps::node_options& o) const { return node_command(o); }
  int operator()(const troupe::apps::check_options& o) const { return check_command(o); }
  int operator()(const troupe::apps::devices_options& o) const { return devices_command(o); }
  int operator()(const troupe::apps::protocols_options& o) const { return protocols_command(o); }
  int operator()(const troupe::apps::version_options& o) const { return version_command(o); }
  int operator()(const troupe::apps::bench_options& o) const { return bench_command(o); }
  int operator()(const troupe::apps::compare_options& o) const { return compare_command(o); }
  int operator()(const troupe::apps::simulate_options& o) const { return simulate_command(o); }
  int operator()(const troupe::apps::certs_options& o) const { return certs_command(o); }
  int operator()(const troupe::apps::console_options& o) const { return console_command(o); }
};

} // namespace

int main(int argc, char** argv) {
  try {
    const auto parsed = troupe::apps::parse_command_line(argc, argv);
    if (const auto* code = std::get_if<troupe::apps::exit_code>(&parsed))
      return *code;
    return std::visit(dispatch{}, std::get<troupe::apps::command_options>(parsed));
  } catch (const std::exception& e) {
    fmt::print(stderr, "troupe: {}\n", e.what());
    return troupe::apps::exit_failed;
  }
}
