// SPDX-License-Identifier: BSD-3-Clause
// How many events a second of processor time the simulator handles with 1,000 workers: sim_speed [WORKERS] [PROTOCOL...]. A
// program, not a test.
#include <algorithm>
#include <cstdlib>
#include <ctime>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "protocols/catalog.hpp"
#include "protocols/sim/null_numerics.hpp"
#include "protocols/sim/quadratic.hpp"
#include "protocols/sim/simulate.hpp"

using namespace troupe::protocols;

namespace {

sim::options job_of(const std::string& protocol, std::uint32_t workers) {
  sim::options job;
  job.protocol.name = protocol;
  job.job.workers = workers;
  job.job.batch = 64;
  job.job.data_size = 60'000;
  job.job.evaluate_every_samples = 1'000'000;
  job.job.stop.seconds = 1000;
  job.inject.step_ms = 30;
  job.inject.link = {.latency_ms = 1, .mbit = 10'000};
  job.inject.stragglers = {{.factor = 5, .prob = 0.125}};
  job.model_bytes = 800'000;
  job.max_events = 300'000;
  return job;
}

double events_per_second(const sim::options& job, sim::numerics& maths) {
  const std::clock_t begin = std::clock(); // of the processor: other programs do not count
  const sim::result out = sim::simulate(job, maths);
  return static_cast<double>(out.events) * CLOCKS_PER_SEC / static_cast<double>(std::clock() - begin);
}

} // namespace

int main(int count, char** arguments) {
  const auto workers = static_cast<std::uint32_t>(count > 1 ? std::atoi(arguments[1]) : 1000);
  std::vector<std::string> names{arguments + std::min(count, 2), arguments + count};
  if (names.empty())
    for (const protocol& entry : catalog())
      names.push_back(entry.name);
  for (const std::string& name : names) {
    sim::null_numerics nothing;
    sim::quadratic closed{{.data_size = 60'000}};
    const sim::options job = job_of(name, workers);
    fmt::print("{:10} {:9.0f} events/s without mathematics, {:9.0f} with the quadratic\n", name, events_per_second(job, nothing),
               events_per_second(job, closed));
  }
}
