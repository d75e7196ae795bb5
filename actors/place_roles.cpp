// SPDX-License-Identifier: BSD-3-Clause
// Where a job's roles go.
#include <algorithm>
#include <utility>

#include "actors/coordinator_actor.hpp"
#include "kernels/assert.hpp"
#include "protocols/tree.hpp"

namespace troupe::actors {

job_places place_roles(const job& what, const std::vector<member_node>& nodes) {
  job_places places;
  auto count = static_cast<std::uint32_t>(nodes.size());
  for (std::uint32_t i = 0; i < count; ++i)
    places.nodes.push_back({i, nodes[i].name, nodes[i].host, 0});
  const auto all_with = [&nodes](bool member_node::*role) {
    std::vector<std::uint32_t> found;
    for (std::uint32_t i = 0; i < nodes.size(); ++i)
      if (nodes[i].*role)
        found.push_back(i);
    return found;
  };
  auto shards = all_with(&member_node::shard), workers = all_with(&member_node::worker);
  const bool apart = what.cluster.where == placement::separate && count > 1;
  if (apart)
    if (std::erase_if(shards, [&](std::uint32_t node) { return nodes[node].worker; }); shards.empty())
      shards = {0};
  if (shards.empty() || shards.front() != 0)
    shards.insert(shards.begin(), 0); // the lead sits beside the coordinator, whatever else may go there
  if (apart) {
    auto rest = workers;
    std::erase_if(rest, [&](std::uint32_t node) { return std::ranges::find(shards, node) != shards.end(); });
    if (!rest.empty())
      workers = std::move(rest);
  }
  TROUPE_ASSERT(!workers.empty()); // `choose_gang` sees to it
  // Contiguous blocks, as even as they can be: neighbours in the tree of aggregators share a node.
  for (std::uint32_t w = 0; w < what.cluster.workers; ++w)
    places.workers.push_back({w, workers[std::uint64_t{w} * workers.size() / what.cluster.workers]});
  for (const auto& holder : protocols::holder_tree(what.cluster.workers, what.cluster.shards, what.protocol.fan_in)) {
    auto number = holder.self.value;
    std::uint32_t node = 0;
    if (holder.is_shard)
      node = shards[number % shards.size()];
    else if (!holder.workers.empty())
      node = places.workers[holder.workers.begin()->value].node;
    else
      node = places.holders[holder.children.front().value].node;
    places.holders.push_back({number, node});
  }
  return places;
}

} // namespace troupe::actors
