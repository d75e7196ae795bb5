// SPDX-License-Identifier: BSD-3-Clause
// auto: predictions from measured step times.
#include "protocols/automatic.hpp"

#include <algorithm>
#include <limits>
#include <utility>

#include <fmt/format.h>

#include "kernels/assert.hpp"
#include "protocols/memory.hpp"

namespace troupe::protocols {

namespace {

constexpr std::size_t window = 16; ///< steps of each worker that are remembered
constexpr std::uint32_t rounds_to_decide = 2;
constexpr double clearly_better = 0.8; ///< a smaller gain is noise, and a switch costs momentum and a new plan

const protocol& named(const std::vector<protocol>& known, const std::string& name) {
  const auto found = std::ranges::find(known, name, &protocol::name);
  return found == known.end() ? known.front() : *found; // jobs are validated when they are read: the name is known
}

} // namespace

automatic::automatic(std::vector<protocol_spec> candidates, std::vector<protocol> known)
    : candidates_(std::move(candidates)), known_(std::move(known)) {}

std::optional<decision> automatic::on(const report& closed, double) {
  for (const timing& each : closed.timings) {
    if (each.samples <= 0)
      continue;
    // A coded worker computes more than a batch, a local one several: the time per batch is kept.
    const double batches = static_cast<double>(each.samples) / static_cast<double>(plan_.batch);
    std::deque<step_time>& own = past_[each.worker];
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
      .period = protocol_of(*best).period_of(*best),
      .protocol = *best,
      .why = fmt::format("auto: {} -> {}; a round's worth of samples would take: {}", plan_.protocol.name, best->name, why)};
}

std::vector<double> automatic::memory() const {
  memory_writer out;
  out.put(rounds_);
  for (const auto& [who, times] : past_) {
    out.put(who).put(times.size());
    for (const step_time& each : times)
      out.put(each.compute, each.travel);
  }
  return std::move(out).take();
}

void automatic::remember(std::span<const double> memory) {
  memory_reader in{memory};
  rounds_ = in.integer<std::uint32_t>();
  while (!in.done()) {
    const worker_id who = in.worker();
    for (std::size_t left = in.count(); left > 0; --left) {
      const double compute = in.real();
      past_[who].push_back({compute, in.real()});
    }
  }
  for (auto& [who, times] : past_)
    while (times.size() > window)
      times.pop_front();
}

void automatic::check() const {
  TROUPE_ASSERT(!candidates_.empty());
  for (const auto& [who, times] : past_)
    TROUPE_ASSERT(!times.empty() && times.size() <= window);
}

double automatic::predicted(const protocol_spec& candidate) const {
  const protocol& runs = protocol_of(candidate);
  double sum = 0;
  for (std::size_t round = 0; round < window; ++round)
    sum += runs.cost(candidate, plan_, replay(round));
  return sum / static_cast<double>(window);
}

/// The times of one past round, by rank; a worker with a shorter history repeats it.
std::vector<step_time> automatic::replay(std::size_t round) const {
  std::vector<step_time> out;
  for (const member& who : plan_.workers)
    if (const auto own = past_.find(who.worker); own != past_.end())
      out.push_back(own->second[own->second.size() - 1 - round % own->second.size()]);
  return out;
}

const protocol& automatic::protocol_of(const protocol_spec& candidate) const {
  return named(known_, candidate.name);
}

protocol auto_protocol(const std::vector<protocol>& others) {
  const std::vector<std::string> usual{"sync", "backup", "coded"};
  std::vector<std::string> choosable = usual;
  std::vector<protocol> known;
  for (const protocol& each : others)
    if (each.policy && each.cost) {
      known.push_back(each);
      if (std::ranges::find(usual, each.name) == usual.end())
        choosable.push_back(each.name);
    }
  const auto candidates =
      choices_parameter("candidates", usual, choosable, "protocols to choose from; training starts with the first");
  const auto specs_of = [candidates](const protocol_spec& spec) {
    std::vector<protocol_spec> out;
    for (const std::string& name : candidates.of(spec))
      out.push_back({.name = name});
    return out;
  };
  return round_protocol(
      {.name = "auto",
       .summary = "measures step times and switches between its candidates at a round's boundary",
       .round_is_full = "as the protocol chosen",
       .recipients = "as the protocol chosen",
       .pays_when = "you do not know in advance",
       .resumable = std::ranges::all_of(known, &protocol::resumable),
       .parameters = {candidates},
       .keeps =
           [known, specs_of](const protocol_spec& spec) {
             footprint out;
             for (const protocol_spec& candidate : specs_of(spec))
               if (const auto& keeps = named(known, candidate.name).keeps)
                 out = out.combined_with(keeps(candidate));
             return out;
           },
       .candidates = specs_of,
       .policy = [known](const protocol_spec& spec, std::uint64_t seed) { return named(known, spec.name).policy(spec, seed); },
       .task = [known](const protocol_spec& spec) { return named(known, spec.name).task(spec); },
       .make_controller = [known,
                           specs_of](const protocol_spec& spec) { return std::make_unique<automatic>(specs_of(spec), known); }});
}

} // namespace troupe::protocols
