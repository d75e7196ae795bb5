// SPDX-License-Identifier: BSD-3-Clause
// Which nodes a job gets: all that it needs at once, or none.
#pragma once

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "actors/cluster_messages.hpp"

namespace troupe::actors {

/// Numbers of nodes, the coordinator's first; or the reason why the job waits. The coordinator's node takes part in every job; any
/// other serves one job at a time. Of the nodes beside the coordinator's as many may hold workers as the job has workers and the cluster
/// such nodes, so every gang can be placed (`place_roles`). Of the free ones those go first that share their host with most others, so
/// that a job stays close together. A job that no state of this cluster could serve is `never`.
struct no_gang {
  std::string reason;
  bool never = false;
};
std::variant<std::vector<std::uint32_t>, no_gang> choose_gang(const job& what, const std::vector<member_view>& seats);

} // namespace troupe::actors
