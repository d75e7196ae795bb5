// SPDX-License-Identifier: BSD-3-Clause
// `troupe check`: a job, its data, its model and its cost, without starting anything; with a cluster, also its nodes.
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <optional>

#include <boost/json.hpp>
#include <caf/scoped_actor.hpp>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "actors/checkpoint/job_facts.hpp"
#include "actors/roles/codec/push_encoder.hpp"
#include "actors/sockets/ports.hpp"
#include "apps/calibration.hpp"
#include "apps/cluster_check.hpp"
#include "apps/cluster_connection.hpp"
#include "apps/config/job_draft.hpp"
#include "apps/job_setup.hpp"
#include "apps/memory_estimate.hpp"
#include "apps/report.hpp"
#include "apps/traffic_estimate.hpp"
#include "apps/weights_file.hpp"
#include "kernels/backend.hpp"
#include "protocols/catalog.hpp"

namespace troupe::apps {

namespace {

/// What a job costs, and on which devices.
struct job_cost {
  memory_facts facts;
  std::vector<role_memory> roles;
  std::vector<device_need> devices;
  double worker_bytes = 0;      ///< one worker, wherever its memory is
  double shards_bytes = 0;      ///< all shards together
  factored_slots factored = {}; ///< what travels as factors
  traffic_estimate network = {};
  std::optional<lighter_traffic> lighter = {}; ///< than `network`
  std::optional<round_bound> bound = {};
};

/// What a step takes by a trace, on average, or else as the job says; 0: unknown.
config::checked<double> step_ms(const actors::job& job, const std::string& trace) {
  if (trace.empty())
    return job.inject.step_ms;
  const auto measured = read_calibration(trace);
  if (!measured)
    return measured.error();
  double sum = 0, count = 0;
  for (const auto& worker : measured->compute)
    for (const auto each : worker) {
      sum += static_cast<double>(each);
      ++count;
    }
  return count > 0 ? sum / count / 1e6 : 0;
}

/// `trace`: of a run with the job's steps; empty: none.
config::checked<job_cost> cost_of(const prepared_job& prepared, const std::string& trace) {
  const auto facts = memory_facts_of(prepared.config, prepared.network, prepared.data);
  if (!facts)
    return facts.error();
  job_cost cost{
      .facts = *facts, .roles = estimate_memory(prepared.config.job, *facts, prepared.config.added.protocols), .devices = {}};
  const std::int64_t floats = prepared.network.layout().floats();
  cost.factored = actors::factored_slots_of(prepared.config.job, prepared.network);
  cost.network = estimate_traffic(prepared.config.job, floats, prepared.config.added.protocols, cost.factored);
  cost.lighter = lighten(prepared.config.job, floats, prepared.config.added.protocols, cost.factored);
  const auto step = step_ms(prepared.config.job, trace);
  if (!step)
    return step.error();
  cost.bound = bound_round(prepared.config.job, cost.network, *step, prepared.config.added.protocols);
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
    values.push_back({{"key", v.key}, {"value", config::to_json(v.resolved)}, {"from", v.from}});
  return values;
}

boost::json::array layers_json(const plan_cost& step) {
  boost::json::array layers;
  for (const layer_cost& each : step.layers)
    if (!each.layer.empty()) // the inputs
      layers.push_back({{"layer", each.layer},
                        {"result", each.result},
                        {"parameters", each.parameters},
                        {"flops_per_sample", each.flops_per_row},
                        {"kept_bytes_per_sample", each.kept_bytes_per_row}});
  return layers;
}

/// What each layer makes, and its part of a step's cost.
std::string layers_table(const plan_cost& step) {
  std::vector<std::vector<std::string>> rows{{"layer", "result", "parameters", "MFLOP a sample", "kept a sample"}};
  for (const layer_cost& each : step.layers)
    if (!each.layer.empty())
      rows.push_back({each.layer, each.result, fmt::format("{}", each.parameters),
                      fmt::format("{:.3f}", each.flops_per_row / 1e6), bytes_text(static_cast<double>(each.kept_bytes_per_row))});
  return table(rows);
}

const char* kind_name(slot_kind kind) {
  return kind == slot_kind::trained ? "trained" : kind == slot_kind::frozen ? "frozen" : "statistic";
}

bool is_factored(const factored_slots& all, const parameter_slot& slot) {
  return slot_of(all, {slot.offset, slot.offset + slot.elements()}) != nullptr;
}

boost::json::array layout_json(const model& network, const factored_slots& factored) {
  boost::json::array parameters;
  for (const parameter_slot& slot : network.layout().slots)
    parameters.push_back({{"name", slot.name},
                          {"shape", boost::json::value_from(slot.dims.extents())},
                          {"kind", kind_name(slot.kind)},
                          {"lr_scale", slot.lr_scale},
                          {"factors", is_factored(factored, slot)}});
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
      items.push_back({{"what", i.name}, {"bytes", i.bytes}, {"on_device", i.on_device}});
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
                       {"free_bytes", value_or_null(need.free_bytes != 0, need.free_bytes)}});
  return {{"parameter_bytes", cost.facts.step.parameter_bytes},
          {"workspace_bytes", cost.facts.step.workspace_bytes},
          {"worker_bytes", cost.worker_bytes},
          {"shards_bytes", cost.shards_bytes},
          {"roles", std::move(roles)},
          {"devices", std::move(devices)}};
}

