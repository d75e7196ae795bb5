// SPDX-License-Identifier: BSD-3-Clause
// The client of a cluster.
#include "apps/submitter.hpp"

#include <algorithm>
#include <utility>

#include <caf/deep_to_string.hpp>
#include <caf/event_based_actor.hpp>
#include <caf/stateful_actor.hpp>
#include <caf/typed_event_based_actor.hpp>
#include <fmt/format.h>

#include "actors/cluster/decisions/client_return.hpp"
#include "actors/errors.hpp"
#include "actors/messages/cluster.hpp"
#include "apps/trace_pieces.hpp"
#include "apps/web/cluster_watch.hpp"
#include "kernels/backend.hpp"

namespace troupe::apps {

namespace {

using namespace std::chrono_literals;

using clock = std::chrono::steady_clock;

/// How long the cluster may take to answer.
constexpr auto patience = 30s;
/// Between two rounds of all addresses: a coordinator that comes back is found soon, and one that does not is no burden.
constexpr auto between_rounds = 200ms;

/// Dials once, on a thread of its own.
caf::behavior dialer(caf::event_based_actor* self, const actors::coordinator_address& to) {
  return {[self, to](caf::connect_atom) -> caf::result<actors::cluster_actor> {
    self->quit();
    auto found = actors::reach_cluster(self->home_system(), to);
    if (!found)
      return found.error();
    return *found;
  }};
}

class submitter_state {
public:
  static inline const char* name = "troupe.submitter";

  submitter_state(submitter_actor::stateful_pointer<submitter_state> self, submission setup)
      : self_(self), setup_(std::move(setup)), observer_(setup_.display), host_(kernels::open_backend({})) {
    self->set_down_handler([this](const caf::down_msg& msg) {
      if (msg.source == setup_.cluster.address())
        lost(actors::explain(msg.reason));
    });
    if (setup_.page != nullptr) {
      feed_ = web::feed_for(*setup_.page, setup_.request.job, setup_.display);
      observer_ = feed_;
    }
    watch();
  }

