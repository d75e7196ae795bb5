// SPDX-License-Identifier: BSD-3-Clause
// Flows in a trace: a round's path from workers to shards and back, across hosts.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "actors/job.hpp"
#include "actors/monitoring/trace.hpp"

namespace troupe::actors {

struct span_place {
  std::size_t node = 0;
  const trace_event* event = nullptr; ///< points into the given trace
};

/// From the sending span to the first span that depends on it.
struct flow {
  std::string_view name; ///< "gradient", "sum" or "parameters"
  std::uint64_t number = 0;
  span_place from, to;
};

/// From every gradient to each version that contains it, at each shard, via aggregators in a tree; and from every version at each
/// shard to each worker's first step with it. Spans that were not recorded have no flows.
std::vector<flow> flows_of(const job& job, const std::vector<node_trace>& nodes);

} // namespace troupe::actors
