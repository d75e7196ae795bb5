// SPDX-License-Identifier: BSD-3-Clause
// Subcommands that are announced and not there yet.
#include <cstdio>

#include <fmt/format.h>

#include "apps/commands.hpp"

namespace troupe::apps {

int later_command(const later_options& options) {
  fmt::print(stderr, "troupe: `{0}` is not there yet, it comes later; `troupe --help` lists what is\n", options.name);
  return exit_usage;
}

} // namespace troupe::apps
