// SPDX-License-Identifier: BSD-3-Clause
// `troupe run`: a job on an embedded cluster of processes.
#include <cstdio>

#include <boost/json.hpp>
#include <fmt/format.h>

#include "actors/net/web_server.hpp"
#include "actors/trace_file.hpp"
#include "apps/job_setup.hpp"
#include "apps/report.hpp"
#include "apps/run_cluster.hpp"
#include "apps/run_job.hpp"
#include "apps/web/feed.hpp"
#include "tensor/safetensors.hpp"

namespace troupe::apps {

namespace {

void print_summary(const actors::job_result& r, const std::string& digest) {
  fmt::print("test accuracy {:.4f}, test loss {:.4f}, train loss {:.4f}\n", r.last->test_accuracy, r.last->test_loss,
             r.last->train_loss);
  fmt::print("{} steps, {} samples in {:.1f} s of training: {:.0f} samples/s\n", r.steps, r.samples, r.seconds,
             r.seconds > 0 ? static_cast<double>(r.samples) / r.seconds : 0);
  fmt::print("memory of the largest node: {:.0f} MB at the first evaluation, {:.0f} MB at the end\n",
             static_cast<double>(r.resident_bytes_first) * 1e-6, static_cast<double>(r.resident_bytes) * 1e-6);
  fmt::print("weights {}\n", digest);
}

} // namespace

int run_command(const run_options& options) {
  if (!options.save.empty())
    if (auto why = cannot_write(options.save); !why.empty())
      return refuse({{{"--save", why}}});
  if (!options.trace.empty())
    if (auto why = cannot_write(options.trace); !why.empty())
      return refuse({{{"--trace", why}}});
  if (options.listen && !options.cluster.empty())
    return refuse({{{"--listen", "is for a run of its own; the console reaches a cluster by --cluster"}}});
  auto where = actors::net::parse_web_address(options.web);
  if (!where)
    return refuse({{{"--web", where.error().what}}});
  auto prepared = prepare_job(options.job, options.cluster, options.cluster.empty());
  if (!prepared)
    return refuse(prepared.error());
  if (auto wrong = config::only_simulated(prepared->config); !wrong.empty())
    return refuse({std::move(wrong)});
  if (!prepared->cluster) // else other hosts' memory counts
    if (auto wrong = memory_shortages({&prepared->config}, prepared->network, prepared->data); !wrong.empty())
      return refuse({std::move(wrong)});
  prepared->data = {}; // each node reads its own

  signal_waiter signals;
  const model& network = prepared->network;
  std::unique_ptr<actors::net::web_server> web;
  if (options.has_web) {
    auto opened = actors::net::open_web_server({.address = *where, .page = web::page});
    if (!opened)
      return refuse({{{"--web", opened.error().what}}});
    web = std::move(*opened);
    where->port = web->port();
    fmt::print(stderr, "web page at {}\n", actors::net::url_of(*where));
  }
  const run_view view{options.quiet, options.log, !options.trace.empty(), options.listen, web.get()};
  const job_outcome outcome = prepared->cluster ? run_on_cluster(*prepared->cluster, prepared->config, network, view, signals)
                                                : run_job(prepared->config, network, view, signals);
  const actors::job_result& result = outcome.result;
  bool trace_failed = false;
  if (!options.trace.empty() && !result.trace.empty()) // of a run that failed or was interrupted, too
    if (auto written = actors::write_trace(options.trace, prepared->config.job, result.trace); !written) {
      fmt::print(stderr, "troupe: {}\n", written.error().what);
      trace_failed = true;
    }
  if (result.interrupted) {
    fmt::print(stderr, "troupe: interrupted after {} steps\n", result.steps);
    return exit_interrupted;
  }
  if (result.failed) {
    fmt::print(stderr, "troupe: the job failed: {}\n", result.reason);
    return exit_failed;
  }
  if (!options.save.empty())
    if (auto saved = save_safetensors(options.save, network.layout(), result.parameters.as<const float>()); !saved) {
      fmt::print(stderr, "troupe: {}\n", saved.error().what);
      return exit_failed;
    }
  if (options.json)
    print_json(to_json(prepared->config, outcome));
  else
    print_summary(result, outcome.digest);
  return trace_failed ? exit_failed : exit_done;
}

} // namespace troupe::apps
