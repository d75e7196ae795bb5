// SPDX-License-Identifier: BSD-3-Clause
// Gang placement.
#include "actors/gang.hpp"

#include <algorithm>
#include <map>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

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

bool is_free(const member_view& seat) { return seat.here && !seat.leaving && seat.job == 0; }

/// All but the first; those before that share their host with most others.
std::vector<std::uint32_t> free_seats(const std::vector<member_view>& seats) {
  std::vector<std::uint32_t> free;
  std::map<std::string, int> on_host;
  for (std::uint32_t i = 1; i < seats.size(); ++i)
    if (is_free(seats[i])) {
      free.push_back(i);
      ++on_host[seats[i].what.host];
    }
  std::ranges::stable_sort(free, {}, [&](std::uint32_t i) { return std::pair{-on_host[seats[i].what.host], seats[i].what.host}; });
  return free;
}

} // namespace

std::variant<std::vector<std::uint32_t>, no_gang> choose_gang(const job& what, const std::vector<member_view>& seats) {
  const auto& first = seats.front();
  const std::size_t wanted = what.cluster.nodes;
  const auto may_work = static_cast<std::size_t>(std::count_if(seats.begin() + 1, seats.end(), [](const auto& seat) { return seat.what.worker; }));
  if (wanted > seats.size())
    return no_gang{fmt::format("the job wants {} nodes and the cluster has {}", wanted, seats.size()), true};
  if (wanted == 1 && !first.what.worker)
    return no_gang{fmt::format("a job of one node runs on the coordinator's, and {} may hold no workers", first.what.name), true};
  if (may_work == 0 && !first.what.worker)
    return no_gang{"no node of this cluster may hold workers", true};
  // Beside the first: those for workers, and those that fill up the number.
  auto workers = std::min<std::size_t>({wanted - 1, what.cluster.workers, may_work}), others = wanted - 1 - workers;
  const auto asks = fmt::format("it needs {} nodes{}", wanted, others == 0 ? "" : fmt::format(", {} of them for workers", workers));
  std::vector<std::uint32_t> gang{0};
  for (auto number : free_seats(seats))
    if (auto& left = seats[number].what.worker && workers > 0 ? workers : others; left > 0) {
      --left;
      gang.push_back(number);
    }
  if (workers + others > 0) {
    std::vector<std::string> missing;
    for (std::size_t i = 1; i < seats.size(); ++i)
      if (!is_free(seats[i]) && (others > 0 || seats[i].what.worker))
        missing.push_back(why_not(seats[i]));
    return no_gang{fmt::format("{}: {}", asks, fmt::join(missing, ", "))};
  }
  if (first.job != 0 && first_node_works(what, seats, gang))
    return no_gang{fmt::format("{}: {}", asks, why_not(first))};
  return gang;
}

} // namespace troupe::actors
