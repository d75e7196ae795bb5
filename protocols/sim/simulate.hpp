// SPDX-License-Identifier: BSD-3-Clause
// The simulator's door: a job in, what came of it out.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "protocols/sim/listener.hpp"
#include "protocols/sim/numerics.hpp"
#include "protocols/sim/options.hpp"

namespace troupe::protocols::sim {

struct curve_point {
  nanoseconds at = 0; ///< training time
  version ver{};
  std::uint64_t samples = 0;
  evaluation found{};
};

struct worker_totals {
  nanoseconds computing = 0; ///< its steps
  nanoseconds waiting = 0;   ///< from a push to the next step
  std::uint64_t pushes = 0;
  std::uint64_t refused = 0; ///< messages of peers
};

struct result {
  bool failed = false;
  std::string reason{};     ///< why the job ended
  bool interrupted = false; ///< `options::interrupted` said so
  bool stalled = false;     ///< given up: `reason` names whom the job waits for
  bool target_reached = false;
  nanoseconds time_to_target = 0; ///< training time
  nanoseconds virtual_time = 0;   ///< training time
  std::uint64_t events = 0;
  std::uint64_t steps = 0;                            ///< versions of the lead shard
  std::uint64_t samples = 0;                          ///< in applied updates, each once
  std::uint64_t gradients = 0;                        ///< pushes with samples that came to the lead shard
  std::uint64_t discarded = 0;                        ///< of those, that no version used
  std::uint64_t bytes = 0;                            ///< of tensors that hosts sent each other
  std::uint32_t period = 1;                           ///< communication period of the last plan
  std::uint32_t partition_kib = 0;                    ///< likewise
  std::map<std::uint64_t, std::uint64_t> staleness{}; ///< how many applied pushes had it
  std::vector<curve_point> curve{};
  std::vector<std::string> notes{}; ///< decisions and faults, for people
  std::map<worker_id, worker_totals> workers{};
  /// Of every message: when, what, from whom, to whom, and the ids in it. Equal for equal options, on every run and build.
  std::uint64_t digest = 0;

  double staleness_mean() const;
  std::uint64_t staleness_max() const { return staleness.empty() ? 0 : staleness.rbegin()->first; }
};

/// Runs a job to its end in virtual time. The machines are those that real runs use.
result simulate(const options& job, numerics& maths, std::span<listener* const> listeners = {});

} // namespace troupe::protocols::sim
