// SPDX-License-Identifier: BSD-3-Clause
// The console's prompt.
#pragma once

#include "apps/console/session.hpp"

namespace troupe::apps::console {

/// Reads lines, with history and completion by Tab, and carries them out until `quit` or the end of input.
void talk(session& client);

} // namespace troupe::apps::console
