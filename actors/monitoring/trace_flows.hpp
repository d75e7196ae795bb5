// SPDX-License-Identifier: BSD-3-Clause
// What led to what in a trace: a round's way from workers to shards and back, over hosts.
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
  const trace_event* event = nullptr; ///< of the trace that was asked about
};

/// From the span that sent to the first that could not have been without it.
struct flow {
  std::string_view name; ///< "gradient", "sum" or "parameters"
  std::uint64_t number = 0;
  span_place from, to;
};

/// Every gradient to each version that it is in, at each shard, by way of the aggregators where there is a tree; every version
/// from each shard to the first step that each worker makes with it. A span that was not recorded has no arrows.
std::vector<flow> flows_of(const job& what, const std::vector<node_trace>& nodes);

} // namespace troupe::actors