  submitter_actor::behavior_type make_behavior() {
    if (!setup_.addresses.empty())
      self_->request(setup_.cluster, patience, actors::cluster_query{})
          .then([this](const actors::cluster_view& its) { orphan_s_ = its.orphan_s; }, [](const caf::error&) {});
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
          if ((!setup_.begins_within || setup_.says_it_waits) && !msg.reason.empty())
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
            note(msg.reason);
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

  bool jobs_outlive_it() const { return orphan_s_ > 0; }

  /// For whoever looks at the cluster, too.
  void note(const std::string& text) {
    observer_->on_event(text);
    if (setup_.cluster.node() == self_->node())
      self_->send(caf::actor_cast<actors::cluster_control>(setup_.cluster), actors::job_news{number_, actors::job_says{text}});
  }

  void watch() {
    self_->monitor(setup_.cluster);
    if (feed_)
      watch_.emplace(self_->home_system(), setup_.cluster, feed_);
  }

  /// The connection was reset, or the coordinator is gone. Where its jobs outlive it this one goes on, and is looked for.
  void lost(const std::string& why) {
    const auto gone = "the cluster's coordinator is gone: " + why;
    if (setup_.addresses.empty())
      return fail(gone);
    if (number_ == 0)
      return fail(gone + "; it has not said whether it has the job: see `jobs` of the console when it is back");
    if (setup_.rounds != nullptr)
      return fail(gone + "; a file of rounds cannot go on over that");
    const auto wait = std::chrono::duration<double>(jobs_outlive_it() ? std::min(orphan_s_, 1e9) : actors::client_return.count());
    observer_->on_event(
        jobs_outlive_it() ? fmt::format("{}; its jobs are kept, and it is looked for during {:g} s", gone, orphan_s_)
                          : fmt::format("the connection to the cluster's coordinator is lost: {}; it is dialled again for {:g} s",
                                        why, wait.count()));
    given_up_at_ = clock::now() + std::chrono::duration_cast<clock::duration>(wait);
    away_ = true;
    dial();
  }

  void dial() {
    const auto& next = setup_.addresses[dialled_++ % setup_.addresses.size()];
    self_->request(self_->spawn<caf::detached>(dialer, next), caf::infinite, caf::connect_atom_v)
        .then([this](const actors::cluster_actor& there) { come_back(there); },
              [this](const caf::error& e) { dial_later(actors::explain(e)); });
  }

  void dial_later(const std::string& why) {
    if (clock::now() >= given_up_at_)
      return fail(jobs_outlive_it()
                      ? fmt::format("the cluster's coordinator is gone, and did not come back within {:g} s: {}", orphan_s_, why)
                      : "the cluster's coordinator is gone: " + why);
    const bool tried_all = dialled_ % setup_.addresses.size() == 0;
    self_->run_delayed(tried_all ? between_rounds : 0ms, [this] { dial(); });
  }

  void come_back(const actors::cluster_actor& to) {
    setup_.cluster = to;
    away_ = false;
    result_ = {};
    watch();
    observer_->on_event(fmt::format("the coordinator {}; this follows job {} again",
                                    jobs_outlive_it() ? "is back" : "is reached again, after a lost connection", number_));
    attach_to({number_, true});
  }

  void attach() {
    number_ = setup_.attach; // its messages may come before the answer
    if (feed_)
      feed_->follow(number_);
    attach_to({number_});
  }

  void attach_to(const actors::attach_job& request) {
    self_->request(setup_.cluster, patience, request, actors::client_actor{self_})
        .then(
            [this](const actors::submit_job& its) {
              auto& asked = setup_.request.job;
              asked.checkpoint.resume = its.job.checkpoint.resume; // of its folder, the newest then
              if (caf::deep_to_string(its.job) == caf::deep_to_string(asked))
                return;
              result_ = {}; // the result of another job
              fail(fmt::format("job {} was submitted from another file, or with other flags; give those", number_));
            },
            [this](const caf::error& e) { failed_asking(fmt::format("cannot attach to job {}", number_), e); });
  }

  /// The job is cancelled by its number, so one without a number is cancelled once it has one.
  void cancel() {
    cancelled_ = true;
    if (away_) {
      result_.interrupted = true;
      fail(jobs_outlive_it()
               ? fmt::format("job {} is in the journal of the coordinator that is gone{}", number_,
                             setup_.attach != 0 ? "" : fmt::format(", and ends {:g} s after that is back", orphan_s_))
               : fmt::format("the coordinator cannot be told, and ends job {} in {} s", number_, actors::client_return.count()));
    } else if (setup_.attach != 0) {
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
            [this](const caf::error& e) { failed_asking("the final parameters could not be fetched", e); });
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
            [this](const caf::error& e) { failed_asking("the trace could not be fetched", e); });
  }

  void finish() {
    self_->send(setup_.cluster, actors::release_job{number_});
    observer_->on_finished(std::move(result_));
    self_->quit();
  }

  /// A coordinator that is gone is not at fault where it is looked for.
  void failed_asking(const std::string& request, const caf::error& why) {
    if (!away_ && (setup_.addresses.empty() || why != caf::sec::request_receiver_down))
      fail(fmt::format("{}: {}", request, actors::explain(why)));
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
  double orphan_s_ = 0; ///< as the cluster has said
  std::size_t dialled_ = 0;
  bool away_ = false;               ///< the coordinator is looked for
  clock::time_point given_up_at_{}; ///< until then
  std::string waits_for_{};
  actors::job_result result_;
};

} // namespace

submitter_actor submit(caf::actor_system& system, submission setup) {
  return system.spawn<submitter_actor::stateful_impl<submitter_state>>(std::move(setup));
}

} // namespace troupe::apps
