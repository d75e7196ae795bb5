// SPDX-License-Identifier: BSD-3-Clause
// The simulated cluster: every role of a job with its machine, driven in virtual time as actors drive it in real time.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "protocols/binding/training_clock.hpp"
#include "protocols/catalog.hpp"
#include "protocols/holder.hpp"
#include "protocols/random_stream.hpp"
#include "protocols/sim/event_queue.hpp"
#include "protocols/sim/network.hpp"
#include "protocols/sim/simulate.hpp"
#include "protocols/sim/step_overlap.hpp"

namespace troupe::protocols::sim {

/// One job, once. What it promises the machines is in options.hpp (`disorder`).
///
/// Where a role runs: the coordinator and the evaluator where shard 0 is at first. A job whose protocol applies pushes alone has
/// a lead at every shard; any other has one, beside shard 0. What a role sends to another of the same host takes no time.
class cluster {
public:
  cluster(const options& job, numerics& maths, std::span<listener* const> listeners);
  ~cluster();
  cluster(const cluster&) = delete;
  cluster& operator=(const cluster&) = delete;
  result run();

private:
  /// A message under way.
  struct envelope {
    endpoint from{}, to{};
    message content{};
    std::uint64_t bytes = 0;      ///< 0: takes the latency only
    incarnation life{};           ///< to a worker: of whom it was sent to
    std::uint64_t generation = 0; ///< of a computation
    bool leaves = false;          ///< its sender has it now, and its transmission begins
    bool lost = false;
    std::vector<envelope> others{}; ///< to more workers of that host: what it carries crosses the link once, for all of them
  };
  /// Something that happens to the cluster.
  struct scheduled_event {
    std::function<void()> action{};
  };
  /// A link is looked at: something may be through.
  using event = std::variant<envelope, scheduled_event, host_link>;

  struct worker_role; // roles.hpp
  struct holder_role;
  class roster; // holders.hpp
  struct coordinator_role;
  struct evaluator_role;

  // -- time (cluster.cpp)
  void step();
  void schedule(nanoseconds at, std::function<void()> action);
  std::string why_stuck() const;
  std::string waited_for() const;
  aftermath clear_up();
  training_timers timers_of(endpoint who);

  // -- the network (delivery.cpp)
  endpoint actor_of(endpoint who) const;
  host_id host_of(endpoint who) const;
  void send(endpoint from, endpoint to, message msg, std::uint64_t bytes = 0, std::optional<nanoseconds> left = {},
            const std::vector<worker_id>& along = {});
  void arrive(envelope&& mail);
  void transmit(envelope&& mail);
  void look_at(host_link which);
  bool waits_at_worker(const envelope& mail);
  void repeat(const envelope& mail);
  nanoseconds late() const;
  void hear(const envelope& mail);
  void tell_listeners(endpoint from, endpoint to, const message& msg);
  std::vector<envelope> lose(const std::function<bool(endpoint from)>& from, const std::function<bool(endpoint to)>& to);

  // -- faults and membership (faults.cpp)
  void place_roles();
  std::unique_ptr<controller> make_controller() const;
  std::shared_ptr<lead> make_lead(lead_state from = {}) const;
  void hop();
  void plan_faults();
  worker_role& role_of(worker_id who);
  void join(worker_id who, bool at_once);
  void kill(worker_id who);
  coordinator_options coordinator_options_now() const;
  void pause(worker_id who, nanoseconds duration);
  void cut_off(worker_id who, nanoseconds duration);
  void unpark(worker_role& worker);
  void note(std::string text);
  void broken(const std::string& text);

  options options_;
  step_cuts cuts_{options_};
  numerics& maths_;
  std::vector<listener*> listeners_;
  bool checks_; ///< machines assert their invariants after each message: where somebody watches
  protocol protocol_;
  tree_shape shape_;
  std::vector<holder_place> tree_; ///< before anybody is gone
  network network_;
  std::map<std::uint64_t, envelope> transmitted_; ///< what the network has under way
  begun_pushes begun_;
  nanoseconds control_latency_ = 0;
  host_id host_of_coordinator_{};
  random_stream dice_, hops_;
  double repeat_ = 0, loss_ = 0, reorder_ = 0; ///< probabilities

  event_queue<event> queue_;
  nanoseconds now_ = 0, last_progress_ = 0;
  std::uint64_t events_at_rest_ = 0; ///< see options
  training_clock clock_{[this] { return now_; }};
  std::map<std::pair<endpoint, endpoint>, nanoseconds> last_on_link_; ///< where messages are delayed at random

  std::unique_ptr<coordinator_role> coordinator_;
  std::unique_ptr<evaluator_role> evaluator_;
  std::unique_ptr<roster> holders_;
  std::vector<std::unique_ptr<worker_role>> workers_; ///< by number
  std::set<push_id> parked_at_lead_;
  std::map<version, std::uint64_t> committed_; ///< where versions are made in two phases: by which decision
  version last_reported_;

  bool ended_ = false;
  result result_;
  digest digest_;
};

} // namespace troupe::protocols::sim
