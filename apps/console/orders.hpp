// SPDX-License-Identifier: BSD-3-Clause
// The console's orders to a running job.
#pragma once

#include <vector>

#include "apps/console/commands.hpp"

namespace troupe::apps::console {

/// Each asks an interactive user before anything pauses or ends.
std::vector<command> order_commands();

} // namespace troupe::apps::console
