// SPDX-License-Identifier: BSD-3-Clause
// Whole jobs of every protocol under random schedules and faults: whatever the order of delivery, the checkers find nothing.
#include <cstdlib>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "tests/protocols/schedule.hpp"

namespace troupe::protocols::sim {
namespace {

std::uint64_t number_from(const char* variable, std::uint64_t otherwise) {
  const char* given = std::getenv(variable);
  return given != nullptr ? std::strtoull(given, nullptr, 10) : otherwise;
}

/// TROUPE_SCHEDULES=N: how many over all protocols. TROUPE_TEST_SEED=S runs the one schedule S of each protocol again.
std::vector<std::uint64_t> seeds() {
  if (std::getenv("TROUPE_TEST_SEED") != nullptr)
    return {number_from("TROUPE_TEST_SEED", 0)};
  const std::uint64_t first = number_from("TROUPE_FIRST_SCHEDULE", 1);
  std::vector<std::uint64_t> out;
  for (std::uint64_t seed = first; seed <= first + number_from("TROUPE_SCHEDULES", 1500) / (catalog().size() * 3); ++seed)
    out.push_back(seed);
  return out;
}

class Schedules : public testing::TestWithParam<std::string> {
protected:
  /// Runs one schedule for each seed; `more` looks at what came out.
  template <class More>
  void run(trouble how_much, More more) {
    const auto protocol = find_protocol(GetParam());
    for (const std::uint64_t seed : seeds()) {
      const options job = schedule_of(*protocol, seed, how_much);
      const verdict found = run_checked(job);
      if (!found.problems.empty())
        FAIL() << GetParam() << " fails; TROUPE_TEST_SEED=" << seed << " repeats it. The shortest schedule found:\n"
               << describe(shrink(job));
      more(job, found);
    }
  }
  void run(trouble how_much) {
    run(how_much, [](const options&, const verdict&) {});
  }
};

bool uses_every_sample(const options& job) {
  static const std::set<std::string> names{"sync", "local", "adacomm", "coded"};
  return names.contains(job.protocol.name) && !job.protocol.parameters.contains("sample_fraction");
}

/// The samples of each version follow those of the version before, without a gap.
void expect_every_sample_once(const options& job, const verdict& found) {
  if (uses_every_sample(job) && !found.used.empty()) {
    EXPECT_EQ(*found.used.rbegin() + 1, found.used.size()) << job.protocol.name << ", TROUPE_TEST_SEED=" << job.seed;
  }
}

TEST_P(Schedules, UndisturbedJobIsSound) {
  run(trouble::none, expect_every_sample_once);
}

TEST_P(Schedules, JoinsRepeatsPausesAndPartitionsLoseNothing) {
  run(trouble::orderly, expect_every_sample_once);
}

TEST_P(Schedules, DeathsAndReturnsLeaveTheRestSound) {
  std::uint64_t failed = 0;
  run(trouble::deaths, [&](const options&, const verdict& found) { failed += found.outcome.failed ? 1 : 0; });
  EXPECT_LE(failed, 1 + seeds().size() / 2) << "jobs should mostly live";
}

std::vector<std::string> names() {
  std::vector<std::string> out;
  for (const protocol& entry : catalog())
    out.push_back(entry.name);
  return out;
}

INSTANTIATE_TEST_SUITE_P(All, Schedules, testing::ValuesIn(names()), [](const auto& info) {
  std::string name = info.param;
  std::erase(name, '-');
  return name;
});

} // namespace
} // namespace troupe::protocols::sim
