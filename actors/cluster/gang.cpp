// SPDX-License-Identifier: BSD-3-Clause
// Gang placement.
#include "actors/cluster/gang.hpp"

#include <algorithm>
#include <map>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "actors/node/node_devices.hpp"
#include "actors/node/place_roles.hpp"

namespace troupe::actors {

namespace {

using gang = std::vector<std::uint32_t>;

std::string why_not(const member_view& seat, std::uint32_t number, const kept_nodes& kept) {
  if (!seat.here)
    return fmt::format("node {} {}", seat.node.name, seat.last.empty() ? "has not joined" : seat.last);
  if (seat.leaving)
    return seat.job == 0 ? fmt::format("node {} is drained", seat.node.name)
                         : fmt::format("node {} leaves when job {} ends", seat.node.name, seat.job);
  if (seat.job != 0)
    return fmt::format("node {} runs job {}", seat.node.name, seat.job);
  return fmt::format("node {} is reserved for job {}", seat.node.name, kept.at(number));
}

bool stays(const member_view& seat) {
  return seat.here && !seat.leaving;
}

/// All but the first that `may` be taken; those before that share their host with most others.
template <class Predicate>
gang seats_that(const job& job, const std::vector<member_view>& seats, Predicate may) {
  gang found;
  std::map<std::string, int> on_host;
  for (std::uint32_t i = 1; i < seats.size(); ++i)
    if (may(i)) {
      found.push_back(i);
      ++on_host[seats[i].node.host];
    }
  std::ranges::stable_sort(found, {}, [&](std::uint32_t i) {
    return std::pair{-on_host[seats[i].node.host], seats[i].node.host};
  });
  if (job.compute.device != "cpu")
    std::ranges::stable_partition(found, [&](std::uint32_t i) { return !seats[i].node.devices.empty(); });
  std::ranges::stable_sort(found, {}, [&](std::uint32_t i) { return seats[i].node.last_resort; });
  return found;
}

/// Whether jobs outlive their coordinator, whose node keeps clear of them.
bool keeps_clear(const std::vector<member_view>& seats) {
  return seats.front().node.last_resort > 0;
}

/// How many nodes a job needs beside the first: for workers, and to fill up the number.
struct demand {
  std::size_t workers = 0, others = 0;
};

demand demand_of(const job& job, const std::vector<member_view>& seats) {
  const std::size_t beside = job.cluster.nodes - 1;
  const auto may_work =
      static_cast<std::size_t>(std::count_if(seats.begin() + 1, seats.end(), [](const auto& seat) { return seat.node.worker; }));
  const auto workers = std::min<std::size_t>({beside, job.cluster.workers, may_work});
  return {workers, beside - workers};
}

/// The first node, and of `from` those that come first; `left`: what it lacks then.
gang pick(const std::vector<member_view>& seats, const gang& from, demand& left) {
  gang out{0};
  for (auto number : from)
    if (auto& of = seats[number].node.worker && left.workers > 0 ? left.workers : left.others; of > 0) {
      --of;
      out.push_back(number);
    }
  return out;
}

/// With what they may hold of this job.
std::vector<member_view> seats_for(const job& job, std::vector<member_view> seats) {
  for (auto& seat : seats) {
    const auto as_member = member_of(job, seat);
    seat.node.shard = as_member.shard;
    seat.node.worker = as_member.worker;
  }
  return seats;
}

/// Why no state of this cluster could serve the job; empty: some could.
std::string why_never(const job& job, const std::vector<member_view>& seats) {
  const auto& first = seats.front().node;
  const bool elsewhere = keeps_clear(seats) && std::ranges::any_of(seats, [](const auto& seat) { return seat.node.shard; });
  const auto on = job.compute.device == "cpu" ? std::string{} : fmt::format(" on {}", job.compute.device);
  if (const auto& device = job.compute.shard_device; !elsewhere && !takes_shards(first.devices, device))
    return fmt::format(
        "the first shard is on the coordinator's node, {}, whose devices are {}; compute.shard_device = \"{}\" is none of them",
        first.name, fmt::join(first.devices, ", "), device);
  if (job.cluster.nodes > seats.size())
    return fmt::format("the job wants {} nodes and the cluster has {}", job.cluster.nodes, seats.size());
  if (const auto may = 1 + std::count_if(seats.begin() + 1, seats.end(), [](const auto& seat) { return seat.node.shard; });
      may < job.cluster.replicas)
    return fmt::format("cluster.replicas = {} needs as many nodes that may hold shards, and the cluster has {}",
                       job.cluster.replicas, may);
  if (std::ranges::none_of(seats, [](const auto& seat) { return seat.node.worker; }))
    return fmt::format("no node of this cluster may hold workers{}", on);
  const auto does_all = [&](const auto& seat) { return keeps_clear(seats) && seat.node.shard && seat.node.worker; };
  if (job.cluster.nodes == 1 && !first.worker && std::ranges::none_of(seats, does_all))
    return fmt::format("a job of one node runs on the coordinator's, and {} may hold no workers{}", first.name, on);
  return {};
}

} // namespace

member_node member_of(const job& job, const member_view& seat) {
  const auto& has = seat.node.devices;
  const bool shards = takes_shards(has, job.compute.shard_device);
  const bool aggregators = job.protocol.fan_in == 0 || shards; // they live beside workers
  return {seat.actor,
          seat.node.name,
          seat.node.host,
          seat.node.shard && shards,
          seat.node.worker && aggregators && !matching_devices(has, job.compute.device).empty(),
          has,
          false,
          seat.node.last_resort};
}

bool first_node_serves(const job& job, const member_view& seat, const std::vector<member_node>& nodes) {
  const auto places = place_roles(job, nodes);
  return seat.actor ? places.uses(0) : places.has_workers(0);
}

namespace {

/// The gang without the coordinator's node, if the others can hold everything. A free one that may hold shards takes its place if
/// none of them may.
template <class Predicate>
gang without_the_first(const job& job, const std::vector<member_view>& seats, gang chosen, Predicate is_free) {
  const auto holds = [&](std::uint32_t i) { return seats[i].node.shard; };
  const auto works = [&](std::uint32_t i) { return seats[i].node.worker; };
  const bool others_work = std::any_of(chosen.begin() + 1, chosen.end(), works);
  if (std::none_of(chosen.begin() + 1, chosen.end(), holds)) {
    const auto instead = seats_that(job, seats, [&](std::uint32_t i) {
      return is_free(i) && holds(i) && (others_work || works(i)) && std::ranges::find(chosen, i) == chosen.end();
    });
    if (!instead.empty())
      chosen.push_back(instead.front());
  }
  if (std::ranges::any_of(chosen, works) && !place_roles(job, members_of(job, seats, chosen, chosen.size())).uses(0))
    chosen.erase(chosen.begin());
  return chosen;
}

} // namespace

std::variant<gang, no_gang> choose_gang(const job& job, const std::vector<member_view>& all, const kept_nodes& kept) {
  const auto seats = seats_for(job, all);
  if (auto why = why_never(job, seats); !why.empty())
    return no_gang{std::move(why), true};
  const auto is_free = [&](std::uint32_t i) { return stays(seats[i]) && seats[i].job == 0 && !kept.contains(i); };
  const auto needs = demand_of(job, seats);
  const auto asks = fmt::format("it needs {} nodes{}", job.cluster.nodes,
                                needs.others == 0 ? "" : fmt::format(", {} of them for workers", needs.workers));
  auto left = needs;
  auto chosen = pick(seats, seats_that(job, seats, is_free), left);
  if (left.workers + left.others > 0) {
    std::vector<std::string> missing;
    for (std::uint32_t i = 1; i < seats.size(); ++i)
      if (!is_free(i) && (left.others > 0 || seats[i].node.worker))
        missing.push_back(why_not(seats[i], i, kept));
    return no_gang{fmt::format("{}: {}", asks, fmt::join(missing, ", "))};
  }
  const auto holders = std::ranges::count_if(chosen, [&](std::uint32_t i) { return i == 0 || seats[i].node.shard; });
  if (holders < job.cluster.replicas)
    return no_gang{fmt::format("{}, {} of them for copies of a shard: of those that are free {} may hold some", asks,
                               job.cluster.replicas, holders)};
  if (keeps_clear(seats)) {
    chosen = without_the_first(job, seats, std::move(chosen), is_free);
    if (std::ranges::none_of(chosen, [&](std::uint32_t i) { return seats[i].node.worker; }))
      return no_gang{fmt::format("{} that may hold workers and shards, and none is free", asks)};
  }
  if (chosen.front() == 0 && !is_free(0) && first_node_serves(job, seats.front(), members_of(job, seats, chosen, chosen.size())))
    return no_gang{fmt::format("{}: {}", asks, why_not(seats.front(), 0, kept))};
  return chosen;
}

gang nodes_to_keep(const job& job, const std::vector<member_view>& all, const kept_nodes& kept) {
  const auto seats = seats_for(job, all);
  auto candidates = seats_that(job, seats, [&](std::uint32_t i) { return stays(seats[i]); });
  std::ranges::stable_partition(candidates, [&](std::uint32_t i) { return seats[i].job == 0 && !kept.contains(i); });
  auto left = demand_of(job, seats);
  auto keeps = pick(seats, candidates, left);
  if (left.workers + left.others > 0)
    return {};
  if (!first_node_serves(job, seats.front(), members_of(job, seats, keeps, keeps.size())))
    keeps.erase(keeps.begin());
  return keeps;
}

std::vector<member_node> members_of(const job& job, const std::vector<member_view>& seats, const gang& of,
                                    std::size_t begins_with) {
  std::vector<member_node> out;
  for (const auto number : of) {
    out.push_back(member_of(job, seats[number]));
    if (out.size() > begins_with) {
      out.back().absent = true;
      out.back().actor = nullptr;
    }
  }
  return out;
}

gang nodes_to_grow_onto(const job& job, const std::vector<member_view>& all, const gang& begins_with) {
  if (job.cluster.max_workers <= job.cluster.workers)
    return {};
  gang grown = begins_with;
  for (const auto number : seats_that(job, all, [&](std::uint32_t i) {
         return std::ranges::find(begins_with, i) == begins_with.end() && member_of(job, all[i]).worker;
       })) {
    const auto places = place_roles(job, members_of(job, all, grown, begins_with.size()));
    if (places.workers.size() >= job.cluster.max_workers)
      break;
    grown.push_back(number);
  }
  return {grown.begin() + static_cast<std::ptrdiff_t>(begins_with.size()), grown.end()};
}

} // namespace troupe::actors
