// SPDX-License-Identifier: BSD-3-Clause
// A node as a member of its cluster.
#include "apps/membership.hpp"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>

#include <caf/event_based_actor.hpp>
#include <caf/scoped_actor.hpp>
#include <caf/stateful_actor.hpp>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include "actors/cluster/decisions/reach_cluster.hpp"
#include "actors/errors.hpp"
#include "actors/messages/dialect.hpp"
#include "actors/sockets/strangers.hpp"
#include "apps/report.hpp"

namespace troupe::apps {

using namespace std::chrono_literals;
using steady = std::chrono::steady_clock;

/// Whether a cluster's actor is there, for the main thread: it ends, or it is silent, as that of a process that stands still. CAF
/// notices the latter after ten seconds.
struct sight_of_leader {
  std::atomic<bool> gone{false}, silent{false};
  std::string why{}; ///< it is gone, unless it has ended in order; written before `gone`
  bool said = false; ///< the cluster has given the reason itself
};

namespace {

constexpr auto answer_deadline = 20s;
/// How often it looks whether certificates have changed.
constexpr auto review_pause = 5000ms;
constexpr auto first_pause = 50ms, longest_pause = 2000ms;
constexpr auto between_looks = 200ms;
constexpr auto shortest_long_pause = 200ms; ///< for whoever leads next the job waits

/// Introduces a node to the cluster on request, and ends with the cluster: CAF drops a request to an actor whose process has
/// died, and the requester would wait for ever.
caf::behavior applicant(caf::event_based_actor* self, const actors::cluster_actor& cluster, const actors::node_hello& hello,
                        const actors::node_actor& node) {
  self->monitor(cluster);
  self->set_down_handler([self](const caf::down_msg& msg) { self->quit(msg.reason); });
  return {[=](caf::get_atom) {
    auto promise = self->make_response_promise<std::uint32_t>();
    self->request(cluster, answer_deadline, hello, node)
        .then(
            [=](std::uint32_t number) mutable {
              promise.deliver(number);
              self->quit();
            },
            [=](const caf::error& e) mutable {
              promise.deliver(e);
              self->quit();
            });
    return promise;
  }};
}

/// Asks until its node may leave: what a job keeps there would be lost. It owns all that it uses, since the main thread does not
/// wait for it: where the coordinator is gone already, `member` may be destroyed before this actor begins.
class farewell_state {
public:
  static inline const char* name = "troupe.farewell";

  farewell_state(caf::event_based_actor* self, actors::cluster_actor cluster, actors::leave_cluster words,
                 const signal_waiter& signals)
      : self_(self), cluster_(std::move(cluster)), words_(std::move(words)), signals_(signals) {}

  caf::behavior make_behavior() {
    self_->monitor(cluster_);
    self_->set_down_handler([this](const caf::down_msg&) { signals_.announce(); }); // no one is left to allow it
    ask();
    return {[](caf::unit_t) {}};
  }

private:
  /// A cluster that refuses does not know this node, and has nothing on it.
  void ask() {
    self_->request(cluster_, caf::infinite, words_)
        .then([this] { signals_.announce(); },
              [this](const caf::error& e) {
                if (e == caf::sec::runtime_error)
                  return signals_.announce();
                self_->run_delayed(longest_pause, [this] { ask(); });
              });
  }

  caf::event_based_actor* self_;
  actors::cluster_actor cluster_;
  actors::leave_cluster words_;
  const signal_waiter& signals_; ///< outlives the actor system
};

/// Ends with the cluster's actor. It owns all that it uses, as farewell_state does.
class leader_watch {
public:
  static inline const char* name = "troupe.leader-watch";

  /// `asks`: others may lead while this one is silent.
  leader_watch(caf::event_based_actor* self, actors::cluster_actor leader, bool asks, std::shared_ptr<sight_of_leader> sight,
               const signal_waiter& signals)
      : self_(self), leader_(std::move(leader)), asks_(asks), sight_(std::move(sight)), signals_(signals) {}

