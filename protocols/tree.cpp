// SPDX-License-Identifier: BSD-3-Clause
// Shapes the tree of aggregators.
#include "protocols/tree.hpp"

#include <algorithm>
#include <utility>

#include "kernels/assert.hpp"

namespace troupe::protocols {

namespace {

holder_id add_aggregator(std::vector<holder_place>& tree, const tree_shape& shape) {
  const holder_id self{static_cast<std::uint32_t>(tree.size())};
  tree.push_back({.self = self, .is_shard = false, .commits = true, .tree = shape});
  return self;
}

/// One below every shard for each block of workers.
void add_aggregators_of_nodes(std::vector<holder_place>& tree, const tree_shape& shape) {
  std::uint32_t worker = 0;
  for (std::uint32_t i = 0; i < shape.workers; ++i) {
    const holder_id self = add_aggregator(tree, shape);
    if (is_flat(shape) || i >= shape.blocks.size())
      continue;
    for (const std::uint32_t next = worker + shape.blocks[i]; worker < next; ++worker)
      tree[self.value].workers.insert({worker});
    for (std::uint32_t shard = 0; shard < shape.shards; ++shard) {
      tree[self.value].parents.push_back({shard});
      tree[shard].children.push_back(self);
    }
  }
}

/// Level upon level, until the shards have at most `fan_in` children.
void add_levels(std::vector<holder_place>& tree, const tree_shape& shape) {
  std::vector<holder_id> level;
  for (std::uint32_t w = 0; w < shape.workers; ++w) {
    if (w % shape.fan_in == 0)
      level.push_back(add_aggregator(tree, shape));
    tree.back().workers.insert({w});
  }
  while (level.size() > shape.fan_in) {
    std::vector<holder_id> above;
    for (std::size_t i = 0; i < level.size(); ++i) {
      if (i % shape.fan_in == 0)
        above.push_back(add_aggregator(tree, shape));
      tree[above.back().value].children.push_back(level[i]);
      tree[level[i].value].parents = {above.back()};
    }
    TROUPE_ASSERT(!above.empty() && above.size() < level.size());
    level = std::move(above);
  }
  for (std::uint32_t i = 0; i < shape.shards; ++i) {
    tree[i].children = level;
    for (const holder_id top : level)
      tree[top.value].parents.push_back({i});
  }
}

/// Its parents take over its children and workers.
void take_out(std::vector<holder_place>& tree, holder_id gone) {
  holder_place& out = tree[gone.value];
  for (const holder_id parent : out.parents) {
    holder_place& heir = tree[parent.value];
    heir.workers.insert(out.workers.begin(), out.workers.end());
    const auto place = heir.children.erase(std::ranges::find(heir.children, gone));
    heir.children.insert(place, out.children.begin(), out.children.end());
  }
  for (const holder_id child : out.children)
    tree[child.value].parents = out.parents;
  out.children.clear();
  out.parents.clear();
  out.workers.clear();
}

void add_backups(std::vector<holder_place>& tree, const tree_shape& shape) {
  const auto first = static_cast<std::uint32_t>(tree.size());
  for (std::uint32_t i = 0; i < shape.shards; ++i) {
    tree[i].commits = true;
    for (std::uint32_t r = 1; r < shape.replicas; ++r)
      tree[i].backups.push_back({first + (r - 1) * shape.shards + i});
  }
  for (std::uint32_t number = 0; number < shape.shards * (shape.replicas - 1); ++number) {
    holder_place backup = tree[number % shape.shards];
    backup.backup_of = std::exchange(backup.self, {first + number});
    tree.push_back(std::move(backup));
  }
}

} // namespace

bool is_vacant(const holder_place& place) {
  return !place.is_shard && place.workers.empty() && place.children.empty();
}

bool is_flat(const tree_shape& shape) {
  if (shape.fan_in == fan_in_of_nodes)
    return std::ranges::all_of(shape.blocks, [](std::uint32_t workers) { return workers < 2; });
  return shape.fan_in < 2 || shape.workers <= shape.fan_in;
}

holder_id first_backup(const tree_shape& shape) {
  std::uint32_t out = shape.shards;
  if (shape.fan_in == fan_in_of_nodes)
    return {out + shape.workers};
  for (std::uint32_t level = shape.workers; !is_flat(shape) && level > shape.fan_in; out += level)
    level = (level + shape.fan_in - 1) / shape.fan_in;
  return {out};
}

holder_id shard_of(const tree_shape& shape, holder_id backup) {
  return {(backup.value - first_backup(shape).value) % shape.shards};
}

std::vector<holder_place> holder_tree(const tree_shape& shape, const std::set<holder_id>& gone) {
  std::vector<holder_place> tree;
  for (std::uint32_t i = 0; i < shape.shards; ++i) {
    tree.push_back({.self = {i}});
    for (std::uint32_t w = 0; is_flat(shape) && w < shape.workers; ++w)
      tree.back().workers.insert({w});
  }
  for (std::uint32_t i = 0; !is_flat(shape) && i < shape.shards; ++i) {
    tree[i].commits = true;
    tree[i].tree = shape;
  }
  if (shape.fan_in == fan_in_of_nodes)
    add_aggregators_of_nodes(tree, shape);
  else if (!is_flat(shape))
    add_levels(tree, shape);
  for (const holder_id each : gone)
    if (each.value < tree.size() && !tree[each.value].is_shard)
      take_out(tree, each);
  for (std::uint32_t i = 0; shape.clips && i < shape.shards; ++i)
    tree[i].commits = tree[i].clips = true;
  if (shape.replicas > 1)
    add_backups(tree, shape);
  return tree;
}

std::optional<std::uint32_t> block_of(const std::vector<std::uint32_t>& blocks, worker_id worker) {
  std::uint32_t left = worker.value;
  for (std::uint32_t number = 0; number < blocks.size(); ++number) {
    if (left < blocks[number])
      return number;
    left -= blocks[number];
  }
  return std::nullopt;
}

std::set<worker_id> workers_below(const std::vector<holder_place>& tree, holder_id top) {
  if (top.value >= tree.size())
    return {};
  const holder_place& place = tree[top.value];
  std::set<worker_id> out = place.workers;
  for (const holder_id child : place.children)
    out.merge(workers_below(tree, child));
  return out;
}

bool takes(const holder_place& place, worker_id worker) {
  return !place.tree || place.workers.contains(worker) || (place.is_shard && worker.value >= place.tree->workers);
}

std::vector<holder_id> takers_of(const tree_shape& shape, const std::set<holder_id>& gone, worker_id worker) {
  std::vector<holder_id> out;
  for (const holder_place& place : holder_tree(shape, gone))
    if (takes(place, worker) && !place.backup_of)
      out.push_back(place.self);
  return out;
}

} // namespace troupe::protocols
