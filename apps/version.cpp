// SPDX-License-Identifier: BSD-3-Clause
// `troupe version`: which program this is.
#include <cstdio>

#include <boost/json.hpp>
#include <fmt/format.h>

#include "actors/messages/dialect.hpp"
#include "apps/report.hpp"

namespace troupe::apps {

int print_version(const plain_options& options) {
  const std::vector<std::string> added = names_of(options.added);
  if (options.json)
    print_json({{"version", TROUPE_VERSION},
                {"dialect", actors::message_dialect()},
                {"build", TROUPE_BUILD_TYPE},
                {"compiler", __VERSION__},
                {"added", boost::json::value_from(added)}});
  else
    fmt::print("troupe {} ({}, compiler {}){}{}\n", actors::message_dialect(), TROUPE_BUILD_TYPE, __VERSION__,
               added.empty() ? "" : " with ", fmt::join(added, ", "));
  return exit_done;
}

} // namespace troupe::apps
