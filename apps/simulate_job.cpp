// SPDX-License-Identifier: BSD-3-Clause
// One job in virtual time.
#include "apps/simulate_job.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <stdexcept>

#include <boost/json.hpp>
#include <fmt/format.h>

#include "actors/node/place_roles.hpp"
#include "actors/roles/codec/push_encoder.hpp"
#include "actors/roles/coordinator/coordinator_setup.hpp"
#include "apps/job_setup.hpp"
#include "apps/memory_estimate.hpp"
#include "apps/model_numerics.hpp"
#include "apps/quadratic_options.hpp"
#include "apps/report.hpp"
#include "apps/signals.hpp"
#include "protocols/catalog.hpp"
#include "protocols/duration.hpp"

namespace troupe::apps {

namespace {

namespace sim = protocols::sim;

/// A job that makes no version for this long, with or without messages, has stalled.
constexpr protocols::nanoseconds stall_after = 3'600'000'000'000;

/// The bytes of a push of a whole batch, as a share of its elements'.
double factored_share(const actors::job& job, const model* network) {
  if (!job.codec.factors() || network == nullptr)
    return 1;
  const auto slots = actors::factored_slots_of(job, *network);
  const auto floats = network->layout().floats();
  const auto parts = cut_into_partitions({0, floats}, job.exchange.partition_bytes(), slots);
  return static_cast<double>(factored_bytes(slots, parts, job.data.batch)) / static_cast<double>(floats) / sizeof(float);
}

/// What a worker's steps are cut into, for communication to hide behind computing; where gradients are summed among workers, the
/// partitions of their sum. By the arithmetic of a step, and none where the model is computed by other code.
std::vector<sim::partition_times> overlap_of(const actors::job& job, const model& network, std::uint32_t sum_partitions) {
  constexpr std::int64_t most = 64; // more make no difference
  const auto facts = job.exchange.overlap ? find_memory_facts(job, network, 0) : memory_facts{};
  const auto& slots = network.layout().slots;
  if (!facts || facts->step.slots.size() != slots.size())
    return {};
  const auto floats = network.layout().floats();
  const auto bytes = std::max(job.exchange.partition_bytes(), floats * std::int64_t{sizeof(float)} / most);
  const bool at_once = job.optimizer.clip_norm > 0 || std::ranges::any_of(slots, &parameter_slot::own_rate);
  const bool ahead = job.compute.device == "cpu" && !(sum_partitions > 0 && at_once);
  const auto pieces = static_cast<double>((job.data.batch + job.data.piece_rows() - 1) / job.data.piece_rows());
  std::vector<sim::partition_times> out;
  for (const flat_range& part :
       sum_partitions > 0 ? cut_into_shards(floats, static_cast<int>(sum_partitions)) : cut_into_partitions({0, floats}, bytes)) {
    sim::partition_times& times =
        out.emplace_back(sim::partition_times{static_cast<double>(part.end) / static_cast<double>(floats), ahead ? 1.0 : 0.0, 0});
    for (std::size_t i = 0; i < slots.size(); ++i)
      if (slots[i].offset < part.end && part.begin < slots[i].offset + slots[i].elements()) {
        times.needed = std::min(times.needed, facts->step.slots[i].needed / pieces);
        times.ready = std::max(times.ready, 1 - (1 - facts->step.slots[i].ready) / pieces);
      }
  }
  return out;
}

/// `network`: null where it is not known.
sim::options simulator_options(const config::loaded_job& loaded, std::int64_t data_size, const model* network,
                               const sim::calibration& measured) {
  const actors::job& job = loaded.job;
  const auto model_bytes = network == nullptr ? 0 : static_cast<std::uint64_t>(network->layout().floats()) * sizeof(float);
  sim::options out;
  out.job = actors::coordinator_options_of(job, data_size, loaded.added.protocols);
  out.protocol = job.protocol;
  out.clips = job.optimizer.clip_norm > 0;
  out.added = loaded.added.protocols;
  out.seed = job.seed;
  out.inject = job.inject;
  out.measured = measured;
  out.model_bytes = model_bytes;
  out.push_form = job.codec.form();
  out.params_form = job.codec.params_form();
  out.pushed_share = [job, factored = factored_share(job, network)](protocols::version base) {
    return factored * job.codec.pushed_share(base.value);
  };
  if (const auto runs = protocols::find_protocol(job.protocol.name, loaded.added.protocols)) {
    const auto floats = static_cast<std::int64_t>(model_bytes / sizeof(float));
    out.budget = actors::push_budget_of(job, *runs, floats);
    const bool hides = !measured.compute.empty() && network != nullptr;
    out.by_layers = hides && job.exchange.order == "layers";
    out.cut_under = [job, runs, network, floats, hides](std::uint32_t kib) {
      actors::job at = job;
      if (kib > 0)
        at.exchange.partition_kib = kib;
      const std::uint32_t partitions = actors::sum_partitions(at, *runs, floats);
      return sim::step_cut{partitions, hides ? overlap_of(at, *network, runs->reduces_gradients(job.protocol) ? partitions : 0)
                                             : std::vector<sim::partition_times>{}};
    };
  }
  out.changed_share = [job](protocols::version ver) { return job.changed_share(ver.value); };
  out.colocated = job.cluster.where == actors::placement::colocated;
  out.nodes = job.cluster.nodes;
  out.blocks = job.cluster.blocks;
  out.stall_after = stall_after;
  out.interrupted = interrupt_noted;
  return out;
}

/// Refuses a job that would never end because virtual time does not pass, or passes by far too little.
void refuse_endless(const sim::options& how) {
  constexpr double most_steps_unheard = 1e5; // that a worker makes while the news of the first is under way
  const auto step = protocols::duration_of_ms(how.inject.step_ms);
  const bool steps_take_time = step > 0 || !how.measured.compute.empty();
  const bool at_one_place = how.colocated && how.nodes == 1; // no message crosses a link
  const auto transit = at_one_place ? 0.0
                                    : static_cast<double>(protocols::duration_of_ms(how.inject.link.latency_ms))
                                          + static_cast<double>(protocols::transmission(how.inject.link, how.model_bytes));
  const bool links_take_time = transit > 0;
  const auto entry = protocols::find_protocol(how.protocol.name, how.added);
  if (entry && entry->decentralized && !entry->reduces && links_take_time && how.measured.compute.empty()
      && static_cast<double>(step) < transit / most_steps_unheard)
    throw std::runtime_error(fmt::format(
        "steps take {} and {} never waits, so it would make steps without end before a message arrives; set inject.step_ms=10",
        step == 0 ? "no time" : fmt::format("{} ns", step), how.protocol.name));
  if (!steps_take_time && !links_take_time && !how.job.stop.by_steps())
    throw std::runtime_error(
        "steps take no time, so stop.seconds never comes; set inject.step_ms=10, or give stop.steps or stop.epochs");
}

simulation play(const sim::options& options, sim::numerics& maths) {
  refuse_endless(options);
  const auto begin = std::chrono::steady_clock::now();
  simulation out;
  out.result = sim::simulate(options, maths);
  out.wall_seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  for (const sim::curve_point& point : out.result.curve)
    out.evaluations.push_back({static_cast<double>(point.at) * 1e-9, point.found.train_loss, point.found.test_accuracy});
  return out;
}

} // namespace

simulation simulate_model(const config::loaded_job& loaded, const data_pair& data, const model& network,
                          const sim::calibration& measured) {
  const auto maths = make_model_numerics(loaded.job, network, data);
  return play(simulator_options(loaded, data.train->size(), &network, measured), *maths);
}

simulation simulate_quadratic(config::loaded_job loaded, const sim::calibration& measured) {
  const data_facts facts = known_facts(loaded.job.data);
  std::optional<model> network;
  if (facts.format)
    if (auto built = build_model(loaded, *facts.format))
      network = *std::move(built);
  sim::quadratic maths{quadratic_options_of(loaded.job, facts.size)};
  return play(simulator_options(loaded, facts.size, network ? &*network : nullptr, measured), maths);
}

boost::json::object to_json(const config::loaded_job& loaded, const simulation& how) {
  const actors::job& job = loaded.job;
  const sim::result& r = how.result;
  const bool evaluated = !r.curve.empty();
  const sim::evaluation last = evaluated ? r.curve.back().found : sim::evaluation{};
  boost::json::object out;
  out["job"] = job.name;
  out["protocol"] = job.protocol.name;
  out["numerics"] = loaded.numerics;
  out["workers"] = job.cluster.workers;
  out["shards"] = job.cluster.shards;
  out["seed"] = job.seed;
  out["virtual_seconds"] = static_cast<double>(r.virtual_time) * 1e-9;
  out["wall_seconds"] = how.wall_seconds;
  out["events"] = r.events;
  out["steps"] = r.steps;
  out["gradients"] = r.gradients;
  out["samples"] = r.samples;
  out["discarded"] = r.discarded;
  out["staleness_mean"] = r.staleness_mean();
  out["staleness_max"] = r.staleness_max();
  out["train_loss"] = number_or_null(evaluated, last.train_loss);
  out["test_loss"] = number_or_null(evaluated, last.test_loss);
  out["test_accuracy"] = number_or_null(evaluated && loaded.numerics == "model", last.test_accuracy);
  out["validation_loss"] = nullptr;
  if (evaluated && r.curve.back().found.validation_loss)
    out["validation_loss"] = finite_or_null(*r.curve.back().found.validation_loss);
  out["target_reached"] = value_or_null(job.stop.target_accuracy > 0, r.target_reached);
  out["time_to_target_s"] = number_or_null(r.target_reached, static_cast<double>(r.time_to_target) * 1e-9);
  out["communication_period"] = r.period;
  out["partition_kib"] = job.exchange.partition_bytes(r.partition_kib) >> 10;
  out["bytes_sent"] = r.bytes;
  out["bytes_received"] = r.bytes;
  out["faults"] = job.inject.faults.size();
  out["trace_digest"] = fmt::format("{:016x}", r.digest);
  boost::json::array notes;
  for (const std::string& note : r.notes)
    notes.emplace_back(note);
  out["notes"] = std::move(notes);
  out["error"] = value_or_null((r.failed || r.stalled) && !r.interrupted, r.reason);
  return out;
}

} // namespace troupe::apps
