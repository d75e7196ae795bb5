// SPDX-License-Identifier: BSD-3-Clause
// The client of a cluster: submits a job, shows its progress, downloads the result.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include <caf/actor_system.hpp>

#include "actors/cluster/decisions/reach_cluster.hpp"
#include "actors/http/web_server.hpp"
#include "actors/messages/cluster.hpp"
#include "apps/rounds_file.hpp"
#include "apps/run_display.hpp"

namespace troupe::apps {

/// A client that the main thread may interrupt, or tell (`failed`) why its cluster will never start the job. Once the job runs,
/// the reason is only shown.
using submitter_actor = actors::client_actor::extend<caf::result<void>(actors::stop_job)>;

struct submission {
  actors::cluster_actor cluster;
  actors::submit_job request;
  std::shared_ptr<run_display> display; ///< is given the result, however the job ends
  std::uint64_t attach =
      0; ///< number of the job to follow, which `request` describes; 0: submit. A followed job outlives this client
  actors::net::web_server* page = nullptr; ///< shows the run, unless null; outlives it
  rounds_writer* rounds = nullptr;         ///< is told what each version was made of, unless null; outlives it
  std::int64_t floats = 0;                 ///< of the model
  /// For a cluster that starts only for this job: how long that may take. Waiting is not reported then.
  std::optional<std::chrono::seconds> begins_within{};
  bool says_it_waits = false; ///< all the same: others start the cluster's nodes
  /// Where the coordinator may be reached again, or another. The client dials again when the connection is lost, and goes on with
  /// its job: for cluster_view::orphan_s where jobs outlive their coordinator, else for actors::client_return. None: its end is
  /// the client's.
  std::vector<actors::coordinator_address> addresses{};
};

submitter_actor submit(caf::actor_system& system, submission setup);

} // namespace troupe::apps
