// SPDX-License-Identifier: BSD-3-Clause
// The first steps of several subcommands.
#include "apps/job_setup.hpp"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <ranges>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include "actors/cluster/gang.hpp"
#include "actors/node/place_roles.hpp"
#include "apps/cluster_check.hpp"
#include "apps/report.hpp"
#include "apps/weights_file.hpp"
#include "kernels/backend.hpp"
#include "tensor/data/holdout.hpp"
#include "tensor/safetensors.hpp"

namespace troupe::apps {

namespace {

/// How many of a cluster's nodes have something to do, the coordinator's included: those that may hold workers, and those for
/// shards alone, as far as there are shards besides the first, or where jobs outlive their coordinator, shards. `workers`: 0
/// where the job does not give their number.
std::size_t useful_nodes(const config::cluster& cluster, const actors::job& job, std::size_t workers) {
  std::size_t work = 0, hold = 0; // besides the coordinator's; nodes in `hold` have no workers
  for (const auto& node : node_descriptions(cluster) | std::views::drop(1)) {
    const auto may = actors::member_of(job, {.node = node});
    work += may.worker ? 1 : 0;
    hold += may.shard && !may.worker && node.last_resort <= actors::any_node ? 1 : 0;
  }
  const auto& wants = job.cluster;
  const bool colocated = wants.where == actors::placement::colocated;
  const std::size_t first_shard = !cluster.journal.empty() && hold > 0 ? 1 : 0; // not on the coordinator's node
  const auto useful = 1 + work + (colocated ? hold : std::min<std::size_t>(hold, wants.shards - 1U + first_shard));
  return workers == 0 ? useful : std::min(useful, workers + (colocated ? 0 : 1 + first_shard));
}

/// Copies of a shard live on nodes apart: the coordinator's, and those that may hold shards.
config::problems too_many_copies(const config::loaded_job& job, const config::cluster& cluster) {
  std::vector<std::string> may;
  for (const auto& node : node_descriptions(cluster))
    if (may.empty() || actors::member_of(job.job, {.node = node}).shard)
      may.push_back(node.name);
  const auto wants = job.job.cluster.replicas;
  if (wants <= may.size())
    return {};
  return {
      {where_of(job, "cluster.replicas"),
       fmt::format("cluster.replicas = {} needs as many nodes that may hold shards, and the cluster has {} ({}); give at most "
                   "{}, or give more of its nodes the role shard",
                   wants, may.size(), fmt::join(may, ", "), may.size())}};
}

} // namespace

config::checked<config::loaded_job> load_job(const job_options& options, const std::optional<config::cluster>& cluster) {
  if (!cluster)
    return config::load_job(options.file, options.sets, {}, options.added);
  std::vector<config::setting> alone = options.sets; // how many nodes there are is not known yet, so there is one copy
  alone.push_back({"cluster.replicas", "1", "--cluster"});
  auto own = config::load_job(options.file, alone, {}, options.added);
  if (!own)
    return own;
  // As many of the cluster's nodes as have something to do; --nodes comes later and wins.
  const auto says_workers = std::ranges::any_of(own->values, [](const config::resolved_value& v) {
    return v.key == "cluster.workers" && v.from != "default" && v.from != "cluster.nodes";
  });
  std::vector<config::setting> sets = options.sets;
  sets.insert(sets.begin(),
              {"cluster.nodes", fmt::format("{}", useful_nodes(*cluster, own->job, says_workers ? own->job.cluster.workers : 0)),
               "--cluster"});
  return config::load_job(options.file, sets, {}, options.added);
}

config::checked<data_pair> load_data(const config::loaded_job& job) {
  auto data = actors::load_data(job.job, job.added);
  if (!data) {
    const bool of_images = data.error().message.starts_with("data.augment");
    return config::refusal{{{where_of(job, of_images                   ? "data.augment"
                                           : job.job.data.path.empty() ? "data.source"
                                                                       : "data.path"),
                             data.error().message}}};
  }
  return std::move(*data);
}

config::checked<model> build_model(config::loaded_job& job, const data_format& data) {
  complete_model(job, data.classes);
  auto network = actors::build_model(job.job, data, job.added);
  if (!network) {
    const char* key = !job.job.model.onnx.empty() ? "model.onnx" : job.model_kind.empty() ? "model.layers" : "model.kind";
    return config::refusal{{{where_of(job, key), network.error().message}}};
  }
  return std::move(*network);
}

data_facts known_facts(const data_spec& spec) {
  data_facts out;
  if (spec.source == "digits")
    out = {.format = data_format{{1, 28, 28}, 10}, .size = spec.train_samples, .test_size = spec.test_samples};
  else if (spec.source == "cifar10")
    out = {.format = data_format{{3, 32, 32}, 10}, .size = 50'000};
  out.validation_size = std::min(held_out(spec.holdout, out.size), out.size - 1);
  out.size -= out.validation_size;
  return out;
}

std::int64_t sample_count(const data_spec& spec, const data_pair& data) {
  if (data.train)
    return data.train->size() + data.test->size() + (data.validation ? data.validation->size() : 0);
  const auto facts = known_facts(spec);
  return facts.size + facts.test_size + facts.validation_size;
}

bool wants_accelerators(const actors::compute_spec& compute) {
  return compute.device != "cpu" || compute.shard_device != "cpu";
}

std::vector<kernels::device_info> devices_for(const actors::compute_spec& compute) {
  return kernels::list_devices(wants_accelerators(compute));
}

config::checked<memory_facts> memory_facts_of(const config::loaded_job& job, const model& network, const data_pair& data) {
  const auto facts = find_memory_facts(job.job, network, sample_count(job.job.data, data));
  if (!facts)
    return config::refusal{{{where_of(job, "model.layers"), facts.error().message}}};
  return *facts;
}

namespace {

/// Devices that the job names and this machine lacks.
config::problems missing_devices(const config::loaded_job& job) {
  config::problems wrong;
  const actors::compute_spec& compute = job.job.compute;
  const auto devices = devices_for(compute);
  for (const auto& [key, name] : {std::pair{"compute.device", compute.device}, {"compute.shard_device", compute.shard_device}}) {
    const auto matches = [&, name = name](const kernels::device_info& d) {
      return name == "cuda" ? d.name.starts_with("cuda") && d.usable : d.name == name;
    };
    const auto it = std::find_if(devices.begin(), devices.end(), matches);
    if (it != devices.end() && it->usable)
      continue;
    const std::string reason = it == devices.end() ? "there is no such device here" : it->reason;
    wrong.push_back(
        {where_of(job, key), fmt::format("{} = \"{}\" cannot be used: {}; `troupe devices` lists what can", key, name, reason)});
  }
  return wrong;
}

/// What is wrong with the weights that the job starts from.
config::problems wrong_init(const config::loaded_job& job, const model& network, const vocabulary* words) {
  if (job.job.init.empty() || job.job.init == actors::init_zeros)
    return {};
  if (const auto metadata = read_safetensors_metadata(job.job.init))
    if (const auto why = other_vocabulary(*metadata, words); !why.empty())
      return {{where_of(job, "model.init"), fmt::format("{}: {}", job.job.init, why)}};
  const auto queue = kernels::open_backend({});
  const auto parameters = queue->allocate(static_cast<std::size_t>(network.layout().floats()) * sizeof(float));
  const auto loaded = load_safetensors(job.job.init, network.layout(), parameters.as<float>());
  if (loaded)
    return {};
  return {{where_of(job, "model.init"), loaded.error().message}};
}

} // namespace

config::problems memory_shortages(const config::loaded_job& job, const std::vector<role_memory>& roles,
                                  const std::vector<device_need>& devices) {
  config::problems wrong;
  for (const device_need& need : devices)
    if (!need.fits()) {
      const bool of_workers = job.job.compute.device == "cpu" ? need.device == "cpu" : need.device != "cpu";
      wrong.push_back({where_of(job, of_workers ? "compute.device" : "compute.shard_device"), shortage_text(need, roles)});
    }
  return wrong;
}

config::problems memory_shortages(const std::vector<const config::loaded_job*>& jobs, const model& network,
                                  const data_pair& data) {
  config::problems wrong;
  for (const config::loaded_job* job : jobs) {
    const auto facts = memory_facts_of(*job, network, data);
    if (!facts)
      return facts.error().all;
    const auto roles = estimate_memory(job->job, *facts, job->added.protocols);
    for (config::problem& p : memory_shortages(*job, roles, compare_with_devices(roles, devices_for(job->job.compute))))
      if (std::find(wrong.begin(), wrong.end(), p) == wrong.end())
        wrong.push_back(std::move(p));
  }
  return wrong;
}

config::problems cannot_run_here(const prepared_job& job) {
  for (auto wrong : {config::only_simulated(job.config), config::process_limits(job.config)})
    if (!wrong.empty())
      return wrong;
  return memory_shortages({&job.config}, job.network, job.data);
}

config::checked<prepared_job> prepare_job(const job_options& options, const std::string& cluster_file, bool read_data) {
  std::optional<config::cluster> cluster;
  if (!cluster_file.empty()) {
    auto read = config::load_cluster(cluster_file);
    if (!read)
      return read.error();
    cluster = std::move(*read);
  }
  auto job = load_job(options, cluster);
  if (!job)
    return job.error();
  print_notes(job->left_out);
  return prepare_job(std::move(*job), std::move(cluster), read_data);
}

config::checked<prepared_job> prepare_job(config::loaded_job job, std::optional<config::cluster> cluster, bool read_data) {
  // With a cluster, other machines compute.
  if (config::problems wrong = cluster ? too_many_copies(job, *cluster) : missing_devices(job); !wrong.empty())
    return config::refusal{std::move(wrong)};
  // A model that does not fit is refused before the data is read.
  if (const data_facts facts = known_facts(job.job.data); facts.format) {
    auto early = build_model(job, *facts.format);
    if (!early)
      return early.error();
    if (config::problems wrong = wrong_init(job, *early, nullptr); !wrong.empty())
      return config::refusal{std::move(wrong)};
    if (!read_data)
      return prepared_job{std::move(job), std::move(cluster), {}, std::move(*early)};
  }
  auto data = load_data(job);
  if (!data)
    return data.error();
  auto network = build_model(job, data->train->format());
  if (!network)
    return network.error();
  if (config::problems wrong = wrong_init(job, *network, data->words.get()); !wrong.empty())
    return config::refusal{std::move(wrong)};
  return prepared_job{std::move(job), std::move(cluster), std::move(*data), std::move(*network)};
}

} // namespace troupe::apps
