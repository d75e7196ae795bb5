// SPDX-License-Identifier: BSD-3-Clause
// Members of Raft under random schedules of faults: whatever is lost, they decide one history, and go on once it is calm.
#include <cstdlib>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gtest/gtest.h>

#include "tests/protocols/raft_simulation.hpp"

namespace troupe::protocols::raft::test {
namespace {

std::uint64_t number_from(const char* variable, std::uint64_t otherwise) {
  const char* given = std::getenv(variable);
  return given != nullptr ? std::strtoull(given, nullptr, 10) : otherwise;
}

/// TROUPE_SCHEDULES=N: how many, from TROUPE_FIRST_SCHEDULE on. TROUPE_TEST_SEED=S runs the schedule S again.
TEST(RaftSchedules, OneHistoryIsDecidedAndGoesOnWhenItIsCalm) {
  const bool again = std::getenv("TROUPE_TEST_SEED") != nullptr;
  const std::uint64_t first = again ? number_from("TROUPE_TEST_SEED", 0) : number_from("TROUPE_FIRST_SCHEDULE", 1);
  const std::uint64_t count = again ? 1 : number_from("TROUPE_SCHEDULES", 500);
  outcome all;
  for (std::uint64_t seed = first; seed < first + count; ++seed) {
    const outcome found = run(schedule_of(seed));
    if (!found.problems.empty()) {
      const schedule less = shrink(schedule_of(seed));
      const outcome shortest = run(less);
      FAIL() << fmt::format("{}; TROUPE_TEST_SEED={} repeats it.\nThe simplest that fails: {}\n{}\n{}", found.problems.front(),
                            seed, describe(less), fmt::join(shortest.lines, "\n"), fmt::join(shortest.problems, "\n"));
    }
    all.elections += found.elections;
    all.snapshots += found.snapshots;
    all.cut_short += found.cut_short;
  }
  if (again)
    return;
  EXPECT_GT(all.elections, 2 * count) << "leaders should change";
  EXPECT_GT(all.snapshots, count / 4) << "who was away should find that entries are gone";
  EXPECT_GT(all.cut_short, count / 4) << "crashes should come while disks write";
}

} // namespace
} // namespace troupe::protocols::raft::test
