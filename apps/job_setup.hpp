// SPDX-License-Identifier: BSD-3-Clause
// The first steps of several subcommands: load the job, its data and its model, and refuse what does not fit.
#pragma once

#include <optional>

#include "apps/commands.hpp"
#include "apps/config/cluster_file.hpp"
#include "apps/config/job_file.hpp"
#include "apps/memory_estimate.hpp"
#include "tensor/data/data_set.hpp"
#include "tensor/model.hpp"

namespace troupe::apps {

/// A job that can start: its data is in memory and its model fits.
struct prepared_job {
  config::loaded_job config;
  std::optional<config::cluster> cluster; ///< where a cluster file was given
  data_pair data;                         ///< empty where other hosts will read it
  model network;
};

/// Loads the job file; a cluster file, where one is named, says how many nodes there are.
config::checked<config::loaded_job> load_job(const job_options& options, const std::optional<config::cluster>& cluster = {});

/// What is known about a data source before it is read.
struct data_facts {
  std::optional<data_format> format; ///< none: only the files tell
  std::int64_t size = 60'000;        ///< training samples; of files, how many they usually have
  std::int64_t test_size = 10'000;
  std::int64_t validation_size = 0; ///< held out of the training samples
};
data_facts known_facts(const data_spec& spec);

/// Loads the job's data. A problem is reported where the job names the data.
config::checked<data_pair> load_data(const config::loaded_job& job);

/// Samples of both halves; an assumption where the data has not been read and its size is unknown.
std::int64_t sample_count(const data_spec& spec, const data_pair& data);

/// Completes the model for the data's classes and builds it. A problem is reported where the job lists the layers.
config::checked<model> build_model(config::loaded_job& job, const data_format& data);

/// All of the above. Also checks the initial weights that the job names and, without a cluster file, this machine's devices.
/// Prints notes about keys that were left out. `cluster_file` may be empty. Without `read_data`, data of a known shape is left to
/// the hosts that will compute.
config::checked<prepared_job> prepare_job(const job_options& options, const std::string& cluster_file = {},
                                          bool read_data = true);
/// The same for a loaded job file.
config::checked<prepared_job> prepare_job(config::loaded_job job, std::optional<config::cluster> cluster = {},
                                          bool read_data = true);

/// What keeps a prepared job from running on processes of this machine: what only the simulator can play, too many workers, and
/// memory that is not there.
config::problems cannot_run_here(const prepared_job& job);

/// Whether the job computes on more than CPUs.
bool wants_accelerators(const actors::compute_spec& compute);
/// This machine's devices that a job may ask for. GPUs are looked for only where the job wants one.
std::vector<kernels::device_info> devices_for(const actors::compute_spec& compute);

/// The numbers that the memory estimate starts from. A problem is reported where the job lists the layers.
config::checked<memory_facts> memory_facts_of(const config::loaded_job& job, const model& network, const data_pair& data);

/// Problems where the roles of a job, all on this machine, need more memory than its devices have free: the sizes, and what would
/// help.
config::problems memory_shortages(const config::loaded_job& job, const std::vector<role_memory>& roles,
                                  const std::vector<device_need>& devices);
/// The same for jobs that share data and model, before any starts.
config::problems memory_shortages(const std::vector<const config::loaded_job*>& jobs, const model& network,
                                  const data_pair& data);

} // namespace troupe::apps
