// SPDX-License-Identifier: BSD-3-Clause
// What a job says to the machine that coordinates it.
#include "actors/roles/coordinator/coordinator_setup.hpp"

#include <random>

#include "actors/checkpoint/first_parameters.hpp"
#include "protocols/duration.hpp"
#include "protocols/wire/state.hpp"

namespace troupe::actors {

std::uint64_t random_job_key() {
  std::random_device source;
  return (std::uint64_t{source()} << 32U) | source();
}

protocols::coordinator_options coordinator_options_of(const job& job, std::int64_t data_size,
                                                      std::span<const protocols::protocol> added) {
  protocols::coordinator_options options;
  options.workers = job.cluster.workers;
  options.protocol = protocols::initial_protocol(job.protocol, added);
  options.period = protocols::initial_period(options.protocol, added);
  options.learning_rate = [spec = job.optimizer, data_size, workers = job.cluster.workers](std::uint64_t samples) {
    return learning_rate(spec, static_cast<double>(samples) / static_cast<double>(data_size), static_cast<int>(workers));
  };
  options.shards = job.cluster.shards;
  options.replicas = job.cluster.replicas;
  options.batch = job.data.batch;
  options.data_size = data_size;
  options.evaluate_every_samples = job.evaluate.every_samples;
  options.evaluate_every_ns = protocols::duration_of_s(job.evaluate.every_s);
  options.stop = job.stop;
  options.checkpoint_at_end = job.checkpoint.enabled();
  if (job.exchange.tries_sizes()) {
    options.partition_kib = exchange_spec::first_kib;
    options.search.sizes = {256, 512, 1024, 2048, 4096, 8192, 16384};
  }
  if (!job.checkpoint.resume.empty()) {
    const auto from = read_manifest(job.checkpoint.resume);
    const auto lead = lead_of(from);
    options.from = {lead.made, lead.samples_applied, from.training_ns, {}};
    options.lr_scale = lead.plan.lr_scale;
    if (const auto decided = protocols::wire::decode_state<protocols::coordinator_state>(from.coordinator)) {
      options.protocol = decided->protocol;
      options.period = decided->period;
      options.from.memory = decided->memory;
      if (job.exchange.tries_sizes() && decided->partition_kib > 0)
        options.partition_kib = decided->partition_kib;
    }
  }
  return options;
}

} // namespace troupe::actors
