// SPDX-License-Identifier: BSD-3-Clause
// `troupe run`: a job on an embedded cluster of processes.
#include <cstdio>
#include <filesystem>
#include <random>

#include <boost/json.hpp>
#include <caf/actor_system.hpp>
#include <fmt/format.h>
#include <unistd.h>

#include "actors/coordinator_actor.hpp"
#include "actors/system.hpp"
#include "apps/embedded_cluster.hpp"
#include "apps/job_setup.hpp"
#include "apps/report.hpp"
#include "apps/run_display.hpp"
#include "tensor/safetensors.hpp"

namespace troupe::apps {

namespace {

constexpr int join_timeout_ms = 30'000;

/// Names this cluster among others on the machine, so that nodes of two runs cannot mix.
std::uint64_t random_key() {
  std::random_device source;
  return (std::uint64_t{source()} << 32U) | source();
}

/// What is wrong with a file that the job will want to write at its end, found before it starts.
std::string cannot_write(const std::string& path) {
  if (std::filesystem::is_directory(path))
    return fmt::format("{} is a folder; name a file in it", path);
  auto slash = path.rfind('/');
  auto folder = slash == std::string::npos ? std::string{"."} : path.substr(0, slash + 1);
  if (access(folder.c_str(), W_OK | X_OK) != 0)
    return fmt::format("cannot write into {}: {}", folder, std::strerror(errno));
  return {};
}

boost::json::value number_or_null(bool applies, double value) {
  return applies ? boost::json::value(value) : boost::json::value(nullptr);
}

boost::json::object to_json(const config::loaded_job& loaded, const actors::job_result& r, const std::string& digest) {
  const auto& what = loaded.job;
  bool evaluated = r.last.has_value();
  boost::json::object out;
  out["job"] = what.name;
  out["protocol"] = what.protocol.name;
  out["backend"] = what.compute.device;
  out["workers"] = what.cluster.workers;
  out["nodes"] = what.cluster.nodes;
  out["shards"] = what.cluster.shards;
  out["seed"] = what.seed;
  out["epochs"] = r.epochs;
  out["steps"] = r.steps;
  out["gradients"] = r.gradients;
  out["samples"] = r.samples;
  out["seconds"] = r.seconds;
  out["samples_per_s"] = number_or_null(r.seconds > 0, r.seconds > 0 ? static_cast<double>(r.samples) / r.seconds : 0);
  out["train_loss"] = number_or_null(evaluated, evaluated ? r.last->train_loss : 0);
  out["test_loss"] = number_or_null(evaluated, evaluated ? r.last->test_loss : 0);
  out["test_accuracy"] = number_or_null(evaluated, evaluated ? r.last->test_accuracy : 0);
  out["target_reached"] = what.stop.target_accuracy > 0 ? boost::json::value(r.target_reached) : boost::json::value(nullptr);
  out["time_to_target_s"] = number_or_null(r.time_to_target_s.has_value(), r.time_to_target_s.value_or(0));
  out["bytes_sent"] = r.bytes_sent;
  out["bytes_received"] = r.bytes_received;
  out["staleness_mean"] = r.staleness_mean();
  out["staleness_max"] = r.staleness_max();
  out["discarded"] = r.discarded;
  out["restarts"] = 0;
  out["communication_period"] = r.period;
  out["resident_bytes"] = r.resident_bytes;
  out["resident_bytes_first"] = r.resident_bytes_first;
  out["weights_digest"] = digest.empty() ? boost::json::value(nullptr) : boost::json::value(digest);
  out["version"] = TROUPE_VERSION;
  out["config"] = config::to_json(loaded);
  return out;
}

void print_summary(const actors::job_result& r, const std::string& digest) {
  fmt::print("test accuracy {:.4f}, test loss {:.4f}, train loss {:.4f}\n", r.last->test_accuracy, r.last->test_loss, r.last->train_loss);
  fmt::print("{} steps, {} samples in {:.1f} s of training: {:.0f} samples/s\n", r.steps, r.samples, r.seconds,
             r.seconds > 0 ? static_cast<double>(r.samples) / r.seconds : 0);
  fmt::print("memory of the largest node: {:.0f} MB at the first evaluation, {:.0f} MB at the end\n",
             static_cast<double>(r.resident_bytes_first) * 1e-6, static_cast<double>(r.resident_bytes) * 1e-6);
  fmt::print("weights {}\n", digest);
}

/// Waits for the result; the first Ctrl-C asks for an orderly end, the second ends at once.
actors::job_result wait_for_result(run_display& display, signal_waiter& signals, embedded_cluster& cluster,
                                   const actors::coordinator_actor& coordinator) {
  bool interrupted = false;
  for (;;) {
    if (auto result = display.take_result())
      return std::move(*result);
    auto woken = signals.wait(-1);
    if (woken.child_ended)
      for (const auto& text : cluster.ended_children())
        display.on_event(text);
    if (woken.interrupted && interrupted)
      _exit(exit_interrupted); // the kernel ends the children with us
    if (woken.interrupted) {
      interrupted = true;
      caf::anon_send(coordinator, actors::stop_job{false, "interrupted"});
    }
  }
}

} // namespace

int run_command(const run_options& options) {
  if (!options.cluster.empty())
    return refuse({{{"--cluster", "running on a cluster of your own is not there yet; without --cluster the job runs on this machine"}}});
  if (!options.trace.empty())
    return refuse({{{"--trace", "traces are not there yet; leave it out"}}});
  if (!options.save.empty())
    if (auto why = cannot_write(options.save); !why.empty())
      return refuse({{{"--save", why}}});
  auto prepared = prepare_job(options.job, options.cluster);
  if (!prepared)
    return refuse(prepared.error());
  if (auto wrong = config::only_simulated(prepared->config); !wrong.empty())
    return refuse({std::move(wrong)});
  const auto& job = prepared->config.job;
  const auto data_size = prepared->data.train->size();
  prepared->data = {}; // each node reads its own

  signal_waiter signals;
  const auto key = random_key();
  const auto name = fmt::format("embedded-{:016x}", key);
  auto display = std::make_shared<run_display>(job, data_size, options.quiet, options.log, signals);
  actors::init_message_types();
  actors::system_config config{{.networked = job.cluster.nodes > 1, .cluster_key = name}};
  caf::actor_system system{config};
  embedded_cluster cluster{system, signals, job.cluster.nodes, name};
  if (auto why = cluster.wait_for_nodes(join_timeout_ms); !why.empty()) {
    fmt::print(stderr, "troupe: {}\n", why);
    return why == "interrupted" ? exit_interrupted : exit_failed;
  }
  auto coordinator = system.spawn<actors::coordinator_impl>(actors::coordinator_setup{job, key, cluster.nodes(), display});
  auto result = wait_for_result(*display, signals, cluster, coordinator);
  coordinator = nullptr;
  cluster.shut_down();

  std::string digest;
  const auto& layout = prepared->network.layout();
  if (!result.parameters.empty() && !result.failed)
    digest = weights_digest(layout, result.parameters.as<const float>());
  if (result.interrupted) {
    fmt::print(stderr, "troupe: interrupted after {} steps\n", result.steps);
    return exit_interrupted;
  }
  if (result.failed) {
    fmt::print(stderr, "troupe: the job failed: {}\n", result.reason);
    return exit_failed;
  }
  if (!options.save.empty())
    if (auto saved = save_safetensors(options.save, layout, result.parameters.as<const float>()); !saved) {
      fmt::print(stderr, "troupe: {}\n", saved.error().what);
      return exit_failed;
    }
  if (options.json)
    print_json(to_json(prepared->config, result, digest));
  else
    print_summary(result, digest);
  return exit_done;
}

} // namespace troupe::apps
