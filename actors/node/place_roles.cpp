// SPDX-License-Identifier: BSD-3-Clause
// Where a job's roles go.
#include "actors/node/place_roles.hpp"

#include <algorithm>
#include <numeric>
#include <utility>

#include "actors/node/node_devices.hpp"
#include "kernels/assert.hpp"
#include "protocols/runs.hpp"
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

/// The nodes that hold shards, from those that may. Those that hold workers, too, only where there are no others, if shards and
/// workers live `apart`.
std::vector<std::uint32_t> nodes_for_shards(const std::vector<member_node>& nodes, std::vector<std::uint32_t> may, bool apart) {
  const bool anywhere = nodes.front().last_resort > 0;
  if (anywhere && !may.empty()) {
    const auto least = std::ranges::min(may, {}, [&](std::uint32_t node) { return nodes[node].last_resort; });
    std::erase_if(may, [&](std::uint32_t node) { return nodes[node].last_resort > nodes[least].last_resort; });
  }
  if (apart) {
    auto rest = may;
    if (std::erase_if(rest, [&](std::uint32_t node) { return nodes[node].worker; }); !rest.empty() || !anywhere)
      may = std::move(rest);
  }
  if (may.empty() || (!anywhere && may.front() != 0))
    may.insert(may.begin(), 0);
  return may;
}

/// Those without shards, and without the leader's, as far as there are others.
std::vector<std::uint32_t> nodes_for_workers(const std::vector<member_node>& nodes, std::vector<std::uint32_t> may,
                                             const std::vector<std::uint32_t>& shards) {
  const auto take_out = [&may](const auto& which) {
    if (auto rest = may; std::erase_if(rest, which) > 0 && !rest.empty())
      may = std::move(rest);
  };
  take_out([&](std::uint32_t node) { return nodes[node].last_resort == leaders_node; });
  take_out([&](std::uint32_t node) { return std::ranges::find(shards, node) != shards.end(); });
  return may;
}

/// Those that may hold backups, by their order. A coordinator's always may, where it has a part in the job.
std::vector<std::uint32_t> nodes_for_backups(const std::vector<member_node>& nodes, std::vector<std::uint32_t> may) {
  const auto rank = nodes.front().last_resort;
  if (may.empty() || ((rank == 0 || rank == leaders_node) && may.front() != 0))
    may.insert(may.begin(), 0);
  std::ranges::stable_sort(may, {}, [&](std::uint32_t node) { return nodes[node].last_resort; });
  return may;
}

/// One of these nodes that holds no other copy of the shard; backups go round among those that are equally good.
std::uint32_t place_of_backup(const job_places& places, protocols::holder_id of, const std::vector<member_node>& nodes,
                              std::vector<std::uint32_t> may) {
  const auto has_a_copy = [&](std::uint32_t node) {
    return std::ranges::any_of(places.holders, [&](const role_place& holder) {
      return holder.node == node && (holder.index == of.value || holder.backup_of == of.value);
    });
  };
  const auto best = std::ranges::find_if_not(may, has_a_copy);
  TROUPE_ASSERT(best != may.end()); // `choose_gang` ensures that there is one
  std::erase_if(may, [&nodes, level = nodes[*best].last_resort](auto node) { return nodes[node].last_resort != level; });
  std::size_t next = places.holders.size();
  while (has_a_copy(may[next % may.size()]))
    ++next;
  return may[next % may.size()];
}

/// Of so many workers, the first.
std::vector<std::uint32_t> blocks_of(const job_places& places, std::size_t workers) {
  return protocols::sizes_of_runs(static_cast<std::uint32_t>(workers),
                                  [&places](std::uint32_t worker) { return places.workers[worker].node; });
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
  const auto may_hold = all_with(&member_node::shard);
  auto workers = all_with(&member_node::worker);
  const bool apart = job.cluster.where == placement::separate && std::ranges::count(nodes, false, &member_node::absent) > 1;
  const auto shards = nodes_for_shards(nodes, may_hold, apart);
  const auto for_backups = nodes_for_backups(nodes, may_hold);
  if (apart)
    workers = nodes_for_workers(nodes, std::move(workers), shards);
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
  auto shape = job.shape();
  shape.blocks = blocks_of(places, job.cluster.workers);
  for (const auto& holder : protocols::holder_tree(shape)) {
    auto number = holder.self.value;
    std::uint32_t node = 0;
    if (protocols::is_vacant(holder)) {
      places.holders.push_back({.index = number, .node = nowhere, .aggregates = true});
      continue;
    }
    if (holder.backup_of)
      node = place_of_backup(places, *holder.backup_of, nodes, for_backups);
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
  places.evaluator = places.holders.front().node;
  return places;
}

std::vector<std::uint32_t> worker_blocks(const job& job, const protocols::protocol& runs, const job_places& places) {
  const bool asked = runs.asks_for_nodes && runs.asks_for_nodes(job.protocol) && !job.inject.link.delays();
  if (asked)
    return blocks_of(places, places.workers.size());
  return job.protocol.fan_in == protocols::fan_in_of_nodes ? blocks_of(places, job.cluster.workers)
                                                           : std::vector<std::uint32_t>{};
}

std::uint32_t sum_partitions(const job& job, const protocols::protocol& runs, std::int64_t floats, std::uint32_t kib) {
  return runs.reduces_gradients(job.protocol) ? job.partitions_of_sum(floats, kib) : 1;
}

} // namespace troupe::actors
