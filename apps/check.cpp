// SPDX-License-Identifier: BSD-3-Clause
// `troupe check`: a job's configuration, data and model, and what it will cost, without starting anything.
#include <algorithm>
#include <cstdio>

#include <boost/json.hpp>
#include <fmt/format.h>

#include "apps/job_setup.hpp"
#include "apps/report.hpp"
#include "kernels/backend.hpp"
#include "tensor/plan.hpp"

namespace troupe::apps {

namespace {

/// What a job takes, from its shapes.
struct job_cost {
  plan_cost step;
  double worker_bytes = 0; ///< parameters being used and being received, gradients, workspace, two batches
  double shards_bytes = 0; ///< all shards together: parameters twice, optimizer, a gradient of each worker
};

/// The cost of a step over `rows` rows. What is large is estimated from what is small: a check must not take a job's memory.
result<plan_cost> step_cost(const model& network, std::int64_t rows) {
  constexpr std::int64_t most_rows = 128;
  const auto queue = kernels::open_backend({});
  const auto compiled = plan::compile(network, *queue, {.max_rows = std::min(rows, most_rows), .training = true});
  if (!compiled)
    return compiled.error();
  plan_cost cost = (*compiled)->cost();
  cost.workspace_bytes = static_cast<std::int64_t>(static_cast<double>(cost.workspace_bytes) / std::min(rows, most_rows) * rows);
  return cost;
}

config::checked<job_cost> cost_of(const prepared_job& prepared) {
  const actors::job& job = prepared.config.job;
  const auto step = step_cost(prepared.network, job.data.batch);
  if (!step)
    return config::refusal{{{where_of(prepared.config, "model.layers"), step.error().what}}};
  job_cost cost{.step = *step};
  const auto parameters = static_cast<double>(cost.step.parameter_bytes);
  constexpr int label_bytes = 4, float_bytes = 4;
  const auto batch_bytes =
      static_cast<double>(job.data.batch * (prepared.network.sample().elements() * float_bytes + label_bytes));
  cost.worker_bytes = 3 * parameters + static_cast<double>(cost.step.workspace_bytes) + 2 * batch_bytes;
  const int optimizer_copies = job.optimizer.name == "adamw" ? 2 : job.optimizer.momentum > 0 ? 1 : 0;
  cost.shards_bytes = (2 + optimizer_copies + job.cluster.workers) * parameters;
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
          {"flops_per_sample", cost.step.flops_per_row},
          {"memory",
           {{"parameter_bytes", cost.step.parameter_bytes},
            {"workspace_bytes", cost.step.workspace_bytes},
            {"worker_bytes", cost.worker_bytes},
            {"shards_bytes", cost.shards_bytes}}},
          {"errors", boost::json::array{}}};
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
  fmt::print("cost: {:.2f} MFLOP a sample; about {} a worker ({} parameters, {} workspace) and {} in the shards\n",
             cost.step.flops_per_row / 1e6, bytes_text(cost.worker_bytes),
             bytes_text(static_cast<double>(cost.step.parameter_bytes)),
             bytes_text(static_cast<double>(cost.step.workspace_bytes)), bytes_text(cost.shards_bytes));
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
    fmt::print("The keys of a job file, section by section.\n{}", config::describe_keys());
    return exit_done;
  }
  const auto prepared = prepare_job(options.job, options.cluster);
  if (!prepared)
    return refuse_check(prepared.error(), options.json);
  const auto cost = cost_of(*prepared);
  if (!cost)
    return refuse_check(cost.error(), options.json);
  if (options.json)
    print_json(as_json(*prepared, *cost));
  else
    print_for_people(*prepared, *cost);
  return exit_done;
}

} // namespace troupe::apps
