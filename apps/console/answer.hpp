// SPDX-License-Identifier: BSD-3-Clause
// What a command of the console answers.
#pragma once

#include <string>

#include <boost/json.hpp>

namespace troupe::apps::console {

/// Text for people, one object for machines. With `wrong` set the command could not be carried out.
struct answer {
  std::string text;
  boost::json::object json;
  bool wrong = false;
};

/// It could not, for this reason.
inline answer wrong(const std::string& reason) {
  return {reason + "\n", {{"error", reason}}, true};
}

} // namespace troupe::apps::console
