// SPDX-License-Identifier: BSD-3-Clause
// `troupe run` and `attach`: a job on an embedded cluster of processes, or on a running one.
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>

#include <boost/json.hpp>
#include <fmt/format.h>
#include <unistd.h>

#include "actors/http/web_server.hpp"
#include "actors/monitoring/trace_file.hpp"
#include "apps/job_setup.hpp"
#include "apps/report.hpp"
#include "apps/resume.hpp"
#include "apps/rounds_file.hpp"
#include "apps/run_cluster.hpp"
#include "apps/run_job.hpp"
#include "apps/web/feed.hpp"
#include "apps/weights_file.hpp"
#include "tensor/safetensors.hpp"

namespace troupe::apps {

namespace {

void print_summary(const actors::job_result& r, const std::string& digest) {
  const auto if_older = [&r](std::uint64_t step) {
    return step == r.steps ? "" : fmt::format(" (of step {}, the last evaluation)", step);
  };
  if (r.last)
    fmt::print("test accuracy {:.4f}, test loss {:.4f}, train loss {:.4f}{}\n", r.last->test_accuracy, r.last->test_loss,
               r.last->train_loss, if_older(r.last->step));
  fmt::print("{} steps, {} samples in {:.1f} s of training: {:.0f} samples/s\n", r.steps, r.samples, r.seconds,
             r.seconds > 0 ? static_cast<double>(r.samples) / r.seconds : 0);
  const auto megabytes = [](std::uint64_t bytes) { return fmt::format("{:.0f} MB", static_cast<double>(bytes) * 1e-6); };
  fmt::print("memory of the largest node: {}{} at the end\n",
             r.resident_bytes_first == 0 ? "" : megabytes(r.resident_bytes_first) + " at the first evaluation, ",
             megabytes(r.resident_bytes));
  if (!digest.empty())
    fmt::print("weights {}{}\n", digest, if_older(r.weights_step.value_or(r.steps)));
}

/// Why a file cannot be written line by line; empty: it can. A device or a pipe will do.
std::string cannot_append(const std::string& path) {
  std::error_code ignored;
  const auto there = std::filesystem::status(path, ignored);
  if (std::filesystem::is_directory(there) || !std::filesystem::exists(there))
    return cannot_write(path);
  return access(path.c_str(), W_OK) == 0 ? "" : fmt::format("cannot write {}: {}; name another", path, std::strerror(errno));
}

/// Checks the files that a run is to write before it starts.
config::problems unwritable_files(const run_options& options) {
  config::problems wrong;
  for (const auto& [flag, file] : {std::pair{"--save", &options.save}, {"--trace", &options.trace}})
    if (auto why = file->empty() ? "" : cannot_write(*file); !why.empty())
      wrong.push_back({flag, why});
  for (const auto& [flag, file] : {std::pair{"--log", &options.log}, {"--rounds", &options.rounds}})
    if (auto why = file->empty() ? "" : cannot_append(*file); !why.empty())
      wrong.push_back({flag, why});
  return wrong;
}

/// Whether the weights can be saved by these names.
config::problems wrong_names(const run_options& options, const parameter_layout& layout) {
  std::vector<tensor_to_save> tensors;
  for (const auto& slot : layout.slots)
    tensors.push_back({slot.name, slot.dims, nullptr});
  std::map<std::string, std::string> ignored;
  if (auto why = with_names(options.names, tensors, ignored); !why.empty())
    return {{"--names", why}};
  return {};
}

/// Sets where the job goes on, and says it. Whoever attaches to a job does not begin it.
config::problems go_on(const run_options& options, prepared_job& prepared) {
  if (options.attach != 0)
    return {};
  if (options.resume.empty())
    return other_checkpoints(prepared.config);
  const auto from = find_checkpoint(options.resume);
  if (!from)
    return from.error().all;
  print_notes(from->passed_over);
  config::loaded_job& loaded = prepared.config;
  const auto samples = prepared.data.train ? prepared.data.train->size() : known_facts(loaded.job.data).size;
  const auto floats = static_cast<std::uint64_t>(prepared.network.layout().floats());
  if (auto wrong = cannot_resume(loaded, *from, floats, samples); !wrong.empty())
    return wrong;
  loaded.job.checkpoint.resume = from->folder;
  if (auto wrong = other_checkpoints(loaded); !wrong.empty())
    return wrong;
  if (!options.quiet)
    fmt::print(stderr, "troupe: goes on from {}, after {} samples\n", from->folder, from->manifest.samples);
  return {};
}

/// With which the job begins.
protocols::version first_version(const actors::job& job) {
  return actors::checkpoint_version(std::filesystem::path(job.checkpoint.resume).filename()).value_or(protocols::version{});
}

/// Returns what went wrong. After a failed run it prints which step the weights are from.
std::string save_weights(const run_options& options, const prepared_job& prepared, const job_outcome& outcome) {
  const std::string& path = options.save;
  const actors::job_result& result = outcome.result;
  if (outcome.digest.empty())
    return fmt::format("--save {}: there is nothing to save: {}", path,
                       result.steps == 0 ? "no step was made" : "no parameters were evaluated");
  auto tensors = tensors_of(prepared.network.layout(), result.parameters.as<const float>());
  auto metadata =
      weights_metadata(prepared.config.job, result.scaling, prepared.data.words.get(), result.weights_step.value_or(0));
  if (auto why = with_names(options.names, tensors, metadata); !why.empty())
    return fmt::format("--names {}: {}", options.names, why);
  if (const auto saved = save_safetensors(path, tensors, metadata); !saved)
    return saved.error().message;
  if (result.failed && result.weights_step)
    fmt::print(stderr, "troupe: {} has the weights of step {}\n", path, *result.weights_step);
  return "";
}

/// Writes the trace and the weights and prints the summary, of an interrupted or failed run as far as there is one.
bool leave_results(const run_options& options, const prepared_job& prepared, const job_outcome& outcome) {
  const actors::job_result& result = outcome.result;
  bool complete = true;
  const auto lost = [&complete](const std::string& why) {
    fmt::print(stderr, "troupe: {}\n", why);
    complete = false;
  };
  if (!options.trace.empty() && !result.trace.empty())
    if (const auto written = actors::write_trace(options.trace, prepared.config.job, result.trace); !written)
      lost(written.error().message);
  if (!options.save.empty())
    if (const auto why = save_weights(options, prepared, outcome); !why.empty())
      lost(why);
  if (options.json)
    print_json(to_json(prepared.config, outcome));
  else if (!result.failed || result.interrupted)
    print_summary(result, outcome.digest);
  return complete;
}

/// Prints how to follow a job that goes on without this process.
int leave_alone(const run_options& options, const detached_job& submitted, const std::string& name) {
  if (submitted.number == 0) {
    fmt::print(stderr, "troupe: the job failed: {}\n", submitted.why_not);
    return exit_failed;
  }
  if (options.json)
    print_json({{"job", name}, {"number", submitted.number}});
  else
    fmt::print("{}\n", submitted.number);
  if (!options.quiet)
    fmt::print(stderr,
               "troupe: job {0} goes on by itself; `troupe console --cluster {1}` shows it (jobs, loss {0}, stop {0}), `troupe "
               "attach {1} {0} {2}` follows it\n",
               submitted.number, options.cluster, options.job.file);
  return exit_done;
}

} // namespace

int execute(const run_options& options) {
  if (auto wrong = unwritable_files(options); !wrong.empty())
    return refuse({std::move(wrong)});
  if (options.listen && !options.cluster.empty())
    return refuse({{{"--listen", "is for a run without --cluster; the console reaches a cluster by its file"}}});
  auto where = actors::net::parse_web_address(options.web);
  if (!where)
    return refuse({{{"--web", where.error().text}}});
  auto prepared = prepare_job(options.job, options.cluster, options.cluster.empty());
  if (!prepared)
    return refuse(prepared.error());
  for (auto wrong :
       {wrong_names(options, prepared->network.layout()), config::only_simulated(prepared->config),
        config::process_limits(prepared->config), options.rounds.empty() ? config::problems{} : cannot_replay(prepared->config)})
    if (!wrong.empty())
      return refuse({std::move(wrong)});
  if (!prepared->cluster) // on a cluster the memory of other hosts counts
    if (auto wrong = memory_shortages({&prepared->config}, prepared->network, prepared->data); !wrong.empty())
      return refuse({std::move(wrong)});
  std::vector<role_memory> roles;
  if (prepared->cluster) {
    const auto facts = memory_facts_of(prepared->config, prepared->network, prepared->data);
    if (!facts)
      return refuse(facts.error());
    roles = estimate_memory(prepared->config.job, *facts, prepared->config.added.protocols);
  }
  if (auto wrong = go_on(options, *prepared); !wrong.empty())
    return refuse({std::move(wrong)});
  prepared->data = {.train = {}, .test = {}, .words = std::move(prepared->data.words)}; // each node reads its own samples
  if (options.detach)
    return leave_alone(options, submit_detached(*prepared->cluster, prepared->config, roles), prepared->config.job.name);

  signal_waiter signals;
  const model& network = prepared->network;
  std::unique_ptr<actors::net::web_server> web;
  if (options.has_web) {
    auto opened = actors::net::open_web_server({.address = *where, .page = web::page});
    if (!opened)
      return refuse({{{"--web", opened.error().text}}});
    web = std::move(*opened);
    where->port = web->port();
    fmt::print(stderr, "web page at {}\n", actors::net::url_of(*where));
  }
  job_outcome outcome;
  std::optional<rounds_writer> rounds;
  try {
    if (!options.rounds.empty())
      rounds.emplace(options.rounds, prepared->config, first_version(prepared->config.job));
    const run_view view{options.quiet,  options.log, !options.trace.empty(),     options.listen,
                        options.attach, web.get(),   rounds ? &*rounds : nullptr};
    outcome = prepared->cluster ? run_on_cluster(*prepared->cluster, prepared->config, roles, network, view, signals)
                                : run_job(prepared->config, network, view, signals);
  } catch (const std::exception& e) {
    outcome = failed_outcome(e.what());
  }
  const actors::job_result& result = outcome.result;
  if (rounds && !outcome.digest.empty())
    rounds->end({result.weights_step.value_or(0)}, outcome.digest);
  const bool complete = leave_results(options, *prepared, outcome);
  if (result.interrupted) {
    const bool by_signal = result.reason.empty() || result.reason == "interrupted";
    fmt::print(stderr, "troupe: interrupted after {}{}\n", counted(result.steps, "step"), by_signal ? "" : ": " + result.reason);
    return exit_interrupted;
  }
  if (result.failed) {
    fmt::print(stderr, "troupe: the job failed: {}\n", result.reason);
    return exit_failed;
  }
  return complete ? exit_done : exit_failed;
}

} // namespace troupe::apps
