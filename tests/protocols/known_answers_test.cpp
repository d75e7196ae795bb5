// SPDX-License-Identifier: BSD-3-Clause
// Jobs whose course can be worked out by hand, in virtual time.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "protocols/sim/null_numerics.hpp"
#include "protocols/sim/simulate.hpp"

namespace troupe::protocols::sim {
namespace {

/// 8 workers of which one is 10 times slower, 0.1 s a step, 10 ms one way, links without limit, a server that takes no time:
/// 1,000 s.
result run_for_1000_s(const protocol_spec& protocol) {
  options job;
  job.protocol = protocol;
  job.job.workers = 8;
  job.job.data_size = 1'000'000'000;
  job.job.stop.seconds = 1000;
  job.inject.step_ms = 100;
  job.inject.link.latency_ms = 10;
  job.inject.stragglers = {{.worker = worker_id{1}, .factor = 10}};
  null_numerics nothing;
  const result out = simulate(job, nothing);
  EXPECT_FALSE(out.failed) << out.reason;
  return out;
}

protocol_spec ssp(std::int64_t bound) {
  return {.name = "ssp", .parameters = {{"bound", bound}}};
}

// A round takes the slow worker's second and a round trip: 1000 / 1.02.
TEST(KnownAnswers, SynchronousSgdRunsAtTheSlowestPace) {
  EXPECT_NEAR(static_cast<double>(run_for_1000_s({.name = "sync"}).steps), 980, 3);
}

// Seven workers each make 1000 / 0.12 gradients, the slow one 1000 / 1.02.
TEST(KnownAnswers, AsynchronousSgdWaitsForNobody) {
  EXPECT_NEAR(static_cast<double>(run_for_1000_s({.name = "async"}).gradients), 59'311, 3);
}

// The slow worker makes 980 clocks; the others are s + 1 ahead of it at the end.
TEST(KnownAnswers, StaleSynchronousRunsAheadByItsBound) {
  EXPECT_NEAR(static_cast<double>(run_for_1000_s(ssp(3)).gradients), 7'868, 3);
  EXPECT_NEAR(static_cast<double>(run_for_1000_s(ssp(4)).gradients), 7'875, 3);
  EXPECT_NEAR(static_cast<double>(run_for_1000_s(ssp(5)).gradients), 7'882, 3);
}

} // namespace
} // namespace troupe::protocols::sim
