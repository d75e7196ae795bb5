// SPDX-License-Identifier: BSD-3-Clause
// `troupe bench`: every figure beside what it is measured against.
#include <cstdio>

#include <fmt/format.h>

#include "apps/commands.hpp"

namespace troupe::apps {

int bench_command(const bench_options& options) {
  fmt::print(stderr, "troupe: `bench {}` is not there yet, it comes later\n", options.what);
  return exit_usage;
}

} // namespace troupe::apps
