// SPDX-License-Identifier: BSD-3-Clause
// What has happened in a cluster: curves and events.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "actors/cluster/history.hpp"
#include "apps/console/answer.hpp"
#include "apps/console/terminal.hpp"

namespace troupe::apps::console {

/// By its number, or the newest of that name; of an empty text the newest that runs, or else the newest. 0: there is none.
std::uint64_t find_job(const std::vector<actors::job_title>& jobs, const std::string& job);
answer no_such_job(const std::string& job);

/// Training loss, and below it test accuracy where that has been measured, against training time: as large as the screen.
answer loss(const actors::history& past, std::uint64_t job, const screen& on);

/// With their time of the day here; on a terminal as many of the last as fit.
answer events(const actors::history& past, const screen& on);

} // namespace troupe::apps::console
