// SPDX-License-Identifier: BSD-3-Clause
// The client of a cluster.
#include "apps/submitter.hpp"

#include <algorithm>
#include <utility>

#include <caf/deep_to_string.hpp>
#include <caf/stateful_actor.hpp>
#include <caf/typed_event_based_actor.hpp>
#include <fmt/format.h>

#include "actors/errors.hpp"
#include "actors/messages/cluster.hpp"
#include "apps/trace_pieces.hpp"
#include "apps/web/cluster_watch.hpp"
#include "kernels/backend.hpp"

namespace troupe::apps {

namespace {

using namespace std::chrono_literals;

/// How long the cluster may take to answer.
constexpr auto patience = 30s;

class submitter_state {
public:
  static inline const char* name = "troupe.submitter";

  submitter_state(submitter_actor::stateful_pointer<submitter_state> self, submission setup)
      : self_(self), setup_(std::move(setup)), observer_(setup_.display), host_(kernels::open_backend({})) {
    self->set_down_handler(
        [this](const caf::down_msg& msg) { fail("the cluster's coordinator is gone: " + actors::explain(msg.reason)); });
    self->monitor(setup_.cluster);
    if (setup_.page != nullptr) {
      feed_ = web::feed_for(*setup_.page, setup_.request.job, setup_.display);
      watch_.emplace(self->home_system(), setup_.cluster, feed_);
      observer_ = feed_;
    }
  }

  submitter_actor::behavior_type make_behavior() {
    if (setup_.attach != 0)
      attach();
    else
      submit();
    if (setup_.begins_within)
      self_->run_delayed(*setup_.begins_within, [this] {
        if (!waits_for_.empty())
          fail(fmt::format("{} within {} s", waits_for_, setup_.begins_within->count()));
      });
    return {
        [this](const actors::job_waits& msg) {
          waits_for_ = msg.reason;
          if (!setup_.begins_within && !msg.reason.empty())
            observer_->on_event("waits: " + msg.reason);
        },
        [this](const actors::job_begins& msg) {
          begun_ = true;
          observer_->on_started(msg.data_size);
        },
        [this](actors::progress& msg) {
          if (const auto rounds = std::exchange(msg.rounds, {}); setup_.rounds != nullptr)
            setup_.rounds->add(rounds);
          observer_->on_progress(msg);
        },
        [this](const actors::evaluation_point& msg) { observer_->on_evaluation(msg); },
        [this](const actors::job_says& msg) { observer_->on_event(msg.text); },
        [this](const actors::job_result& msg) {
          result_ = msg;
          if (setup_.cluster.node() == self_->node())
            finish(); // the result is complete
          else if (result_.weights_step)
            fetch_weights(0);
          else
            fetch_trace(0, 0);
        },
        [this](const actors::stop_job& msg) {
          if (!msg.failed)
            cancel();
          else if (begun_)
            observer_->on_event(msg.reason);
          else
            fail(msg.reason + " before the job began");
        },
    };
  }

private:
  void submit() {
    self_->request(setup_.cluster, patience, setup_.request, actors::client_actor{self_})
        .then(
            [this](std::uint64_t number) {
              number_ = number;
              if (cancelled_)
                cancel();
              if (feed_)
                feed_->follow(number);
            },
            [this](const caf::error& e) { fail("the cluster refused the job: " + actors::explain(e)); });
  }

  void attach() {
    number_ = setup_.attach; // its messages may come before the answer
    if (feed_)
      feed_->follow(number_);
    self_->request(setup_.cluster, patience, actors::attach_job{number_}, actors::client_actor{self_})
        .then(
            [this](const actors::submit_job& its) {
              auto& asked = setup_.request.job;
              asked.checkpoint.resume = its.job.checkpoint.resume; // of its folder, the newest then
              if (caf::deep_to_string(its.job) == caf::deep_to_string(asked))
                return;
              result_ = {}; // the result of another job
              fail(fmt::format("job {} was submitted from another file, or with other flags; give those", number_));
            },
            [this](const caf::error& e) { fail(fmt::format("cannot attach to job {}: {}", number_, actors::explain(e))); });
  }

  /// The job is cancelled by its number, so one without a number is cancelled once it has one.
  void cancel() {
    cancelled_ = true;
    if (setup_.attach != 0) {
      result_.interrupted = true;
      fail(fmt::format("job {} goes on without this", number_));
    } else if (number_ != 0)
      self_->send(setup_.cluster, actors::cancel_job{number_});
  }

  void fetch_weights(std::uint64_t offset) {
    if (!result_.parameters)
      result_.parameters = host_->allocate_host(static_cast<std::size_t>(setup_.floats) * sizeof(float));
    self_->request(setup_.cluster, patience, actors::weights_query{number_, offset})
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
    self_->request(setup_.cluster, patience, actors::node_trace_query{number_, node, offset})
        .then(
            [this, node, offset](const actors::node_trace_piece& piece) {
              if (node >= piece.nodes)
                return finish();
              append(result_.trace, piece, offset);
              if (piece.events.last)
                fetch_trace(node + 1, 0);
              else
                fetch_trace(node, offset + piece.events.events.size());
            },
            [this](const caf::error& e) { fail("the trace could not be fetched: " + actors::explain(e)); });
  }

  void finish() {
    self_->send(setup_.cluster, actors::release_job{number_});
    observer_->on_finished(std::move(result_));
    self_->quit();
  }

  void fail(const std::string& reason) {
    result_.failed = true;
    result_.reason = reason;
    result_.parameters = {}; // may be incomplete
    result_.weights_step.reset();
    observer_->on_finished(std::move(result_));
    self_->quit();
  }

  submitter_actor::stateful_pointer<submitter_state> self_;
  submission setup_;
  std::shared_ptr<actors::run_observer> observer_; ///< the display, or the page's feed, which forwards to it
  std::shared_ptr<web::feed> feed_;
  std::optional<web::cluster_watch> watch_;
  std::unique_ptr<kernels::backend> host_;
  std::uint64_t number_ = 0;
  bool begun_ = false, cancelled_ = false;
  std::string waits_for_{};
  actors::job_result result_;
};

} // namespace

submitter_actor submit(caf::actor_system& system, submission setup) {
  return system.spawn<submitter_actor::stateful_impl<submitter_state>>(std::move(setup));
}

} // namespace troupe::apps
