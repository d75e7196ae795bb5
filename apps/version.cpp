// SPDX-License-Identifier: BSD-3-Clause
// `troupe version`: which program this is.
#include <cstdio>

#include <boost/json.hpp>
#include <fmt/format.h>

#include "apps/report.hpp"

namespace troupe::apps {

int execute(const version_options& options) {
  if (options.json)
    print_json({{"version", TROUPE_VERSION},
                {"build", TROUPE_BUILD_TYPE},
                {"compiler", __VERSION__},
                {"added", boost::json::value_from(options.added)}});
  else
    fmt::print("troupe {} ({}, compiler {}){}{}\n", TROUPE_VERSION, TROUPE_BUILD_TYPE, __VERSION__,
               options.added.empty() ? "" : " with ", fmt::join(options.added, ", "));
  return exit_done;
}

} // namespace troupe::apps
