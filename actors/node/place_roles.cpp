// SPDX-License-Identifier: BSD-3-Clause
// Where a job's roles go.
#include "actors/node/place_roles.hpp"

#include <algorithm>
#include <numeric>
#include <utility>

#include "actors/node/node_devices.hpp"
#include "kernels/assert.hpp"
#include "protocols/tree.hpp"

namespace troupe::actors {

namespace {

/// Lists each node once per worker device, limited so that no node is left without a worker.
std::vector<std::uint32_t> turns_of(const std::vector<std::uint32_t>& nodes, const std::vector<std::vector<std::string>>& devices,
                                    std::size_t workers) {
  std::vector<std::size_t> times;
  for (auto node : nodes)
    times.push_back(std::max<std::size_t>(devices[node].size(), 1));
  for (auto all = std::reduce(times.begin(), times.end()); all > std::max(nodes.size(), workers); --all)
    --*std::ranges::max_element(times);
  std::vector<std::uint32_t> turns;
  for (std::size_t i = 0; i < nodes.size(); ++i)
    turns.insert(turns.end(), times[i], nodes[i]);
  return turns;
}

/// Assigns a node's devices to its roles in turn; empty: the job's device.
class device_turns {
public:
  device_turns(const std::vector<member_node>& nodes, const std::string& wanted) : wanted_(wanted), given_(nodes.size()) {
    for (const auto& node : nodes)
      devices.push_back(matching_devices(node.devices, wanted));
  }
  std::string next(std::uint32_t node) {
    const auto& own = devices[node];
    return own.empty() || own.front() == wanted_ ? std::string{} : own[given_[node]++ % own.size()];
  }
  std::vector<std::vector<std::string>> devices{}; ///< by node

private:
  const std::string wanted_;
  std::vector<std::size_t> given_;
};

/// One of these nodes that holds no other copy of the shard; backups go round.
std::uint32_t place_of_backup(const job_places& places, protocols::holder_id of, const std::vector<std::uint32_t>& nodes) {
  const auto has_a_copy = [&](std::uint32_t node) {
    return std::ranges::any_of(places.holders, [&](const role_place& holder) {
      return holder.node == node && (holder.index == of.value || holder.backup_of == of.value);
    });
  };
  for (std::size_t i = 0; i < nodes.size(); ++i)
    if (const auto node = nodes[(places.holders.size() + i) % nodes.size()]; !has_a_copy(node))
      return node;
  TROUPE_ASSERT(false); // `choose_gang` ensures that there is one
  return 0;
}

} // namespace

job_places place_roles(const job& job, const std::vector<member_node>& nodes) {
  job_places places;
  auto count = static_cast<std::uint32_t>(nodes.size());
  for (std::uint32_t i = 0; i < count; ++i)
    places.nodes.push_back({i, nodes[i].name, nodes[i].host, 0, 0, nodes[i].absent});
  const auto all_with = [&nodes](bool member_node::*role) {
    std::vector<std::uint32_t> found;
    for (std::uint32_t i = 0; i < nodes.size(); ++i)
      if (nodes[i].*role && !nodes[i].absent)
        found.push_back(i);
    return found;
  };
  auto shards = all_with(&member_node::shard), workers = all_with(&member_node::worker);
  auto for_backups = shards;
  if (for_backups.empty() || for_backups.front() != 0)
    for_backups.insert(for_backups.begin(), 0);
  const bool apart = job.cluster.where == placement::separate && std::ranges::count(nodes, false, &member_node::absent) > 1;
  if (apart)
    if (std::erase_if(shards, [&](std::uint32_t node) { return nodes[node].worker; }); shards.empty())
      shards = {0};
  if (shards.empty() || shards.front() != 0)
    shards.insert(shards.begin(), 0); // the lead is always on the coordinator's node
  if (apart) {
    auto rest = workers;
    std::erase_if(rest, [&](std::uint32_t node) { return std::ranges::find(shards, node) != shards.end(); });
    if (!rest.empty())
      workers = std::move(rest);
  }
  TROUPE_ASSERT(!workers.empty()); // `choose_gang` ensures it
  // Contiguous blocks of even size, so that neighbours in the tree of aggregators share a node.
  device_turns for_workers{nodes, job.compute.device}, for_holders{nodes, job.compute.shard_device};
  const auto turns = turns_of(workers, for_workers.devices, job.cluster.workers);
  for (std::uint32_t w = 0; w < job.cluster.workers; ++w) {
    const auto node = turns[std::uint64_t{w} * turns.size() / job.cluster.workers];
    places.workers.push_back({w, node, for_workers.next(node)});
  }
  const auto each = (job.cluster.workers + workers.size() - 1) / workers.size();
  for (std::uint32_t i = 0, w = job.cluster.workers; i < count; ++i)
    for (std::size_t more = nodes[i].absent ? each : 0; more > 0 && w < job.cluster.seats(); --more, ++w)
      places.workers.push_back({w, i, for_workers.next(i)});
  for (const auto& holder : protocols::holder_tree(job.shape())) {
    auto number = holder.self.value;
    std::uint32_t node = 0;
    if (holder.backup_of)
      node = place_of_backup(places, *holder.backup_of, for_backups);
    else if (holder.is_shard)
      node = shards[number % shards.size()];
    else if (!holder.workers.empty())
      node = places.workers[holder.workers.begin()->value].node;
    else
      node = places.holders[holder.children.front().value].node;
    places.holders.push_back({.index = number, .node = node, .device = for_holders.next(node), .aggregates = !holder.is_shard});
    if (holder.backup_of)
      places.holders.back().backup_of = holder.backup_of->value;
  }
  return places;
}

} // namespace troupe::actors
