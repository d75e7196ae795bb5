// SPDX-License-Identifier: BSD-3-Clause
// A job on a cluster that others started.
#include "apps/run_cluster.hpp"

#include "apps/await_result.hpp"
#include "apps/cluster_connection.hpp"
#include "apps/submitter.hpp"

namespace troupe::apps {

job_outcome run_on_cluster(const config::cluster& where, const config::loaded_job& loaded, const model& network, const run_view& view,
                           signal_waiter& signals) {
  cluster_connection connection{where};
  if (!connection) {
    job_outcome outcome;
    outcome.result.failed = true;
    outcome.result.reason = connection.why_not();
    return outcome;
  }
  auto display = std::make_shared<run_display>(loaded.job, view.quiet, view.log, signals);
  auto client = submit(connection.system(), {.cluster = connection.cluster(), .what = {loaded.job, view.trace}, .display = display, .page = view.web,
                                             .floats = network.layout().floats()});
  auto result = await_result(*display, signals, [&] { caf::anon_send(client, actors::stop_job{}); });
  client = nullptr;
  return outcome_of(std::move(result), *display, network);
}

} // namespace troupe::apps
