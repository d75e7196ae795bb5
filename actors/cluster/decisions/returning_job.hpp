// SPDX-License-Identifier: BSD-3-Clause
// A job that runs, and whose coordinator was lost: what of it has come back.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "actors/messages/node.hpp"
#include "protocols/ledger.hpp"
#include "protocols/tree.hpp"

namespace troupe::actors {

/// Kept by the cluster's actor, and used on its thread alone.
class returning_job {
public:
  /// `nodes`: on which it began.
  returning_job(protocols::ledger::course decided, const std::vector<std::string>& nodes)
      : decided_(std::move(decided)), awaited_(nodes.begin(), nodes.end()) {}

  const protocols::ledger::course& decided() const { return decided_; }
  /// A node is here: with its part, or without.
  void on(const std::string& node, std::uint32_t member, const std::optional<job_standing>& standing) {
    awaited_.erase(node);
    if (!standing || standing->job_key != decided_.key)
      return;
    names_ = standing->names;
    members_[standing->node] = member;
    holders_.insert(standing->holders.begin(), standing->holders.end());
    has_workers_ = has_workers_ || !standing->workers.empty();
  }

  /// Nodes on which it began, and that have not joined.
  const std::set<std::string>& awaited() const { return awaited_; }
  /// Whether every part of the parameters is there, and somebody who works.
  bool is_whole(const protocols::tree_shape& shape) const {
    std::set<protocols::holder_id> shards;
    for (const auto& place : protocols::holder_tree(shape))
      if (place.is_shard && holders_.contains(place.self.value))
        shards.insert(place.backup_of.value_or(place.self));
    for (const auto& [number, copy] : decided_.copies)
      if (copy.whole && holders_.contains(number.value))
        shards.insert(copy.shard);
    return has_workers_ && shards.size() == shape.shards;
  }
  /// By their numbers in the job.
  const std::map<std::uint32_t, std::uint32_t>& members() const { return members_; }
  const std::vector<std::string>& names() const { return names_; }

private:
  protocols::ledger::course decided_;
  std::set<std::string> awaited_;
  std::vector<std::string> names_{};
  std::map<std::uint32_t, std::uint32_t> members_{};
  std::set<std::uint32_t> holders_{};
  bool has_workers_ = false;
};

} // namespace troupe::actors
