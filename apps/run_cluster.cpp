// SPDX-License-Identifier: BSD-3-Clause
// A job on a cluster that is running already.
#include "apps/run_cluster.hpp"

#include <chrono>
#include <utility>

#include <caf/scoped_actor.hpp>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "actors/errors.hpp"
#include "apps/await_result.hpp"
#include "apps/cluster_check.hpp"
#include "apps/cluster_connection.hpp"
#include "apps/job_setup.hpp"
#include "apps/submitter.hpp"

namespace troupe::apps {

namespace {

/// The cluster waits less for a silent node. A node that does not answer in time is no reason to refuse a job.
constexpr std::chrono::seconds answers_within{10};
const std::string no_nodes = "no nodes of the cluster could carry it: ";

/// Why no nodes could run the job; empty: some could. Asked before the job is submitted: in the queue it would make others wait,
/// and the memory that it takes on the coordinator's node would be missing to all jobs.
std::string shortage_of(cluster_connection& connection, const node_needs& needs) {
  caf::scoped_actor asker{connection.system()};
  std::vector<std::string> wrong;
  asker->request(connection.cluster(), answers_within, actors::probe_query{{}, wants_accelerators(needs.job.compute)})
      .receive([&](const actors::cluster_probe& all) { wrong = shortages(all, needs); }, [](const caf::error&) {});
  return fmt::format("{}", fmt::join(wrong, "; "));
}

} // namespace

detached_job submit_detached(const config::cluster& where, const config::loaded_job& loaded,
                             const std::vector<role_memory>& roles) {
  cluster_connection connection{where};
  if (!connection)
    return {.why_not = connection.why_not()};
  if (auto why = shortage_of(connection, {loaded.job, where, roles}); !why.empty())
    return {.why_not = no_nodes + why};
  detached_job out;
  caf::scoped_actor asker{connection.system()};
  asker->request(connection.cluster(), answers_within, actors::submit_job{loaded.job, false, true}, actors::client_actor{})
      .receive([&](std::uint64_t number) { out.number = number; },
               [&](const caf::error& e) { out.why_not = "the cluster refused the job: " + actors::explain(e); });
  return out;
}

job_outcome run_on_cluster(const config::cluster& where, const config::loaded_job& loaded, const std::vector<role_memory>& roles,
                           const model& network, const run_view& view, signal_waiter& signals) {
  cluster_connection connection{where, [&] { return signals.wait(0).interrupted; }};
  if (!connection) {
    auto outcome = failed_outcome(connection.why_not());
    outcome.result.interrupted = signals.interrupted();
    return outcome;
  }
  if (auto why = view.attach != 0 ? "" : shortage_of(connection, {loaded.job, where, roles}); !why.empty())
    return failed_outcome(no_nodes + why);
  auto display = std::make_shared<run_display>(loaded.job, view.quiet, view.log, signals, view.lines);
  auto client = submit(connection.system(), {.cluster = connection.cluster(),
                                             .request = {loaded.job, view.trace, false, view.rounds != nullptr},
                                             .display = display,
                                             .attach = view.attach,
                                             .page = view.web,
                                             .rounds = view.rounds,
                                             .floats = network.layout().floats(),
                                             .addresses = addresses_of(where)});
  auto result = await_result(*display, signals, [&] { caf::anon_send(client, actors::stop_job{}); });
  client = nullptr;
  return outcome_of(std::move(result), *display, network);
}

} // namespace troupe::apps
