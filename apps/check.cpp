// SPDX-License-Identifier: BSD-3-Clause
// `troupe check`: a job's configuration, data and model, and what it will cost, without starting anything.
#include <cstdio>

#include <boost/json.hpp>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "apps/job_setup.hpp"
#include "apps/memory_estimate.hpp"
#include "apps/report.hpp"
#include "kernels/backend.hpp"

namespace troupe::apps {

namespace {

/// What a job takes, and of which devices.
struct job_cost {
  memory_facts facts;
  std::vector<role_memory> roles;
  std::vector<device_need> devices;
  double worker_bytes = 0; ///< one worker, wherever its memory is
  double shards_bytes = 0; ///< all shards together
};

config::checked<job_cost> cost_of(const prepared_job& prepared) {
  const auto facts = find_memory_facts(prepared.config.job, prepared.network, prepared.data);
  if (!facts)
    return config::refusal{{{where_of(prepared.config, "model.layers"), facts.error().what}}};
  job_cost cost{.facts = *facts, .roles = estimate_memory(prepared.config.job, *facts), .devices = {}};
  cost.devices = compare_with_devices(cost.roles, devices_for(prepared.config.job.compute));
  for (const role_memory& role : cost.roles) {
    const double bytes = role.device_bytes() + role.host_bytes();
    if (role.role == "worker")
      cost.worker_bytes = bytes;
    else if (role.role == "shard")
      cost.shards_bytes = role.count * bytes;
  }
  return cost;
}

boost::json::array values_json(const config::loaded_job& job) {
  boost::json::array values;
  for (const config::resolved_value& v : job.values)
    values.push_back({{"key", v.key}, {"value", config::to_json(v.what)}, {"from", v.from}});
  return values;
}

boost::json::array layout_json(const model& network) {
  boost::json::array parameters;
  for (const parameter_slot& slot : network.layout().slots)
    parameters.push_back({{"name", slot.name}, {"shape", boost::json::value_from(slot.dims.extents())}});
  return parameters;
}

std::int64_t parameter_count(const model& network) {
  std::int64_t count = 0;
  for (const parameter_slot& slot : network.layout().slots)
    count += slot.elements();
  return count;
}

boost::json::object memory_json(const job_cost& cost) {
  boost::json::array roles, devices;
  for (const role_memory& role : cost.roles) {
    boost::json::array items;
    for (const memory_item& i : role.items)
      items.push_back({{"what", i.what}, {"bytes", i.bytes}, {"on_device", i.on_device}});
    roles.push_back({{"role", role.role},
                     {"count", role.count},
                     {"device", role.device},
                     {"device_bytes", role.device_bytes()},
                     {"host_bytes", role.host_bytes()},
                     {"items", std::move(items)}});
  }
  for (const device_need& need : cost.devices)
    devices.push_back({{"device", need.device},
                       {"needed_bytes", need.bytes},
                       {"free_bytes", need.free_bytes == 0 ? boost::json::value{} : boost::json::value(need.free_bytes)}});
  return {{"parameter_bytes", cost.facts.step.parameter_bytes},
          {"workspace_bytes", cost.facts.step.workspace_bytes},
          {"worker_bytes", cost.worker_bytes},
          {"shards_bytes", cost.shards_bytes},
          {"roles", std::move(roles)},
          {"devices", std::move(devices)}};
}

boost::json::object as_json(const prepared_job& p, const job_cost& cost) {
  const data_set& train = *p.data.train;
  return {{"ok", true},
          {"job", p.config.job.name},
          {"values", values_json(p.config)},
          {"data",
           {{"train_samples", train.size()},
            {"test_samples", p.data.test->size()},
            {"sample", boost::json::value_from(train.sample().extents())},
            {"classes", train.classes()}}},
          {"model",
           {{"layers", boost::json::value_from(p.config.job.model.layers)},
            {"parameters", parameter_count(p.network)},
            {"shapes", layout_json(p.network)}}},
          {"flops_per_sample", cost.facts.step.flops_per_row},
          {"memory", memory_json(cost)},
          {"errors", boost::json::array{}}};
}

/// A row a role, and what each device has to give.
std::string memory_table(const job_cost& cost) {
  std::vector<std::vector<std::string>> rows{{"memory of", "on", "each", "made of"}};
  for (const role_memory& role : cost.roles) {
    std::vector<std::string> items;
    for (const memory_item& i : role.items)
      items.push_back(fmt::format("{}{} {}", i.what, i.on_device || role.device == "cpu" ? "" : " (host)", bytes_text(i.bytes)));
    rows.push_back({counted(role.count, role.role), role.device, bytes_text(role.device_bytes() + role.host_bytes()),
                    fmt::format("{}", fmt::join(items, ", "))});
  }
  std::string text = table(rows);
  for (const device_need& need : cost.devices)
    text += fmt::format("{}: about {} needed{}\n", need.device == "cpu" ? "host" : need.device, bytes_text(need.bytes),
                        need.free_bytes == 0 ? "" : fmt::format(", {} free", bytes_text(need.free_bytes)));
  return text;
}

void print_for_people(const prepared_job& p, const job_cost& cost) {
  const actors::job& job = p.config.job;
  std::vector<std::vector<std::string>> rows{{"key", "from", "value"}};
  for (const config::resolved_value& v : p.config.values)
    rows.push_back({v.key, v.from, config::to_text(v.what)});
  fmt::print("{}\n", table(rows));
  fmt::print("data: {} training and {} test samples of {}, {} classes\n", p.data.train->size(), p.data.test->size(),
             p.data.train->sample().to_string(), p.data.train->classes());
  std::vector<std::vector<std::string>> shapes{{"parameter", "shape"}};
  for (const parameter_slot& slot : p.network.layout().slots)
    shapes.push_back({slot.name, slot.dims.to_string()});
  fmt::print("model: {} parameters\n{}", parameter_count(p.network), table(shapes));
  fmt::print("cost: {:.2f} MFLOP a sample\n{}", cost.facts.step.flops_per_row / 1e6, memory_table(cost));
  fmt::print("{}: {} with {}, {} and {}; nothing is wrong\n", p.config.file, job.protocol.name,
             counted(job.cluster.workers, "worker"), counted(job.cluster.shards, "shard"), counted(job.cluster.nodes, "node"));
}

int refuse_check(const config::refusal& why, bool json) {
  if (json)
    print_json({{"ok", false}, {"errors", errors_json(why)}});
  return refuse(why);
}

} // namespace

int check_command(const check_options& options) {
  if (options.keys) {
    fmt::print("The keys of a job file, section by section.\n{}", config::describe_keys(options.job.added));
    return exit_done;
  }
  const auto prepared = prepare_job(options.job, options.cluster);
  if (!prepared)
    return refuse_check(prepared.error(), options.json);
  const auto cost = cost_of(*prepared);
  if (!cost)
    return refuse_check(cost.error(), options.json);
  if (!prepared->cluster) // else other machines have to have it
    if (const config::problems wrong = memory_shortages(prepared->config, cost->roles, cost->devices); !wrong.empty())
      return refuse_check({wrong}, options.json);
  if (options.json)
    print_json(as_json(*prepared, *cost));
  else
    print_for_people(*prepared, *cost);
  return exit_done;
}

} // namespace troupe::apps
