// SPDX-License-Identifier: BSD-3-Clause
// All actors at one moment: the busiest first, or as a tree by who spawned them.
#pragma once

#include <array>
#include <string>
#include <string_view>

#include "apps/console/snapshot.hpp"

namespace troupe::apps::console {

/// The sort keys of `top`; the largest comes first.
inline constexpr std::array<std::string_view, 4> top_orders{"busy", "mailbox", "messages", "since"};

/// The progress of the jobs, and below it every actor in that order (one of top_orders; empty: the first of them). `before`: an
/// earlier look for the speed of jobs, or null.
answer top(const snapshot& now, const snapshot* before, const std::string& order);

/// Which actor spawned which, and which watches which.
answer tree(const snapshot& seen, bool unicode);

} // namespace troupe::apps::console
