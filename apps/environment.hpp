// SPDX-License-Identifier: BSD-3-Clause
// The variables of this process's environment.
#pragma once

#include <cstdlib>
#include <string>

namespace troupe::apps {

/// Empty if it is not set.
inline std::string environment_variable(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

} // namespace troupe::apps
