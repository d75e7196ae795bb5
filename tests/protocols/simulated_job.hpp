// SPDX-License-Identifier: BSD-3-Clause
// A job whose times can be worked out by hand.
#pragma once

#include <string>

#include "protocols/sim/null_numerics.hpp"
#include "protocols/sim/simulate.hpp"

namespace troupe::protocols::sim {

/// 10 ms a step, 1 ms one way, batches of 2 of 100 samples, one evaluation, at the end.
inline options simulated_job(const std::string& protocol, std::uint32_t workers, std::uint64_t steps) {
  options job;
  job.protocol.name = protocol;
  job.job.workers = workers;
  job.job.batch = 2;
  job.job.data_size = 100;
  job.job.evaluate_every_samples = 1'000'000;
  job.job.stop.steps = steps;
  job.inject.step_ms = 10;
  job.inject.link.latency_ms = 1;
  job.stall_after = 10'000'000'000;
  return job;
}

inline result without_numerics(const options& job) {
  null_numerics nothing;
  return simulate(job, nothing);
}

} // namespace troupe::protocols::sim
