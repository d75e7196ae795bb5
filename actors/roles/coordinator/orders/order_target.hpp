// SPDX-License-Identifier: BSD-3-Clause
// Whom an operator's order means.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <string_view>

#include <caf/expected.hpp>
#include <fmt/format.h>

#include "actors/errors.hpp"
#include "actors/messages/node.hpp"
#include "tensor/parse_number.hpp"

namespace troupe::actors {

/// What came of it, for whoever asked and for those who watch.
inline std::string_view done(role_verb verb) {
  switch (verb) {
  case role_verb::pause:
    return "stands still";
  case role_verb::resume:
    return "goes on";
  case role_verb::kill:
    return "is killed";
  case role_verb::restart:
    break;
  }
  return "is restarted";
}

struct order_target {
  std::string role;
  std::uint32_t index = 0, node = 0;
};

/// Where the actor is that an order names, as "worker 3".
inline caf::expected<order_target> target_of(const std::string& actor, const job_places& places, std::uint32_t shards) {
  const auto blank = actor.find(' ');
  const auto role = actor.substr(0, blank);
  const auto index = parse_number<std::uint32_t>(blank == std::string::npos ? "" : actor.substr(blank + 1));
  if (index && role == "evaluator" && *index == 0)
    return order_target{role, 0, places.evaluator};
  const bool worker = role == "worker", shard = role == "shard", below = role == "aggregator" || role == "replica";
  if (!index || (role != "evaluator" && !worker && !shard && !below))
    return failure(fmt::format("{} takes no orders; workers, shards, replicas, aggregators and the evaluator do", actor));
  const auto& roles = worker ? places.workers : places.holders;
  const auto below_shards = std::ranges::count(places.holders, true, &role_place::aggregates);
  const auto aggregators =
      std::ranges::count_if(places.holders, [](const role_place& holder) { return holder.aggregates && holder.node != nowhere; });
  const auto others = std::ssize(places.holders) - shards - below_shards;
  if (role == "evaluator" || *index >= roles.size() || roles[*index].node == nowhere || (!worker && shard != (*index < shards)))
    return failure(fmt::format("there is no {}: the job has {} workers, {} shards, {} replicas and {} aggregators", actor,
                               places.workers.size(), shards, others, aggregators));
  return order_target{role, *index, roles[*index].node};
}

} // namespace troupe::actors