boost::json::object network_json(const job_cost& cost) {
  const auto bytes = [](double number) { return static_cast<std::uint64_t>(std::llround(number)); };
  boost::json::array nodes;
  for (const node_traffic& each : cost.network.nodes)
    nodes.push_back({{"node", each.node}, {"sends", bytes(each.sends)}, {"receives", bytes(each.receives)}});
  boost::json::object out{{"round_bytes", bytes(cost.network.round.all())},
                          {"push_bytes", bytes(cost.network.round.push)},
                          {"params_bytes", bytes(cost.network.round.params)},
                          {"peers_bytes", bytes(cost.network.round.peers)},
                          {"start_bytes", bytes(cost.network.start)},
                          {"evaluation_bytes", bytes(cost.network.evaluation)},
                          {"nodes", std::move(nodes)},
                          {"lessened_by", nullptr},
                          {"computing_ms", nullptr},
                          {"link_ms", nullptr}};
  if (cost.bound) {
    out["computing_ms"] = cost.bound->computing_ms;
    out["link_ms"] = cost.bound->link_ms;
  }
  if (cost.lighter)
    out["lessened_by"] = {
        {"key", cost.lighter->key}, {"value", cost.lighter->value}, {"round_bytes", bytes(cost.lighter->round)}};
  return out;
}

/// What users should know about a job without errors: keys of its file that do not count, and what a real run would refuse.
config::problems notes_of(const config::loaded_job& job) {
  config::problems notes = job.left_out;
  const config::problems virtual_only = config::only_simulated(job);
  notes.insert(notes.end(), virtual_only.begin(), virtual_only.end());
  return notes;
}

boost::json::object check_json(const prepared_job& p, const job_cost& cost) {
  const data_set& train = *p.data.train;
  return {{"ok", true},
          {"job", p.config.job.name},
          {"values", values_json(p.config)},
          {"notes", errors_json({notes_of(p.config)})},
          {"data",
           {{"train_samples", train.size()},
            {"test_samples", p.data.test->size()},
            {"validation_samples", p.data.validation ? p.data.validation->size() : 0},
            {"sample", boost::json::value_from(train.sample().extents())},
            {"classes", train.classes()},
            {"scaling", scaling_text(p.data.scaling)},
            {"mean", boost::json::value_from(p.data.scaling.mean)},
            {"deviation", boost::json::value_from(p.data.scaling.deviation)}}},
          {"model",
           {{"layers", boost::json::value_from(p.config.job.model.layers)},
            {"parameters", parameter_count(p.network)},
            {"costs", layers_json(cost.facts.step)},
            {"shapes", layout_json(p.network, cost.factored)}}},
          {"flops_per_sample", cost.facts.step.flops_per_row},
          {"memory", memory_json(cost)},
          {"network", network_json(cost)},
          {"cluster", nullptr},
          {"nodes", nullptr},
          {"errors", boost::json::array{}}};
}

/// One row per role, then the need of each device.
std::string memory_table(const job_cost& cost) {
  std::vector<std::vector<std::string>> rows{{"memory of", "on", "each", "made of"}};
  for (const role_memory& role : cost.roles) {
    std::vector<std::string> items;
    for (const memory_item& i : role.items)
      items.push_back(fmt::format("{}{} {}", i.name, i.on_device || role.device == "cpu" ? "" : " (host)", bytes_text(i.bytes)));
    rows.push_back({counted(role.count, role.role), role.device, bytes_text(role.device_bytes() + role.host_bytes()),
                    fmt::format("{}", fmt::join(items, ", "))});
  }
  std::string text = table(rows);
  for (const device_need& need : cost.devices)
    text += fmt::format("{}: about {} needed{}\n", need.device == "cpu" ? "host" : need.device, bytes_text(need.bytes),
                        need.free_bytes == 0 ? "" : fmt::format(", {} free", bytes_text(need.free_bytes)));
  return text;
}

