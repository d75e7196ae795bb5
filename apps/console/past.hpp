// SPDX-License-Identifier: BSD-3-Clause
// The history of a cluster: curves and events.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "actors/cluster/history.hpp"
#include "apps/console/answer.hpp"
#include "apps/console/terminal.hpp"

namespace troupe::apps::console {

/// The job of that number, or the newest of that name; for an empty text the newest that runs, else the newest. 0: none.
std::uint64_t find_job(const std::vector<actors::job_title>& jobs, const std::string& job);
answer no_such_job(const std::string& job);

/// Training loss, and below it test accuracy where measured, against training time; as large as the screen.
answer loss(const actors::history& past, std::uint64_t job, const screen& on);

/// Events with their local time; on a terminal the last ones that fit.
answer events(const actors::history& past, const screen& on);

} // namespace troupe::apps::console
