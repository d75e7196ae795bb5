// SPDX-License-Identifier: BSD-3-Clause
// One job on an embedded cluster of processes.
#include "apps/run_job.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>

#include <boost/json.hpp>
#include <caf/actor_system.hpp>
#include <fmt/format.h>

#include "actors/roles/coordinator/coordinator_setup.hpp"
#include "actors/system.hpp"
#include "apps/await_result.hpp"
#include "apps/embedded_cluster.hpp"
#include "apps/report.hpp"
#include "apps/run_display.hpp"
#include "apps/submitter.hpp"
#include "protocols/catalog.hpp"
#include "tensor/safetensors.hpp"

namespace troupe::apps {

namespace {

constexpr std::chrono::seconds join_timeout{30};

} // namespace

job_outcome run_job(const config::loaded_job& loaded, const model& network, const run_view& view, signal_waiter& signals) {
  const actors::job& job = loaded.job;
  const auto name = fmt::format("{}{:016x}", embedded_name, actors::random_job_key());
  auto display = std::make_shared<run_display>(job, view.quiet, view.log, signals);
  actors::init_message_types();
  actors::system_config config{{.networked = job.cluster.nodes > 1 || view.port, .cluster_key = name, .listens = true}};
  caf::actor_system system{config};
  embedded_cluster cluster{system, signals, {.nodes = job.cluster.nodes, .name = name, .port = view.port, .added = loaded.added}};
  if (cluster.port() != 0 && !view.quiet)
    fmt::print(stderr, "troupe: `troupe console 127.0.0.1:{}` shows what it does\n", cluster.port());
  auto client = submit(system, {.cluster = cluster.actor(),
                                .request = {job, view.trace},
                                .display = display,
                                .page = view.web,
                                .floats = network.layout().floats(),
                                .begins_within = join_timeout});
  auto result = await_result(
      *display, signals, [&] { caf::anon_send(client, actors::stop_job{}); },
      [&] {
        for (const auto& text : cluster.ended_children())
          caf::anon_send(client, actors::stop_job{true, text});
      });
  client = nullptr;
  cluster.shut_down();
  return outcome_of(std::move(result), *display, network);
}

job_outcome failed_outcome(std::string reason) {
  job_outcome outcome;
  outcome.result.failed = true;
  outcome.result.reason = std::move(reason);
  return outcome;
}

job_outcome outcome_of(actors::job_result result, run_display& seen, const model& network) {
  job_outcome outcome{std::move(result), {}, seen.evaluations()};
  if (!outcome.result.parameters.empty())
    outcome.digest = weights_digest(network.layout(), outcome.result.parameters.as<const float>());
  return outcome;
}

boost::json::object to_json(const config::loaded_job& loaded, const job_outcome& outcome) {
  const actors::job_result& r = outcome.result;
  const auto& job = loaded.job;
  bool evaluated = r.last.has_value();
  boost::json::object out;
  out["job"] = job.name;
  out["protocol"] = job.protocol.name;
  out["backend"] = job.compute.device;
  out["workers"] = job.cluster.workers;
  out["nodes"] = job.cluster.nodes;
  out["shards"] = job.cluster.shards;
  out["seed"] = job.seed;
  out["epochs"] = number_or_null(true, r.epochs);
  out["steps"] = r.steps;
  out["gradients"] = r.gradients;
  out["samples"] = r.samples;
  out["seconds"] = r.seconds;
  out["samples_per_s"] = number_or_null(r.seconds > 0, r.seconds > 0 ? static_cast<double>(r.samples) / r.seconds : 0);
  out["train_loss"] = number_or_null(evaluated, evaluated ? r.last->train_loss : 0);
  out["test_loss"] = number_or_null(evaluated, evaluated ? r.last->test_loss : 0);
  out["test_accuracy"] = number_or_null(evaluated, evaluated ? r.last->test_accuracy : 0);
  out["target_reached"] = value_or_null(job.stop.target_accuracy > 0, r.target_reached);
  out["time_to_target_s"] = number_or_null(r.time_to_target_s.has_value(), r.time_to_target_s.value_or(0));
  out["bytes_sent"] = r.bytes_sent;
  out["bytes_received"] = r.bytes_received;
  out["staleness_mean"] = r.staleness_mean();
  out["staleness_max"] = r.staleness_max();
  boost::json::array histogram;
  for (const auto& [versions, pushes] : r.staleness)
    histogram.push_back(boost::json::array{versions, pushes});
  out["staleness_histogram"] = std::move(histogram);
  const auto planned = protocols::planned_protocols(job.protocol, loaded.added.protocols);
  out["decode_residual"] = number_or_null(std::ranges::any_of(planned, &protocols::protocol::decodes), r.residual_max);
  out["discarded"] = r.discarded;
  out["restarts"] = r.restarts;
  out["communication_period"] = r.period;
  out["resident_bytes"] = r.resident_bytes;
  out["resident_bytes_first"] = r.resident_bytes_first;
  out["interrupted"] = value_or_null(r.interrupted, r.reason);
  out["error"] = value_or_null(r.failed && !r.interrupted, r.reason);
  out["evaluated_step"] = value_or_null(evaluated, evaluated ? r.last->step : 0);
  out["weights_step"] = value_or_null(!outcome.digest.empty(), r.weights_step.value_or(0));
  out["weights_digest"] = value_or_null(!outcome.digest.empty(), outcome.digest);
  out["version"] = TROUPE_VERSION;
  out["config"] = config::to_json(loaded);
  return out;
}

} // namespace troupe::apps