  caf::behavior make_behavior() {
    self_->monitor(leader_);
    self_->set_down_handler([this](const caf::down_msg& msg) {
      if (msg.reason != caf::exit_reason::user_shutdown)
        sight_->why = actors::explain(msg.reason);
      sight_->said = msg.reason == caf::sec::runtime_error;
      sight_->gone = true;
      signals_.announce();
      self_->quit();
    });
    if (asks_)
      ask();
    return {[](caf::unit_t) {}};
  }

private:
  static constexpr auto longest_silence = 1500ms, between_questions = 500ms;

  void ask() {
    self_->request(leader_, longest_silence, actors::leader_query{})
        .then([this](const caf::strong_actor_ptr&) { heard(false); }, [this](const caf::error&) { heard(true); });
  }
  void heard(bool nothing) {
    sight_->silent = nothing;
    if (nothing)
      signals_.announce();
    self_->run_delayed(nothing ? 0ms : between_questions, [this] { ask(); });
  }

  caf::event_based_actor* self_;
  actors::cluster_actor leader_;
  bool asks_;
  std::shared_ptr<sight_of_leader> sight_;
  const signal_waiter& signals_; ///< outlives the actor system
};

} // namespace

/// How long a node may wait until it looks again whether certificates were revoked; for ever without any.
int pause_of(const actors::system_config& config) {
  return config.peers() ? static_cast<int>(review_pause.count()) : -1;
}

void end_revoked(actors::system_config& config, const std::function<void(const std::string&)>& log) {
  for (const auto& name : config.end_revoked())
    log(fmt::format("has ended the connection of \"{}\", whose certificate has been revoked", name));
}

membership::membership(caf::actor_system& system, actors::system_config& config, const config::cluster& cluster,
                       const config::cluster_node& self, membership_options options, actors::node_control node,
                       signal_waiter& signals, std::function<void(const std::string&)> log)
    : system_(system), config_(config), coordinators_(cluster.coordinators()), self_(self), options_(std::move(options)),
      node_(std::move(node)), signals_(signals), log_(std::move(log)) {}

membership::~membership() {
  caf::anon_send_exit(watcher_, caf::exit_reason::user_shutdown);
}

int membership::run() {
  int code = exit_done;
  while (connect(code)) {
    if (stay()) {
      leave();
      return code;
    }
    if (signals_.interrupted())
      return code;
    if (!sight_->why.empty())
      why_ = sight_->said ? sight_->why
                          : fmt::format("the coordinator, node {} at {}:{}, is gone: {}", coordinator_->name, coordinator_->host,
                                        coordinator_->port, sight_->why);
    if (!options_.outlives)
      caf::anon_send(node_, actors::stop_job{true, "the coordinator is gone"});
    if (options_.once)
      return code;
    log_("the coordinator is gone; waiting for it to come back");
  }
  return code;
}

bool membership::connect(int& code) {
  const auto began = steady::now();
  std::string said;
  for (auto pause = first_pause;; pause = std::min(2 * pause, options_.outlives ? shortest_long_pause : longest_pause)) {
    bool for_good = false;
    const std::string why = join(for_good);
    if (why.empty()) {
      watch();
      log_(leads() ? std::string{"is its own coordinator's"}
                   : fmt::format("joined; the coordinator is node {} at {}:{}", coordinator_->name, coordinator_->host,
                                 coordinator_->port));
      return true;
    }
    const auto waited = steady::now() - began;
    if (for_good || (options_.once && waited > options_.patience)) {
      why_ = fmt::format("node {} {}{}", self_.name, why,
                         for_good ? "" : fmt::format("; it has tried for {} s", options_.patience.count()));
      code = exit_failed;
      return false;
    }
    if (std::exchange(said, why) != why)
      log_(fmt::format("{}; it tries again{}", why, options_.once ? fmt::format(", for {} s", options_.patience.count()) : ""));
    if (signals_.wait(static_cast<int>(pause.count())).interrupted || signals_.interrupted()) {
      code = options_.once ? exit_interrupted : exit_done; // without --once nothing is cut short
      return false;
    }
  }
}

std::string membership::join(bool& for_good, coordinator silent) {
  std::vector<std::string> reasons;
  auto all = coordinators_;
  std::ranges::stable_partition(all, [this](coordinator each) { return each == &self_; });
  for (const auto* each : all) {
    if (each == silent)
      continue;
    reasons.push_back(each == &self_ ? join_own() : join_at(*each, for_good));
    if (reasons.back().empty())
      coordinator_ = each;
    if (reasons.back().empty() || for_good)
      return reasons.back();
  }
  return fmt::format("{}", fmt::join(reasons, "; "));
}

std::string membership::join_own() {
  std::string why;
  caf::scoped_actor asker{system_};
  asker->request(*options_.door, answer_deadline, actors::leader_query{})
      .receive([&](const caf::strong_actor_ptr& own) { cluster_ = caf::actor_cast<actors::cluster_actor>(own); },
               [&](const caf::error& e) { why = actors::explain(e); });
  return why;
}

std::string membership::join_at(const config::cluster_node& at, bool& for_good) {
  const bool one_of_several = coordinators_.size() > 1;
  auto reached = actors::reach_cluster(system_, {at.host, at.port, one_of_several});
  if (!reached) {
    for_good = reached.error() == caf::sec::incompatible_application_ids;
    if (one_of_several && reached.error() == caf::sec::runtime_error)
      return fmt::format("node {} is no leader: {}", at.name, actors::explain(reached.error()));
    const bool silent = one_of_several && reached.error() == caf::sec::connection_timeout;
    const auto why = silent ? "" : actors::what_keeps_out(system_, reached.error(), at.host, at.port);
    return fmt::format("cannot reach the coordinator, node {} at {}:{}: {}", at.name, at.host, at.port,
                       why.empty() ? actors::explain(reached.error()) : why);
  }
  std::string why;
  caf::scoped_actor asker{system_};
  actors::node_hello hello{self_.name, actors::message_dialect(), static_cast<std::int32_t>(getpid()), options_.added};
  asker->request(node_, answer_deadline, actors::standing_query{})
      .receive([&](const std::optional<actors::job_standing>& has) { hello.standing = has; }, [](const caf::error&) {});
  asker->request(system_.spawn(applicant, *reached, hello, actors::node_actor{node_}), caf::infinite, caf::get_atom_v)
      .receive([&](std::uint32_t) { cluster_ = *reached; },
               [&](const caf::error& e) {
                 why = "was refused: " + actors::explain(e);
                 for_good = e == caf::sec::runtime_error;
               });
  return why;
}

void membership::watch() {
  caf::anon_send_exit(watcher_, caf::exit_reason::user_shutdown);
  sight_ = std::make_shared<sight_of_leader>();
  const bool asks = coordinators_.size() > 1 && !leads();
  watcher_ =
      caf::actor_cast<caf::actor>(system_.spawn<caf::stateful_actor<leader_watch>>(cluster_, asks, sight_, std::cref(signals_)));
}

bool membership::stay() {
  for (;;) {
    const auto woken = signals_.wait(sight_->silent ? static_cast<int>(between_looks.count()) : pause_of(config_));
    end_revoked(config_, log_);
    if (woken.interrupted)
      return !sight_->gone;
    if (sight_->gone)
      return false;
    bool for_good = false;
    if (sight_->silent && join(for_good, coordinator_).empty()) {
      watch();
      log_(fmt::format("its coordinator is silent, and node {} leads now", coordinator_->name));
    }
  }
}

void membership::leave() {
  actors::leave_cluster words{self_.name, true, options_.parting ? options_.parting() : std::string{}};
  if ((options_.once && words.why.empty()) || leads())
    return;
  log_("leaves the cluster; a second Ctrl-C ends it at once");
  auto farewell = system_.spawn<caf::stateful_actor<farewell_state>>(cluster_, std::move(words), std::cref(signals_));
  for (;; end_revoked(config_, log_))
    if (const auto woken = signals_.wait(pause_of(config_)); woken.interrupted || woken.announced)
      break;
  caf::anon_send_exit(farewell, caf::exit_reason::user_shutdown);
}

} // namespace troupe::apps
