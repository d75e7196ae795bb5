// SPDX-License-Identifier: BSD-3-Clause
// Whom a shard waits for, in words.
#pragma once

#include <cstdint>
#include <string>

#include <fmt/format.h>

#include "actors/messages/inspection.hpp"
#include "actors/messages/role.hpp"
#include "protocols/replicated_lead.hpp"
#include "protocols/tree.hpp"

namespace troupe::actors {

/// In a tree, it comes in an aggregator's sum.
inline std::string who_brings_push_of(protocols::worker_id worker, const protocols::holder_place& place,
                                      const protocols::plan& plan) {
  if (place.tree)
    for (const auto tree = protocols::holder_tree(*place.tree, plan.gone); const auto child : place.children)
      if (protocols::workers_below(tree, child).contains(worker))
        return fmt::format("aggregator {}", child.value);
  return fmt::format("worker {}", worker.value);
}

/// A lead's answer. While a version is proposed, its machine collects the next one already.
inline awaited awaited_by(const protocols::lead& decides, const protocols::replicated_lead* proposes) {
  awaited out;
  if (proposes != nullptr)
    for (const auto holder : proposes->waiting_for())
      out.holders.push_back(holder.value);
  if (out.holders.empty())
    for (const auto worker : decides.waiting_for())
      out.workers.push_back(worker.value);
  return out;
}

/// A backup waits for its shard, and a lead until all are prepared for its round.
inline bool waits_for_copies(actor_report& out, const protocols::holder_place& place, const protocols::replicated_lead* leads,
                             std::uint32_t shards) {
  if (place.backup_of) {
    out.waits_for.push_back(fmt::format("shard {}", place.backup_of->value));
    return true;
  }
  if (leads != nullptr)
    for (const auto holder : leads->waiting_for())
      out.waits_for.push_back(fmt::format("{} {}", holder.value < shards ? "shard" : "replica", holder.value));
  return !out.waits_for.empty();
}

} // namespace troupe::actors
