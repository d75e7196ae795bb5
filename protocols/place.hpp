// SPDX-License-Identifier: BSD-3-Clause
// Where holders stand: shards, their backups, and the tree of aggregators below them.
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <vector>

#include "protocols/ids.hpp"
#include "protocols/spec.hpp"

namespace troupe::protocols {

/// All that the places of a job's holders follow from, but for the aggregators that are gone (tree.hpp).
struct tree_shape {
  std::uint32_t workers = 1;
  std::uint32_t shards = 1;
  std::uint32_t fan_in = 0;   ///< children of an aggregator, or fan_in_of_nodes; 0 or 1: no aggregators
  std::uint32_t replicas = 1; ///< of each shard, itself among them
  bool clips = false;         ///< as in holder_place
  /// fan_in_of_nodes: how many workers each node has, those that have some, in the workers' order. Who does not know yet where
  /// workers are knows shards and backups alike.
  std::vector<std::uint32_t> blocks{};
  friend bool operator==(const tree_shape&, const tree_shape&) = default;
};

/// Where a holder stands in the tree of aggregators. Without aggregators: a shard that takes every worker's pushes.
struct holder_place {
  holder_id self{};
  bool is_shard = true;
  std::vector<holder_id> children{}; ///< aggregators whose partial sums come here, in the order of summing
  std::vector<holder_id> parents{};  ///< where an aggregator forwards: one aggregator, or every shard
  std::set<worker_id> workers{};     ///< whose pushes come here directly
  // Where versions are made in two phases:
  bool commits = false;                 ///< they are: shards have backups, there are aggregators, or sums are clipped
  bool clips = false;                   ///< sums of rounds are, by the norm of the whole: shards measure their parts
  std::optional<holder_id> backup_of{}; ///< it is a backup of this shard
  std::vector<holder_id> backups{};     ///< of the shard, in the order in which they take over
  std::optional<tree_shape> tree{};     ///< if there are aggregators: places change with those that are gone
  friend bool operator==(const holder_place&, const holder_place&) = default;
};

} // namespace troupe::protocols
