// SPDX-License-Identifier: BSD-3-Clause
// Gang placement.
#include "actors/gang.hpp"

#include <algorithm>
#include <map>

#include <fmt/format.h>

#include "actors/coordinator_actor.hpp"

namespace troupe::actors {

namespace {

std::string why_not(const member_view& seat) {
  if (!seat.here)
    return fmt::format("node {} has not joined", seat.what.name);
  if (seat.leaving)
    return fmt::format("node {} leaves", seat.what.name);
  return fmt::format("node {} runs job {}", seat.what.name, seat.job);
}

/// Whether this gang's first node, which other jobs share, holds workers of the job.
bool first_node_works(const job& what, const std::vector<member_view>& seats, const std::vector<std::uint32_t>& gang) {
  std::vector<member_node> nodes;
  for (auto number : gang)
    nodes.push_back({{}, seats[number].what.name, seats[number].what.host, seats[number].what.shard, seats[number].what.worker});
  return std::ranges::any_of(place_roles(what, nodes).workers, [](const role_place& worker) { return worker.node == 0; });
}

} // namespace

std::variant<std::vector<std::uint32_t>, no_gang> choose_gang(const job& what, const std::vector<member_view>& seats) {
  if (what.cluster.nodes > seats.size())
    return no_gang{fmt::format("the job wants {} nodes and the cluster has {}", what.cluster.nodes, seats.size()), true};
  if (what.cluster.nodes == 1 && !seats.front().what.worker)
    return no_gang{fmt::format("a job of one node runs on the coordinator's, and {} may hold no workers", seats.front().what.name), true};
  std::vector<std::uint32_t> free;
  std::string missing;
  std::map<std::string, int> on_host;
  for (std::uint32_t i = 1; i < seats.size(); ++i)
    if (seats[i].here && !seats[i].leaving && seats[i].job == 0) {
      free.push_back(i);
      ++on_host[seats[i].what.host];
    } else {
      missing += (missing.empty() ? "" : ", ") + why_not(seats[i]);
    }
  std::ranges::stable_sort(free, [&](std::uint32_t a, std::uint32_t b) {
    const auto &host_a = seats[a].what.host, &host_b = seats[b].what.host;
    return std::pair{-on_host[host_a], host_a} < std::pair{-on_host[host_b], host_b};
  });
  std::vector<std::uint32_t> gang{0};
  for (auto number : free)
    if (gang.size() < what.cluster.nodes)
      gang.push_back(number);
  if (gang.size() < what.cluster.nodes)
    return no_gang{fmt::format("it needs {} nodes: {}", what.cluster.nodes, missing)};
  if (seats.front().job != 0 && first_node_works(what, seats, gang))
    return no_gang{fmt::format("it needs {} nodes: {}", what.cluster.nodes, why_not(seats.front()))};
  return gang;
}

} // namespace troupe::actors