/// What each node sends and receives; those that do alike in one row. Nothing for one node.
std::string network_table(const job_cost& cost) {
  const auto& nodes = cost.network.nodes;
  if (nodes.size() < 2)
    return {};
  std::vector<std::vector<std::string>> rows{{"network", "sends a round", "receives"}};
  for (std::size_t first = 0, next = 0; first < nodes.size(); first = next) {
    const auto alike = [&](const node_traffic& other) {
      return other.sends == nodes[first].sends && other.receives == nodes[first].receives;
    };
    while (next < nodes.size() && alike(nodes[next]))
      ++next;
    rows.push_back(
        {next - first == 1 ? nodes[first].node : fmt::format("{} to {}, each", nodes[first].node, nodes[next - 1].node),
         bytes_text(nodes[first].sends), bytes_text(nodes[first].receives)});
  }
  std::string text = table(rows)
                     + fmt::format("network: {} a round, in which each worker pushes once; an evaluation {}\n",
                                   bytes_text(cost.network.round.all()), bytes_text(cost.network.evaluation));
  if (cost.bound)
    text += fmt::format("a round: at best {:.1f} ms; each worker computes for {:.1f} ms, and a link carries for {:.1f} ms\n",
                        cost.bound->at_best_ms(), cost.bound->computing_ms, cost.bound->link_ms);
  if (cost.lighter)
    text +=
        fmt::format("{} = \"{}\" would make that {}\n", cost.lighter->key, cost.lighter->value, bytes_text(cost.lighter->round));
  return text;
}

/// `nodes`: a table of the cluster's nodes, next to the verdict, where it does not scroll away.
void print_for_people(const prepared_job& p, const job_cost& cost, const std::string& nodes = {}) {
  const actors::job& job = p.config.job;
  std::vector<std::vector<std::string>> rows{{"key", "from", "value"}};
  for (const config::resolved_value& v : p.config.values)
    rows.push_back({v.key, v.from, config::to_text(v.resolved)});
  fmt::print("{}\n", table(rows));
  const auto held_out = p.data.validation ? fmt::format(", {} held out,", p.data.validation->size()) : "";
  fmt::print("data: {} training{} and {} test samples of {}, {} classes\n", p.data.train->size(), held_out, p.data.test->size(),
             p.data.train->sample().to_string(), p.data.train->classes());
  if (const data_scaling& scaling = p.data.scaling; !scaling.mean.empty())
    fmt::print("scaled: {}; mean {}, deviation {}\n", scaling_text(scaling), numbers_text(scaling.mean),
               numbers_text(scaling.deviation));
  fmt::print("model: {} parameters\n{}", parameter_count(p.network), layers_table(cost.facts.step));
  std::vector<std::vector<std::string>> shapes{{"parameter", "shape", "in a step"}};
  for (const parameter_slot& slot : p.network.layout().slots)
    shapes.push_back({slot.name, slot.dims.to_string(),
                      kind_name(slot.kind) + (slot.lr_scale == 1 ? "" : fmt::format(", lr times {}", slot.lr_scale))
                          + (is_factored(cost.factored, slot) ? ", pushed as factors" : "")});
  fmt::print("{}", table(shapes));
  fmt::print("cost: {:.2f} MFLOP a sample\n{}", cost.facts.step.flops_per_row / 1e6, memory_table(cost));
  fmt::print("{}", network_table(cost));
  fmt::print("{}", nodes);
  fmt::print("{}: {} with {}, {} and {}; nothing is wrong\n", p.config.file, job.protocol.name,
             counted(job.cluster.workers, "worker"), counted(job.cluster.shards, "shard"), counted(job.cluster.nodes, "node"));
}

int refuse_check(const config::refusal& why, bool json, boost::json::value nodes = nullptr) {
  if (json)
    print_json({{"ok", false}, {"errors", errors_json(why)}, {"nodes", std::move(nodes)}});
  return refuse(why);
}

/// The nodes' reports, or why the cluster could not be asked.
struct reached_nodes {
  std::optional<actors::cluster_probe> said;
  std::string why_not;
};

/// Each node reads its data to report its digests, and the cluster waits for them.
constexpr std::chrono::seconds patience{90};

