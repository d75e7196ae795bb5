// SPDX-License-Identifier: BSD-3-Clause
// Shapes the tree of aggregators.
#include "protocols/tree.hpp"

#include <algorithm>

#include "kernels/assert.hpp"

namespace troupe::protocols {

namespace {

holder_id add_aggregator(std::vector<holder_place>& tree) {
  const holder_id self{static_cast<std::uint32_t>(tree.size())};
  tree.push_back({.self = self, .is_shard = false});
  return self;
}

} // namespace

std::vector<holder_place> holder_tree(std::uint32_t workers, std::uint32_t shards, std::uint32_t fan_in) {
  const bool flat = fan_in < 2 || workers <= fan_in;
  std::vector<holder_place> tree;
  for (std::uint32_t i = 0; i < shards; ++i) {
    tree.push_back({.self = {i}});
    for (std::uint32_t w = 0; flat && w < workers; ++w)
      tree.back().workers.insert({w});
  }
  if (flat)
    return tree;

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
