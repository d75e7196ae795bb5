// SPDX-License-Identifier: BSD-3-Clause
// Shapes the tree of aggregators.
#include "protocols/tree.hpp"

#include <algorithm>
#include <utility>

#include "kernels/assert.hpp"

namespace troupe::protocols {

namespace {

holder_id add_aggregator(std::vector<holder_place>& tree) {
  const holder_id self{static_cast<std::uint32_t>(tree.size())};
  tree.push_back({.self = self, .is_shard = false});
  return self;
}

void add_backups(std::vector<holder_place>& tree, std::uint32_t replicas) {
  const auto shards = static_cast<std::uint32_t>(tree.size());
  for (std::uint32_t i = 0; i < shards && replicas > 1; ++i) {
    tree[i].commits = true;
    for (std::uint32_t r = 1; r < replicas; ++r)
      tree[i].backups.push_back({r * shards + i});
  }
  for (std::uint32_t number = shards; number < shards * replicas; ++number) {
    holder_place backup = tree[number % shards];
    backup.backup_of = std::exchange(backup.self, {number});
    tree.push_back(std::move(backup));
  }
}

} // namespace

bool is_flat(const std::vector<holder_place>& tree) {
  return std::ranges::all_of(tree, &holder_place::is_shard);
}

std::vector<holder_place> holder_tree(std::uint32_t workers, std::uint32_t shards, std::uint32_t fan_in, std::uint32_t replicas) {
  const bool flat = fan_in < 2 || workers <= fan_in;
  std::vector<holder_place> tree;
  for (std::uint32_t i = 0; i < shards; ++i) {
    tree.push_back({.self = {i}});
    for (std::uint32_t w = 0; flat && w < workers; ++w)
      tree.back().workers.insert({w});
  }
  TROUPE_ASSERT(flat || replicas <= 1);
  if (flat) {
    add_backups(tree, replicas);
    return tree;
  }

  std::vector<holder_id> level;
  for (std::uint32_t w = 0; w < workers; ++w) {
    if (w % fan_in == 0)
      level.push_back(add_aggregator(tree));
    tree.back().workers.insert({w});
  }
  while (level.size() > fan_in) {
    std::vector<holder_id> above;
    for (std::size_t i = 0; i < level.size(); ++i) {
      if (i % fan_in == 0)
        above.push_back(add_aggregator(tree));
      tree[above.back().value].children.push_back(level[i]);
      tree[level[i].value].parents = {above.back()};
    }
    TROUPE_ASSERT(!above.empty() && above.size() < level.size());
    level = std::move(above);
  }
  for (std::uint32_t i = 0; i < shards; ++i) {
    tree[i].children = level;
    for (const holder_id top : level)
      tree[top.value].parents.push_back({i});
  }
  return tree;
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

} // namespace troupe::protocols
