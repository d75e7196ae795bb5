// SPDX-License-Identifier: BSD-3-Clause
// A cluster of one process: real nodes, roles and lanes, whose data and links a test has in its hand.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <future>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>

#include <caf/actor_system.hpp>
#include <caf/scoped_actor.hpp>
#include <caf/stateful_actor.hpp>

#include "actors/cluster/cluster_actor.hpp"
#include "actors/cluster/cluster_inspection.hpp"
#include "actors/errors.hpp"
#include "actors/messages/dialect.hpp"
#include "actors/system.hpp"
#include "apps/console/snapshot.hpp"
#include "tests/actors/relay.hpp"

namespace troupe::tests {

/// Open, until a test shuts it; whoever wants to pass then waits.
class gate {
public:
  void pass() {
    std::unique_lock lock{mutex_};
    opened_.wait(lock, [this] { return open_; });
  }
  void set(bool open) {
    const std::lock_guard lock{mutex_};
    open_ = open;
    opened_.notify_all();
  }

private:
  std::mutex mutex_;
  std::condition_variable opened_;
  bool open_ = true;
};

/// Reads through a gate.
class gated_data final : public data_set {
public:
  gated_data(std::shared_ptr<const data_set> data, std::shared_ptr<gate> through)
      : data_(std::move(data)), through_(std::move(through)) {}
  std::int64_t size() const override { return data_->size(); }
  const data_format& format() const override { return data_->format(); }
  std::int32_t label(std::uint32_t index) const override { return data_->label(index); }
  void gather(std::span<const std::uint32_t> indices, void* x, void* labels) const override {
    through_->pass();
    data_->gather(indices, x, labels);
  }

private:
  std::shared_ptr<const data_set> data_;
  std::shared_ptr<gate> through_;
};

/// A node whose lanes are reached through a relay.
class relayed_node_state {
  template <class Message>
  auto on() {
    return [this](const Message& msg) { return self_->delegate(real_, msg); };
  }

public:
  static inline const char* name = "test.relayed-node";
  relayed_node_state(actors::node_actor::stateful_pointer<relayed_node_state> self, actors::node_actor real,
                     std::shared_ptr<relay> through)
      : self_(self), real_(std::move(real)), through_(std::move(through)) {}

  actors::node_actor::behavior_type make_behavior() { return behavior_with(static_cast<const actors::role_orders*>(nullptr)); }

private:
  template <class... Orders>
  actors::node_actor::behavior_type behavior_with(const caf::typed_actor<caf::result<void>(Orders)...>*) {
    return {
        [this](const actors::prepare_job& msg) -> caf::result<actors::node_prepared> {
          auto promise = self_->make_response_promise<actors::node_prepared>();
          self_->request(real_, caf::infinite, msg)
              .then(
                  [this, promise](actors::node_prepared& ready) mutable {
                    through_->target(ready.lane_port);
                    ready.lane_port = through_->port();
                    promise.deliver(ready);
                  },
                  [promise](const caf::error& e) mutable { promise.deliver(e); });
          return promise;
        },
        on<actors::job_places>(),
        on<actors::node_place>(),
        on<actors::backup_place>(),
        on<actors::evaluator_place>(),
        on<actors::evaluated_query>(),
        on<actors::standing_query>(),
        on<actors::adopt_job>(),
        on<actors::led_by>(),
        on<Orders>()...,
        on<protocols::hold_order>(),
        on<protocols::fetch_order>(),
        on<actors::waiting_query>(),
        on<actors::totals_query>(),
        on<actors::inspect_query>(),
        on<actors::role_order>(),
        on<actors::record_order>(),
        on<actors::clock_query>(),
        on<actors::trace_query>(),
        on<actors::stop_job>(),
        on<actors::shards_query>(),
        on<actors::wall_clock_query>(),
        on<actors::probe_query>(),
        on<actors::node_notice>(),
    };
  }

