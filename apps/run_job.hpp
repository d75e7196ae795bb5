// SPDX-License-Identifier: BSD-3-Clause
// One job on an embedded cluster, from start to result, for `run` and `compare`.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include <boost/json/fwd.hpp>

#include "actors/http/web_server.hpp"
#include "actors/run_observer.hpp"
#include "apps/config/cluster_file.hpp"
#include "apps/config/job_file.hpp"
#include "apps/curve.hpp"
#include "apps/processes.hpp"
#include "apps/rounds_file.hpp"
#include "apps/signals.hpp"
#include "tensor/model.hpp"

namespace troupe::apps {

/// What a user sees of a run.
struct run_view {
  bool quiet = false;
  std::string log{};  ///< JSONL file; empty: none
  bool trace = false; ///< the result includes a trace of every role
  /// Port of an embedded run for consoles. None: any free port where the run has several processes.
  std::optional<std::uint16_t> port{};
  std::uint64_t attach = 0;               ///< number of a cluster's job to follow instead of submitting one; 0: submit
  actors::net::web_server* web = nullptr; ///< shows the run, unless null; outlives it
  rounds_writer* rounds = nullptr;        ///< is told what each version was made of, unless null; outlives the run
  child_program children = {};            ///< that the nodes of an embedded run are
  std::chrono::seconds join_timeout{30};  ///< within which they join
  /// This process coordinates that cluster, whose other nodes are started by others: for an embedded cluster of several hosts.
  const config::cluster* hosts = nullptr;
  /// Is given each line of the log, whether or not there is a file for it; on any thread, and must not block.
  std::function<void(const std::string&)> lines = {};
};

/// How a run ended. One whose cluster did not come together has failed, with the reason.
struct job_outcome {
  actors::job_result result;
  std::string digest; ///< of the final parameters; empty: there are none
  curve evaluations;
};

/// The outcome of a job that could not be started.
job_outcome failed_outcome(std::string reason);

class run_display;
/// The outcome with the digest of the result's weights and the evaluations that were seen.
job_outcome outcome_of(actors::job_result result, run_display& seen, const model& network);

/// Starts the job's processes, runs it, and ends them. Ctrl-C ends the run in order, a second one the process. Call it once per
/// job, on a thread that stays: the processes die with it. Throws std::runtime_error where it cannot start: no port, no temporary
/// folder, no log file.
job_outcome run_job(const config::loaded_job& loaded, const model& network, const run_view& view, signal_waiter& signals);

/// The keys of `run --json`. Losses are those of the last evaluation, at `evaluated_step`. Weights are those of `weights_step`:
/// the newest, or after a failure the last evaluated. `interrupted` says why a run was cut short, `error` why it failed.
boost::json::object to_json(const config::loaded_job& loaded, const job_outcome& outcome);

} // namespace troupe::apps