reached_nodes ask_nodes(const config::cluster& where, const actors::job& job, const actors::extensions& added) {
  cluster_connection connection{where};
  if (!connection)
    return {{}, connection.why_not()};
  bool accelerators = wants_accelerators(job.compute);
  for (const auto& node : where.nodes)
    accelerators |= std::ranges::any_of(node.devices, [](const std::string& device) { return device != "cpu"; });
  const auto runs = protocols::find_protocol(job.protocol.name, added.protocols);
  const bool workers_write = runs && actors::workers_write(job, *runs);
  reached_nodes reached;
  caf::scoped_actor asker{connection.system()};
  asker->request(connection.cluster(), patience, actors::probe_query{job.data, accelerators, job.checkpoint.dir, workers_write})
      .receive(
          [&](actors::cluster_probe& all) { reached.said = std::move(all); },
          [&](const caf::error& e) { reached.why_not = "the cluster's coordinator does not answer: " + actors::explain(e); });
  return reached;
}

/// A cluster that does not run is not an error of the files; one that runs but does not answer, or refuses this client, is.
int check_on_cluster(const prepared_job& prepared, const job_cost& cost, const check_options& options) {
  const config::cluster& file = *prepared.cluster;
  const reached_nodes reached = ask_nodes(file, prepared.config.job, prepared.config.added);
  const auto nodes = reached.said ? nodes_json(*reached.said, file) : boost::json::array{};
  config::problems wrong;
  if (reached.said)
    for (auto& mismatch : mismatches(*reached.said, {prepared.config.job, file, cost.roles}))
      wrong.push_back({options.cluster, std::move(mismatch)});
  else if (actors::net::somebody_listens(file.coordinator().host, file.coordinator().port))
    wrong.push_back(
        {options.cluster,
         reached.why_not + ", but something listens there: check that it is this cluster, of this version, and not stopped"});
  else
    fmt::print(stderr, "{}: the cluster does not run, so the files alone are checked: {}\n", options.cluster, reached.why_not);
  const std::string text =
      reached.said ? fmt::format("cluster {}\n{}", reached.said->name, nodes_table(*reached.said, file)) : "";
  if (!wrong.empty()) {
    if (!options.json)
      fmt::print("{}", text);
    return refuse_check({wrong}, options.json, nodes);
  }
  if (!options.json) {
    print_for_people(prepared, cost, text);
    return exit_done;
  }
  auto out = check_json(prepared, cost);
  out["cluster"] = {
      {"name", file.name}, {"reached", reached.said.has_value()}, {"reason", value_or_null(!reached.said, reached.why_not)}};
  out["nodes"] = nodes;
  print_json(out);
  return exit_done;
}

boost::json::object keys_json(const actors::extensions& added) {
  const config::loaded_job defaults{};
  boost::json::array keys;
  for (const auto& key : config::job_keys(added)) {
    boost::json::object one = config::to_json(key.accepts);
    one["key"] = key.full_name();
    one["accepts"] = config::expected(key.accepts);
    one["default"] = !key.optional ? config::to_json(key.get(defaults)) : boost::json::value(nullptr);
    one["meaning"] = key.meaning;
    keys.push_back(std::move(one));
  }
  return {{"keys", std::move(keys)}};
}

} // namespace

int execute(const check_options& options) {
  if (options.keys && options.json) {
    print_json(keys_json(options.job.added));
    return exit_done;
  }
  if (options.keys) {
    fmt::print("The keys of a job file, section by section.\n{}", config::describe_keys(options.job.added));
    return exit_done;
  }
  const auto prepared = prepare_job(options.job, options.cluster);
  if (!prepared)
    return refuse_check(prepared.error(), options.json);
  if (auto wrong = config::process_limits(prepared->config); !wrong.empty())
    return refuse_check({std::move(wrong)}, options.json);
  const auto cost = cost_of(*prepared, options.calibrate);
  if (!cost)
    return refuse_check(cost.error(), options.json);
  print_notes(config::only_simulated(prepared->config));
  if (prepared->cluster)
    return check_on_cluster(*prepared, *cost, options);
  if (const config::problems wrong = memory_shortages(prepared->config, cost->roles, cost->devices); !wrong.empty())
    return refuse_check({wrong}, options.json);
  if (const auto& folder = prepared->config.job.checkpoint.dir; !folder.empty())
    if (const auto why = actors::why_not_writable(folder); !why.empty())
      return refuse_check({{{prepared->config.file, "checkpoint.dir: " + why}}}, options.json);
  if (options.json)
    print_json(check_json(*prepared, *cost));
  else
    print_for_people(*prepared, *cost);
  return exit_done;
}

} // namespace troupe::apps
