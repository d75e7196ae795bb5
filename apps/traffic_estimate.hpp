// SPDX-License-Identifier: BSD-3-Clause
// How many bytes a job sends over lanes, by formula.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "actors/job.hpp"
#include "protocols/protocol.hpp"
#include "tensor/factored.hpp"

namespace troupe::apps {

/// Bytes on lanes: pushes and their sums, parameters of shards, replicas of workers; with the heads of their frames.
struct traffic {
  double push = 0, params = 0, peers = 0;
  double all() const { return push + params + peers; }
};

/// What one node sends and receives of a round.
struct node_traffic {
  std::string node;
  double sends = 0, receives = 0;
  friend bool operator==(const node_traffic&, const node_traffic&) = default;
};

/// A round: each worker pushes once, and gets the parameters that answer it; decentralized: each makes a step, all together one
/// where they take the same. Where a round's parameters go to those that wait, workers of a node are taken to wait together. Of
/// sparse pushes past their warm-up, which choose by chance; of codec.push = "threshold" at most.
struct traffic_estimate {
  traffic round;
  std::vector<node_traffic> nodes; ///< of `round`
  double start = 0;                ///< decentralized: the first parameters; those encoded: what the first have more than others
  double evaluation = 0;           ///< of each evaluation
};

/// Of a job whose nodes are alike, named node-0, node-1, ...; `floats`: of the flat parameters; `factored`: what has factors,
/// where these travel.
traffic_estimate estimate_traffic(const actors::job& job, std::int64_t floats, std::span<const protocols::protocol> added,
                                  const factored_slots& factored = {});

/// The shortest that a round may take: all of its communication behind its computing, or the other way round.
struct round_bound {
  double computing_ms = 0; ///< of each worker
  double link_ms = 0;      ///< of the node whose link has the most to carry, one way
  double at_best_ms() const { return std::max(computing_ms, link_ms); }
  friend bool operator==(const round_bound&, const round_bound&) = default;
};
/// Over the job's [inject.link], where a step takes so long. Nothing where either of them is unknown.
std::optional<round_bound> bound_round(const actors::job& job, const traffic_estimate& network, double step_ms,
                                       std::span<const protocols::protocol> added);

/// A key, the value that it should have, and what a round would send then.
struct lighter_traffic {
  std::string key, value;
  double round = 0;
};
/// The key that lessens a round's bytes the most, if one does by a hundredth.
std::optional<lighter_traffic> lighten(const actors::job& job, std::int64_t floats, std::span<const protocols::protocol> added,
                                       const factored_slots& factored = {});

} // namespace troupe::apps
