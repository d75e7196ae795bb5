// SPDX-License-Identifier: BSD-3-Clause
// Assembles a cluster's trace from the pieces in which it is downloaded.
#pragma once

#include <cstdint>
#include <vector>

#include "actors/messages/cluster.hpp"

namespace troupe::apps {

/// Adds a node's next piece, which begins at this offset; the first piece of a node begins its part.
inline void append(std::vector<actors::node_trace>& to, const actors::node_trace_piece& piece, std::uint64_t offset) {
  if (offset == 0)
    to.push_back({.name = piece.node});
  auto& part = to.back();
  part.events.insert(part.events.end(), piece.events.events.begin(), piece.events.events.end());
  part.dropped = piece.events.dropped;
}

} // namespace troupe::apps
