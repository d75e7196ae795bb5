// SPDX-License-Identifier: BSD-3-Clause
// All actors at one moment: the busiest first, or below whoever spawned them.
#pragma once

#include <array>
#include <string>
#include <string_view>

#include "apps/console/snapshot.hpp"

namespace troupe::apps::console {

/// What `top` sorts by; of all the largest first.
inline constexpr std::array<std::string_view, 4> top_orders{"busy", "mailbox", "messages", "since"};

/// How far the jobs are, and below it every actor in that order (one of top_orders; empty: the first of them). `before`: an
/// earlier look, where there is one, for the speed of jobs.
answer top(const snapshot& now, const snapshot* before, const std::string& order);

/// Who spawned whom, and who watches whom.
answer tree(const snapshot& at, bool unicode);

} // namespace troupe::apps::console
