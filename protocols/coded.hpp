// SPDX-License-Identifier: BSD-3-Clause
// Gradient coding: the exact gradient from any n - s workers (Tandon, Lei, Dimakis, Karampatziakis, ICML 2017).
#pragma once

#include <algorithm>
#include <limits>
#include <ranges>
#include <utility>
#include <vector>

#include "protocols/gradient_code.hpp"
#include "protocols/protocol.hpp"

namespace troupe::protocols {

struct coded_options {
  code_scheme scheme = code_scheme::automatic;
  std::uint32_t stragglers = 1;
  std::uint64_t seed = 1;
};

/// The code of a plan; it changes with the membership. With few workers left it tolerates fewer stragglers.
inline gradient_code code_of(const coded_options& options, const plan& plan) {
  const auto n = static_cast<std::uint32_t>(plan.workers.size());
  code_options code{
      .scheme = options.scheme, .workers = n, .stragglers = std::min(options.stragglers, n - 1), .seed = options.seed};
  // If this membership makes the cyclic code too badly conditioned for float32, both sides use groups instead.
  if (!gradient_code::validate(code).empty())
    code.scheme = code_scheme::groups;
  return gradient_code{code};
}

/// The code of the plan asked about last, which is nearly always the same one.
class code_in_force {
public:
  explicit code_in_force(const coded_options& options) : options_(options) {}
  const gradient_code& of(const plan& plan) {
    if (!code_ || plan.workers != members_) {
      code_ = code_of(options_, plan);
      members_ = plan.workers;
    }
    return *code_;
  }

private:
  coded_options options_;
  std::optional<gradient_code> code_;
  std::vector<member> members_; ///< for which it was made
};

/// The rule's half: closes as soon as the pushes that came can be decoded. A push that is not finite counts as missing.
class coded final : public round_policy {
public:
  explicit coded(const coded_options& options) : code_(options) {}

  std::optional<closing> close(const open_round& round) override {
    const gradient_code& code = code_.of(round.plan);
    if (round.pushed.size() < code.least() && !round.full())
      return std::nullopt;
    std::vector<std::uint32_t> ranks;
    std::vector<member> from;
    const std::vector<member>& members = round.plan.workers;
    auto place = members.begin(); // both are sorted
    for (const auto& [who, part] : round.pushed)
      if (part.finite) {
        place = std::find(place, members.end(), who);
        ranks.push_back(static_cast<std::uint32_t>(place - members.begin()));
        from.push_back(who);
      }
    const auto decoded = code.decode(ranks);
    if (!decoded) // a full round that cannot be decoded makes a version without a step
      return round.full() ? std::optional{closing{}} : std::nullopt;
    closing out{.samples = static_cast<std::int64_t>(round.samples()), .residual = decoded->residual};
    for (std::size_t i = 0; i < from.size(); ++i)
      if (decoded->weights[i] != 0)
        out.weights[from[i]] = decoded->weights[i];
    return out;
  }

  bool lost(const open_round& round) override {
    std::vector<std::uint32_t> ranks;
    for (const member& who : round.live)
      ranks.push_back(static_cast<std::uint32_t>(round.plan.rank_of(who.worker)));
    return !code_.of(round.plan).decode(ranks);
  }

private:
  code_in_force code_;
};

/// The worker's half: the gradients of its parts, each times its coefficient and its share of the round's samples, summed.
class coded_task final : public task {
public:
  explicit coded_task(const coded_options& options) : code_(options) {}

  worker_effects begin(const plan& plan, const params& msg, const push& draft) override {
    const gradient_code& code = code_.of(plan);
    open_ = draft;
    const auto rank = static_cast<std::uint32_t>(plan.rank_of(draft.id.worker));
    const std::uint64_t samples = plan.after(msg.position) - msg.position;
    compute sum{.position = msg.position, .batches = static_cast<std::uint32_t>(plan.workers.size()), .cuts = code.cuts(rank)};
    for (const auto& [index, weight] : code.parts(rank)) {
      const auto share = static_cast<double>(plan::cut_size(samples, sum.cuts, index)) / static_cast<double>(samples);
      sum.parts.push_back({index, weight * share});
    }
    return {adopt{msg.ver, msg.parameters}, std::move(sum)};
  }

  worker_effects on(const computed& msg) override {
    accumulate(open_, msg);
    open_.gradient = msg.gradient;
    return {send_push{open_}};
  }

private:
  code_in_force code_;
  push open_;
};

/// The time until the pushes can be decoded; each worker computes as many times longer as the code demands.
inline double cost_of_code(const gradient_code& code, round_times times) {
  std::vector<std::pair<double, std::uint32_t>> arrivals;
  for (std::uint32_t rank = 0; rank < times.size(); ++rank) {
    const double load = static_cast<double>(times.size() * code.parts(rank).size()) / code.cuts(rank);
    arrivals.emplace_back(times[rank].compute * load + times[rank].travel, rank);
  }
  std::ranges::sort(arrivals);
  const auto too_few = [&](std::size_t count) {
    std::vector<std::uint32_t> present;
    for (std::size_t i = 0; i < count; ++i)
      present.push_back(arrivals[i].second);
    std::ranges::sort(present);
    return !code.decode(present);
  };
  // More pushes never decode worse, so a binary search finds the least number that is enough.
  const auto counts = std::views::iota(std::size_t{1}, times.size() + 1);
  const auto enough = std::ranges::partition_point(counts, too_few);
  return enough == counts.end() ? std::numeric_limits<double>::infinity() : arrivals[*enough - 1].first;
}

inline protocol coded_protocol() {
  const auto stragglers = integer_parameter("stragglers", 1, 0, "s: how many workers a round can do without");
  const auto scheme = choice_parameter("scheme", "auto", {"auto", "groups", "cyclic"},
                                       "groups decode by 0 and 1; cyclic balances the work and may be badly conditioned");
  const auto options_of = [stragglers, scheme](const protocol_spec& spec) -> coded_options {
    const std::string named = scheme.of(spec);
    return {.scheme = named == "groups"   ? code_scheme::groups
                      : named == "cyclic" ? code_scheme::cyclic
                                          : code_scheme::automatic,
            .stragglers = static_cast<std::uint32_t>(stragglers.of(spec))};
  };
  return round_protocol(
      {.name = "coded",
       .summary = "gradient coding: the exact gradient from any n - s workers, each computing s + 1 shares",
       .round_is_full = "what has come can be decoded; weights: the decode vector",
       .recipients = "those that wait; a late one at its late push",
       .pays_when = "a worker is more than s + 1 times slower, and no sample may be lost",
       .takes_fan_in = true,
       .decodes = true,
       .resumable = true,
       .parameters = {stragglers, scheme},
       .validate =
           [options_of](const protocol_spec& spec, std::uint32_t workers) {
             const coded_options code = options_of(spec);
             return gradient_code::validate(
                 {.scheme = code.scheme, .workers = workers, .stragglers = code.stragglers, .seed = code.seed});
           },
       .keeps = [options_of](const protocol_spec& spec) { return footprint{.parts = 1 + options_of(spec).stragglers}; },
       .cost = [options_of](const protocol_spec& spec, const plan& plan,
                            round_times times) { return cost_of_code(code_of(options_of(spec), plan), times); },
       .policy = [options_of](const protocol_spec& spec, std::uint64_t) { return std::make_unique<coded>(options_of(spec)); },
       .task = [options_of](const protocol_spec& spec) { return std::make_unique<coded_task>(options_of(spec)); }});
}

} // namespace troupe::protocols
