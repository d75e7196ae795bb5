// SPDX-License-Identifier: BSD-3-Clause
// The tree of aggregators: its shape depends on the workers' ids and the fan-in alone.
#pragma once

#include <set>
#include <vector>

#include "protocols/holder.hpp"

namespace troupe::protocols {

/// Places of all holders: shards first (0..shards-1), then aggregators level by level, the lowest first. With `fan_in` 0 or 1, or
/// `workers` <= `fan_in`, there are only shards. Aggregator j of the lowest level takes the pushes of workers [j * fan_in, (j +
/// 1) * fan_in); each higher level does the same with the level below; the top level's at most `fan_in` aggregators are children
/// of every shard (each sends every shard its range).
///
/// Without aggregators, shards may have `replicas` - 1 backups each, which come last: the first of every shard, in their order,
/// then the second ones.
std::vector<holder_place> holder_tree(std::uint32_t workers, std::uint32_t shards, std::uint32_t fan_in,
                                      std::uint32_t replicas = 1);

/// Whether every worker pushes to every shard: there are no aggregators.
bool is_flat(const std::vector<holder_place>& tree);

/// The workers whose pushes, or sums of them, pass through this holder.
std::set<worker_id> workers_below(const std::vector<holder_place>& tree, holder_id top);

} // namespace troupe::protocols
