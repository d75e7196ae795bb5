// SPDX-License-Identifier: BSD-3-Clause
// The client of a cluster: submits a job, shows what comes of it, brings the result here.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>

#include <caf/actor_system.hpp>

#include "actors/http/web_server.hpp"
#include "actors/messages/cluster.hpp"
#include "apps/run_display.hpp"

namespace troupe::apps {

/// A client that the main thread may interrupt, or tell (`failed`) why its cluster will never start the job; once that runs, the
/// reason is only shown.
using submitter_actor = actors::client_actor::extend<caf::result<void>(actors::stop_job)>;

struct submission {
  actors::cluster_actor cluster;
  actors::submit_job what;
  std::shared_ptr<run_display> display; ///< is given the result, however the job ends
  std::uint64_t attach =
      0; ///< to the job of that number, which is `what`, instead of submitting it; 0: submit. It goes on when this client ends
  actors::net::web_server* page = nullptr; ///< is told about the run, where there is one; outlives it
  std::int64_t floats = 0;                 ///< of the model
  /// Of a cluster that comes together for this job alone: so long may that take, and nobody is told that it has not yet.
  std::optional<std::chrono::seconds> begins_within{};
};

submitter_actor submit(caf::actor_system& system, submission what);

} // namespace troupe::apps
