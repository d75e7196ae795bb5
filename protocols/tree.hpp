// SPDX-License-Identifier: BSD-3-Clause
// The tree of aggregators: its shape depends on the workers' ids, the fan-in and who is gone alone.
#pragma once

#include <optional>
#include <set>
#include <vector>

#include "protocols/place.hpp"

namespace troupe::protocols {

/// Places of all holders: shards first (0..shards-1), then aggregators level by level, the lowest first. With `fan_in` 0 or 1, or
/// `workers` <= `fan_in`, there are only shards. Aggregator j of the lowest level takes the pushes of workers [j * fan_in, (j +
/// 1) * fan_in); each higher level does the same with the level below; the top level's at most `fan_in` aggregators are children
/// of every shard (each sends every shard its range).
///
/// With `fan_in_of_nodes` each block of workers has an aggregator, a child of every shard; if no block has two workers, there are
/// none. There is a number for each worker all the same, so that those of backups do not depend on where workers are; the places
/// beyond the blocks are vacant.
///
/// The children and workers of an aggregator that is `gone` are its parent's, in its place; if that is every shard, those
/// workers push to every shard. The aggregator keeps its number, and nothing else. Workers that come later, beyond `workers`,
/// have no place below an aggregator, and push to every shard.
///
/// Backups come last, `replicas` - 1 for each shard: the first of every shard, in their order, then the second ones.
std::vector<holder_place> holder_tree(const tree_shape& shape, const std::set<holder_id>& gone = {});

/// Nobody's: of an aggregator that is gone, or that there is not.
bool is_vacant(const holder_place& place);

/// Whether every worker pushes to every shard: there are no aggregators.
bool is_flat(const tree_shape& shape);

/// Holders below this number are shards and aggregators. This one and those beyond are backups of the shards in turn, also those
/// that come later, in place of others.
holder_id first_backup(const tree_shape& shape);

/// The shard of which this holder, a backup, is one.
holder_id shard_of(const tree_shape& shape, holder_id backup);

/// In which of a tree_shape's blocks this worker is; nothing: there are none.
std::optional<std::uint32_t> block_of(const std::vector<std::uint32_t>& blocks, worker_id worker);

/// The workers whose pushes, or sums of them, pass through this holder.
std::set<worker_id> workers_below(const std::vector<holder_place>& tree, holder_id top);

/// Whether this holder, a shard or an aggregator, takes this worker's pushes.
bool takes(const holder_place& place, worker_id worker);

/// The holders that take this worker's pushes, without backups.
std::vector<holder_id> takers_of(const tree_shape& shape, const std::set<holder_id>& gone, worker_id worker);

} // namespace troupe::protocols
