// SPDX-License-Identifier: BSD-3-Clause
// The answer of a console command.
#pragma once

#include <string>

#include <boost/json.hpp>

namespace troupe::apps::console {

/// Text for users, one object for programs. `wrong`: the command failed.
struct answer {
  std::string text;
  boost::json::object json;
  bool wrong = false;
};

/// The answer of a command that failed for this reason.
inline answer wrong(const std::string& reason) {
  return {reason + "\n", {{"error", reason}}, true};
}

} // namespace troupe::apps::console
