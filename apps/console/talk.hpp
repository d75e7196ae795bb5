// SPDX-License-Identifier: BSD-3-Clause
// A person at a terminal talks to a cluster.
#pragma once

#include "apps/console/session.hpp"

namespace troupe::apps::console {

/// Reads lines, with history and with completion by Tab, and carries them out until one says `quit` or there are no more.
void talk(session& with);

} // namespace troupe::apps::console
