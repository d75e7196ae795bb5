// SPDX-License-Identifier: BSD-3-Clause
// Random schedules: jobs, faults and orders of delivery that a seed chooses; and the shortest that still fails.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "protocols/catalog.hpp"
#include "protocols/sim/simulate.hpp"

namespace troupe::protocols::sim {

/// How much goes wrong.
enum class trouble { none, orderly, deaths };

/// A short job of this protocol: 1 to 7 workers, 1 to 3 shards, aggregators where the protocol takes them.
/// none: nothing at random but the times of messages. orderly: joins, repeats, pauses and partitions too. deaths: everything.
options schedule_of(const protocol& of, std::uint64_t seed, trouble how_much);

struct verdict {
  std::vector<std::string> problems{}; ///< empty: sound
  result outcome{};
  std::set<std::uint64_t> used{}; ///< samples that the lead shard's versions used
};

/// Runs it under every checker.
verdict run_checked(const options& job, listener* also = nullptr);

/// Leaves out faults, workers and steps while it still fails.
options shrink(options job);

/// The job, its faults, what is wrong and the last lines of its trace.
std::string describe(const options& job);

} // namespace troupe::protocols::sim
