// SPDX-License-Identifier: BSD-3-Clause
// auto: predictions from measured step times.
#include "protocols/automatic.hpp"

#include <algorithm>
#include <limits>
#include <optional>
#include <ranges>

#include <fmt/format.h>

#include "protocols/catalog.hpp"
#include "protocols/coded.hpp"

namespace troupe::protocols {

namespace {

constexpr std::size_t window = 16; ///< steps of each worker that are remembered
constexpr std::uint32_t rounds_to_decide = 2;
constexpr double clearly_better = 0.8; ///< less than that is noise, and a switch costs momentum and a new plan

} // namespace

automatic::automatic(std::vector<protocol_spec> candidates) : candidates_(std::move(candidates)) {}

std::optional<decision> automatic::on(const report& closed, double) {
  for (const timing& each : closed.timings) {
    if (each.samples <= 0)
      continue;
    // A coded worker computes more than a batch, a local one several: what is kept is one batch's time.
    const double batches = static_cast<double>(each.samples) / static_cast<double>(plan_.batch);
    std::deque<sample>& own = past_[each.worker];
    own.push_back({static_cast<double>(each.compute) / batches,
                   static_cast<double>(std::max<nanoseconds>(0, each.elapsed - each.compute))});
    if (own.size() > window)
      own.pop_front();
  }
  std::erase_if(past_, [this](const auto& entry) { return plan_.rank_of(entry.first) < 0; });
  if (++rounds_ < rounds_to_decide || past_.size() < plan_.workers.size())
    return std::nullopt;
  rounds_ = 0;

  std::string why;
  const protocol_spec* best = nullptr;
  double best_cost = std::numeric_limits<double>::infinity(), current_cost = best_cost;
  for (const protocol_spec& candidate : candidates_) {
    const double cost = predicted(candidate);
    why += fmt::format("{}{} {:.1f} ms", why.empty() ? "" : ", ", candidate.name, cost * 1e-6);
    if (candidate == plan_.protocol)
      current_cost = cost;
    if (cost < best_cost) {
      best_cost = cost;
      best = &candidate;
    }
  }
  if (best == nullptr || *best == plan_.protocol || best_cost > clearly_better * current_cost)
    return std::nullopt;
  return decision{
      .period = initial_period(*best),
      .protocol = *best,
      .why = fmt::format("auto: {} -> {}; a round's worth of samples would take: {}", plan_.protocol.name, best->name, why)};
}

double automatic::predicted(const protocol_spec& candidate) const {
  std::optional<gradient_code> code;
  if (candidate.name == "coded")
    code = code_of(coded_options_of(candidate), plan_);
  double sum = 0;
  for (std::size_t round = 0; round < window; ++round)
    sum += cost(candidate, code ? &*code : nullptr, replay(round));
  return sum / static_cast<double>(window);
}

/// The times of one past round, by rank; a worker of which less is known repeats what is known.
std::vector<automatic::sample> automatic::replay(std::size_t round) const {
  std::vector<sample> out;
  for (const member& who : plan_.workers)
    if (const auto own = past_.find(who.worker); own != past_.end())
      out.push_back(own->second[own->second.size() - 1 - round % own->second.size()]);
  return out;
}

double automatic::cost(const protocol_spec& candidate, const gradient_code* code, const std::vector<sample>& times) const {
  const auto n = times.size();
  const std::uint32_t period = initial_period(candidate);
  if (code != nullptr) {
    std::vector<std::pair<double, std::uint32_t>> arrivals;
    for (std::uint32_t rank = 0; rank < n; ++rank) {
      const double load = static_cast<double>(n * code->parts(rank).size()) / code->cuts(rank);
      arrivals.emplace_back(times[rank].compute * load + times[rank].travel, rank);
    }
    std::ranges::sort(arrivals);
    const auto too_few = [&](std::size_t count) {
      std::vector<std::uint32_t> present;
      for (std::size_t i = 0; i < count; ++i)
        present.push_back(arrivals[i].second);
      std::ranges::sort(present);
      return !code->decode(present);
    };
    // More pushes never decode worse, so the least number that is enough can be searched for.
    const auto counts = std::views::iota(std::size_t{1}, n + 1);
    if (const auto enough = std::ranges::partition_point(counts, too_few); enough != counts.end())
      return arrivals[*enough - 1].first;
    return std::numeric_limits<double>::infinity();
  }
  std::vector<double> arrivals;
  double compute = 0, travel = 0;
  for (const sample& each : times) {
    arrivals.push_back(each.compute + each.travel);
    compute = std::max(compute, each.compute);
    travel = std::max(travel, each.travel);
  }
  std::ranges::sort(arrivals);
  if (candidate.name == "local")
    return travel > compute ? compute + travel / period : std::numeric_limits<double>::infinity();
  const std::size_t k = candidate.name == "backup" ? backup_quorum(candidate, n) : n;
  return arrivals[k - 1] * static_cast<double>(n) / static_cast<double>(k);
}

} // namespace troupe::protocols