  actors::node_actor::stateful_pointer<relayed_node_state> self_;
  actors::node_actor real_;
  std::shared_ptr<relay> through_;
};

/// How far a job is, for the thread of a test.
struct followed_job {
  std::atomic<std::uint64_t> steps{0};
  std::promise<void> ended;
};

class follower_state {
public:
  static inline const char* name = "test.client";
  follower_state(actors::client_actor::stateful_pointer<follower_state>, std::shared_ptr<followed_job> job)
      : job_(std::move(job)) {}
  actors::client_actor::behavior_type make_behavior() {
    return {
        [](const actors::job_waits&) {},
        [](const actors::job_begins&) {},
        [this](const actors::progress& at) {
          job_->steps = at.step;
          job_->steps.notify_all();
        },
        [](const actors::evaluation_point&) {},
        [](const actors::job_says&) {},
        [this](const actors::job_result&) { job_->ended.set_value(); },
    };
  }

private:
  std::shared_ptr<followed_job> job_;
};

/// Nodes a (coordinator and shards), b, c and d (a worker each: 0, 1 and 2).
class cluster_in_process {
public:
  /// `credit_bytes`: of every lane.
  explicit cluster_in_process(std::size_t credit_bytes = actors::node_options{}.credit_bytes)
      : credit_bytes_(credit_bytes), asker_(system_) {
    actors::cluster_setup setup{.name = "lab", .nodes = {{"a", "127.0.0.1", true, false}}, .own = options_of("a")};
    for (const auto* each : {"b", "c", "d"})
      setup.nodes.push_back({each, "127.0.0.1", false, true});
    cluster_ = system_.spawn<actors::cluster_impl>(std::move(setup));
    for (const std::string each : {"b", "c", "d"}) {
      relays[each] = std::make_shared<relay>();
      const auto options = options_of(each);
      real_.push_back(system_.spawn<actors::node_impl>(options));
      real_.push_back(system_.spawn<actors::node_actor::stateful_impl<relayed_node_state>>(real_.back(), relays[each]));
      asker_
          ->request(cluster_, caf::infinite,
                    actors::node_hello{each, actors::message_dialect(), 0, actors::names_of(options.added)}, real_.back())
          .receive([](std::uint32_t) {}, [](const caf::error& e) { throw std::runtime_error(actors::explain(e)); });
    }
  }
  cluster_in_process(const cluster_in_process&) = delete;
  cluster_in_process& operator=(const cluster_in_process&) = delete;
  ~cluster_in_process() {
    for (auto& [node, each] : gates)
      each->set(true);
    if (number_ != 0) {
      caf::anon_send(cluster_, actors::cancel_job{number_});
      job_->ended.get_future().wait();
      caf::anon_send_exit(client_, caf::exit_reason::user_shutdown);
    }
    caf::anon_send_exit(cluster_, caf::exit_reason::user_shutdown);
    for (const auto& node : real_)
      caf::anon_send_exit(node, caf::exit_reason::user_shutdown);
  }

  /// Returns once it has made so many steps.
  void run(const actors::job& job, std::uint64_t steps) {
    client_ = system_.spawn<actors::client_actor::stateful_impl<follower_state>>(job_);
    asker_->request(cluster_, caf::infinite, actors::submit_job{job}, client_)
        .receive([this](std::uint64_t number) { number_ = number; },
                 [](const caf::error& e) { throw std::runtime_error(actors::explain(e)); });
    for (auto now = job_->steps.load(); now < steps; now = job_->steps)
      job_->steps.wait(now);
  }

  apps::console::snapshot look() {
    return {.cluster = {}, .reports = std::move(actors::inspect_cluster(asker_, cluster_, std::chrono::seconds{10})->reports)};
  }

  std::map<std::string, std::shared_ptr<gate>> gates;   ///< by node: of the data that it reads
  std::map<std::string, std::shared_ptr<relay>> relays; ///< by node: on its lane to node a

private:
  actors::node_options options_of(const std::string& node) {
    auto through = gates[node] = std::make_shared<gate>();
    actors::node_options options;
    options.credit_bytes = credit_bytes_;
    const auto load = [through](const actors::parameters&, std::uint64_t seed) -> result<data_pair> {
      data_spec digits;
      digits.train_samples = 300;
      digits.test_samples = 50;
      auto real = load_data(digits, seed);
      if (!real)
        return real;
      return data_pair{std::make_shared<gated_data>(real->train, through), std::make_shared<gated_data>(real->test, through)};
    };
    options.added.sources = {{.name = "gated", .summary = "digits, when the node's gate is open", .load = load}};
    return options;
  }

  const std::size_t credit_bytes_;
  actors::system_config config_{{}};
  caf::actor_system system_{config_};
  caf::scoped_actor asker_;
  actors::cluster_actor cluster_;
  std::vector<actors::node_actor> real_;
  actors::client_actor client_;
  std::shared_ptr<followed_job> job_ = std::make_shared<followed_job>();
  std::uint64_t number_ = 0;
};

} // namespace troupe::tests
