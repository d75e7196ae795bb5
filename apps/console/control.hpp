// SPDX-License-Identifier: BSD-3-Clause
// The console's commands that change something.
#pragma once

#include <vector>

#include "apps/console/commands.hpp"

namespace troupe::apps::console {

/// Each asks an interactive user before anything ends.
std::vector<command> control_commands();

} // namespace troupe::apps::console
