// SPDX-License-Identifier: BSD-3-Clause
// The client of a cluster: submits, watches, fetches.
#include "apps/run_cluster.hpp"

#include <algorithm>
#include <chrono>

#include <caf/stateful_actor.hpp>
#include <caf/typed_event_based_actor.hpp>
#include <fmt/format.h>

#include "actors/cluster_messages.hpp"
#include "actors/errors.hpp"
#include "apps/await_result.hpp"
#include "apps/cluster_connection.hpp"
#include "kernels/backend.hpp"

namespace troupe::apps {

namespace {

using namespace std::chrono_literals;

/// How long the cluster may take to answer.
constexpr auto patience = 30s;

/// A client that the main thread may interrupt.
using submitter_actor = actors::client_actor::extend<caf::result<void>(actors::stop_job)>;

class submitter_state {
public:
  static inline const char* name = "troupe.submitter";

  submitter_state(submitter_actor::stateful_pointer<submitter_state> self, actors::cluster_actor cluster, actors::submit_job what,
                  std::shared_ptr<run_display> display, std::int64_t floats)
      : self_(self), cluster_(std::move(cluster)), what_(std::move(what)), display_(std::move(display)), floats_(floats),
        host_(kernels::open_backend({})) {
    self->set_down_handler([this](const caf::down_msg& msg) { fail("the cluster's coordinator is gone: " + actors::explain(msg.reason)); });
    self->monitor(cluster_);
  }

  submitter_actor::behavior_type make_behavior() {
    self_->request(cluster_, patience, what_, actors::client_actor{self_})
      .then([this](std::uint64_t number) { number_ = number; },
            [this](const caf::error& e) { fail("the cluster refused the job: " + actors::explain(e)); });
    return {
      [this](const actors::job_waits& msg) { display_->on_event("waits: " + msg.reason); },
      [this](const actors::job_begins& msg) { display_->on_started(msg.data_size); },
      [this](const actors::progress& msg) { display_->on_progress(msg); },
      [this](const actors::evaluation_point& msg) { display_->on_evaluation(msg); },
      [this](const actors::job_says& msg) { display_->on_event(msg.text); },
      [this](const actors::job_result& msg) {
        result_ = msg;
        if (result_.last)
          fetch_weights(0);
        else
          fetch_trace(0, 0);
      },
      [this](const actors::stop_job&) { self_->send(cluster_, actors::cancel_job{number_}); },
    };
  }

private:
  void fetch_weights(std::uint64_t offset) {
    if (!result_.parameters)
      result_.parameters = host_->allocate_host(static_cast<std::size_t>(floats_) * sizeof(float));
    self_->request(cluster_, patience, actors::weights_query{number_, offset})
      .then(
        [this, offset](const actors::weights_piece& piece) {
          const auto all = result_.parameters.span<float>();
          if (piece.values.empty() && offset == all.size())
            return fetch_trace(0, 0);
          if (piece.values.empty() || piece.values.size() > all.size() - offset)
            return fail("the cluster's parameters are not those of this model");
          std::ranges::copy(piece.values, all.begin() + static_cast<std::ptrdiff_t>(offset));
          fetch_weights(offset + piece.values.size());
        },
        [this](const caf::error& e) { fail("the final parameters could not be fetched: " + actors::explain(e)); });
  }

  void fetch_trace(std::uint32_t node, std::uint64_t offset) {
    self_->request(cluster_, patience, actors::node_trace_query{number_, node, offset})
      .then(
        [this, node, offset](const actors::node_trace_piece& piece) {
          if (node >= piece.nodes)
            return finish();
          if (offset == 0)
            result_.trace.push_back({.name = piece.node});
          auto& of = result_.trace.back();
          of.events.insert(of.events.end(), piece.events.events.begin(), piece.events.events.end());
          of.dropped = piece.events.dropped;
          if (piece.events.last)
            fetch_trace(node + 1, 0);
          else
            fetch_trace(node, offset + piece.events.events.size());
        },
        [this](const caf::error& e) { fail("the trace could not be fetched: " + actors::explain(e)); });
  }

  void finish() {
    self_->send(cluster_, actors::release_job{number_});
    display_->on_finished(std::move(result_));
    self_->quit();
  }

  void fail(const std::string& reason) {
    result_.failed = true;
    result_.reason = reason;
    display_->on_finished(std::move(result_));
    self_->quit();
  }

  submitter_actor::stateful_pointer<submitter_state> self_;
  actors::cluster_actor cluster_;
  actors::submit_job what_;
  std::shared_ptr<run_display> display_;
  std::int64_t floats_;
  std::unique_ptr<kernels::backend> host_;
  std::uint64_t number_ = 0;
  actors::job_result result_;
};

} // namespace

job_outcome run_on_cluster(const config::cluster& where, const config::loaded_job& loaded, const model& network, const run_view& view,
                           signal_waiter& signals) {
  cluster_connection connection{where};
  if (!connection) {
    job_outcome outcome;
    outcome.result.failed = true;
    outcome.result.reason = connection.why_not() + "; `troupe node` starts it";
    return outcome;
  }
  auto display = std::make_shared<run_display>(loaded.job, view.quiet, view.log, signals);
  auto submitter = connection.system().spawn<submitter_actor::stateful_impl<submitter_state>>(
    connection.cluster(), actors::submit_job{loaded.job, view.trace}, display, network.layout().floats());
  auto result = await_result(*display, signals, [&] { caf::anon_send(submitter, actors::stop_job{}); });
  submitter = nullptr;
  return outcome_of(std::move(result), *display, network);
}

} // namespace troupe::apps
