// SPDX-License-Identifier: BSD-3-Clause
// One job on an embedded cluster of processes.
#include "apps/run_job.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <system_error>

#include <boost/json.hpp>
#include <caf/actor_system.hpp>
#include <fmt/format.h>

#include "actors/node/place_roles.hpp"
#include "actors/roles/coordinator/coordinator_setup.hpp"
#include "actors/roles/rate_limited.hpp"
#include "actors/system.hpp"
#include "apps/await_result.hpp"
#include "apps/bounded_system.hpp"
#include "apps/embedded_cluster.hpp"
#include "apps/report.hpp"
#include "apps/run_display.hpp"
#include "apps/start_limit.hpp"
#include "apps/submitter.hpp"
#include "protocols/catalog.hpp"
#include "tensor/safetensors.hpp"

namespace troupe::apps {

namespace {

constexpr std::size_t most_respawns = 5;
constexpr std::chrono::minutes respawn_window{1};

/// Whether the job ends with the processes that are gone: with a part of the parameters, or with the last workers.
bool job_ends_without(std::uint32_t node, const actors::job& job, const embedded_cluster& cluster) {
  const auto places = actors::place_roles(job, std::vector<actors::member_node>(job.cluster.nodes));
  const bool works_here = std::ranges::find(places.workers, 0U, &actors::role_place::node) != places.workers.end();
  return places.needs(node) || (cluster.alone() && !works_here);
}

/// Starts the process of a node anew, which a running job has lost; the node comes back as one of `troupe node` does. Returns
/// what to say; empty: nothing.
std::string respawn(const ended_child& child, const config::loaded_job& loaded, const run_view& view, embedded_cluster& cluster,
                    start_limit& limit) {
  const auto node = child.node;
  if (!loaded.respawn)
    return {};
  if (!view.children.variable.empty() && !child.killed)
    return "is not started anew: a script that ends by itself would do so again";
  if (job_ends_without(node, loaded.job, cluster))
    return {};
  if (!limit.take(start_limit::clock::now()))
    return fmt::format("is not started anew: that was done {} times within a minute, which is the most; how its processes ended "
                       "stands above",
                       most_respawns);
  try {
    cluster.start_child(node);
  } catch (const std::system_error& e) {
    return fmt::format("is not started anew: {}", e.code().message());
  }
  return "is started anew";
}

/// Processes that did not start the job learn how it ended from the end of its cluster.
std::string what_others_hear(const actors::job_result& result) {
  if (result.interrupted)
    return "the first process has ended the job before its time";
  return result.failed ? "the job failed: " + result.reason : "";
}

} // namespace

job_outcome run_job(const config::loaded_job& loaded, const model& network, const run_view& view, signal_waiter& signals) {
  const actors::job& job = loaded.job;
  const auto name = view.hosts != nullptr ? view.hosts->name : fmt::format("{}{:016x}", embedded_name, actors::random_job_key());
  auto display = std::make_shared<run_display>(job, view.quiet, view.log, signals, view.lines);
  actors::init_message_types();
  const auto says = [display](const std::string& text) { display->on_event(text); };
  bounded_system bounded{{.networked = job.cluster.nodes > 1 || view.port || view.hosts != nullptr,
                          .cluster_key = name,
                          .listens = true,
                          .security = view.hosts != nullptr ? view.hosts->security.files() : embedded_security,
                          .refused = actors::turned_away(says)},
                         says};
  caf::actor_system& system = bounded.system();
  embedded_cluster cluster{system,
                           signals,
                           {.nodes = job.cluster.nodes,
                            .name = name,
                            .port = view.port,
                            .added = loaded.added,
                            .children = view.children,
                            .hosts = view.hosts,
                            .peers = bounded.config().peers()}};
  if (cluster.port() != 0 && !view.quiet && view.hosts == nullptr)
    fmt::print(stderr, "troupe: `troupe console 127.0.0.1:{}` shows what it does\n", cluster.port());
  auto client = submit(system, {.cluster = cluster.actor(),
                                .request = {job, view.trace, false, view.rounds != nullptr},
                                .display = display,
                                .page = view.web,
                                .rounds = view.rounds,
                                .floats = network.layout().floats(),
                                .begins_within = view.join_timeout,
                                .says_it_waits = view.hosts != nullptr});
  start_limit limit{most_respawns, respawn_window};
  auto result = await_result(
      *display, signals, [&] { caf::anon_send(client, actors::stop_job{}); },
      [&] {
        for (const auto& child : cluster.ended_children()) {
          const bool wanted = display->job_runs() && !signals.interrupted();
          const auto say = [&](const std::string& ended) {
            caf::anon_send(client, actors::stop_job{true, fmt::format("{} {}", child.name, ended)});
          };
          say(child.how);
          if (const auto text = wanted ? respawn(child, loaded, view, cluster, limit) : ""; !text.empty())
            say(text);
        }
      });
  client = nullptr;
  cluster.shut_down(view.hosts != nullptr ? what_others_hear(result) : "");
  for (const auto& child : cluster.ended_children())
    if (child.spoke) // it ended so late that the job was over first
      display->on_event(fmt::format("{} {}", child.name, child.how));
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
  out["validation_loss"] = nullptr;
  if (evaluated && r.last->validation_loss)
    out["validation_loss"] = finite_or_null(*r.last->validation_loss);
  out["target_reached"] = value_or_null(job.stop.target_accuracy > 0, r.target_reached);
  out["time_to_target_s"] = number_or_null(r.time_to_target_s.has_value(), r.time_to_target_s.value_or(0));
  out["bytes_sent"] = r.bytes_sent;
  out["bytes_received"] = r.bytes_received;
  out["bytes_push"] = r.bytes_push;
  out["bytes_params"] = r.bytes_params;
  out["bytes_peers"] = r.bytes_peers;
  out["overlap"] = number_or_null(r.overlap.has_value(), r.overlap.value_or(0));
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
  out["partition_kib"] = job.exchange.partition_bytes(r.partition_kib) >> 10;
  out["resident_bytes"] = r.resident_bytes;
  out["resident_bytes_first"] = r.resident_bytes_first;
  out["interrupted"] = value_or_null(r.interrupted, r.reason);
  out["error"] = value_or_null(r.failed && !r.interrupted, r.reason);
  out["evaluated_step"] = value_or_null(evaluated, evaluated ? r.last->step : 0);
  out["best_step"] = value_or_null(r.best_step.has_value(), r.best_step.value_or(0));
  out["weights_step"] = value_or_null(!outcome.digest.empty(), r.weights_step.value_or(0));
  out["weights_digest"] = value_or_null(!outcome.digest.empty(), outcome.digest);
  out["version"] = TROUPE_VERSION;
  out["config"] = config::to_json(loaded);
  return out;
}

} // namespace troupe::apps
