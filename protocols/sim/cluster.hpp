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

#include "protocols/binding/replica_collection.hpp"
#include "protocols/catalog.hpp"
#include "protocols/coordinator.hpp"
#include "protocols/holder.hpp"
#include "protocols/random_stream.hpp"
#include "protocols/sim/event_queue.hpp"
#include "protocols/sim/network.hpp"
#include "protocols/sim/simulate.hpp"
#include "protocols/sim/training_time.hpp"

namespace troupe::protocols::sim {

/// One job, once. What it promises the machines is in options.hpp (`disorder`).
///
/// Where a role runs: the coordinator and the evaluator beside shard 0. A job whose protocol applies pushes alone has a lead at
/// every shard; any other has one, beside shard 0. What a role sends to another of the same host takes no time.
class cluster {
public:
  cluster(const options& job, numerics& maths, std::span<listener* const> listeners);
  ~cluster();
  cluster(const cluster&) = delete;
  cluster& operator=(const cluster&) = delete;
  result run();

private:
  /// A message under way.
  struct parcel {
    endpoint from{}, to{};
    message what{};
    std::uint64_t bytes = 0;      ///< 0: takes the latency only
    incarnation life{};           ///< to a worker: of whom it was sent to
    std::uint64_t generation = 0; ///< of a timer or a computation
    bool leaves = false;          ///< its sender has it now, and its transmission begins
    bool lost = false;
  };
  /// Something that happens to the cluster.
  struct happening {
    std::function<void()> what{};
  };
  /// A link is looked at: something may be through.
  using event = std::variant<parcel, happening, host_link>;

  struct worker_seat; // seats.hpp
  struct holder_seat;

  // -- time (cluster.cpp)
  void step();
  void happens(nanoseconds at, std::function<void()> what);
  bool stalled() const;
  std::string waited_for() const;
  aftermath clear_up();

  // -- the network (delivery.cpp)
  host_id host_of(endpoint who) const;
  void send(endpoint from, endpoint to, message what, std::uint64_t bytes = 0, std::optional<nanoseconds> left = {});
  void arrive(parcel&& what);
  void transmit(parcel&& what);
  void look_at(host_link which);
  bool waits_at_worker(const parcel& what);
  void repeat(const parcel& what);
  nanoseconds late() const;
  void hear(const parcel& what);
  void tell_listeners(endpoint from, endpoint to, const message& what);
  void lose(const std::function<bool(endpoint from)>& from, const std::function<bool(endpoint to)>& to);

  // -- faults and membership (faults.cpp)
  void place_roles();
  void plan_faults();
  worker_seat& seat(worker_id who);
  void join(worker_id who, bool at_once);
  void kill(worker_id who);
  void kill_aggregator(holder_id who);
  void pause(worker_id who, nanoseconds duration);
  void cut_off(worker_id who, nanoseconds duration);
  void unpark(worker_seat& at);
  void note(std::string text);

  // -- coordinator, evaluator (coordinator.cpp)
  void on_coordinator(const message& what);
  void perform(const coordinator_effects& effects);
  void tell_holders(const message& what);
  void on_evaluator(const message& what);
  void on_fetched(const params_parcel& what);
  void evaluate_whole(version ver, const tensor& whole, std::vector<std::pair<member, step_count>> made = {});
  void on_evaluated(const evaluated& what);

  void collect_replicas(version ver);
  void evaluate_average(const std::optional<replica_collection<tensor>::average>& whole);
  void broken(const std::string& what);

  options options_;
  numerics& maths_;
  std::vector<listener*> listeners_;
  bool checks_; ///< machines assert their invariants after each message: where somebody watches
  protocol protocol_;
  std::vector<holder_place> tree_;
  network network_;
  std::map<std::uint64_t, parcel> transmitted_; ///< what the network has under way
  std::uint64_t last_transmission_ = 0;
  nanoseconds control_latency_ = 0;
  random_stream dice_;
  double repeat_ = 0, loss_ = 0, reorder_ = 0; ///< probabilities

  event_queue<event> queue_;
  nanoseconds now_ = 0, last_progress_ = 0;
  training_time clock_;
  training_timers timers_;
  std::map<std::pair<endpoint, endpoint>, nanoseconds> last_on_link_; ///< where messages are delayed at random

  coordinator coordinator_;
  std::vector<std::unique_ptr<holder_seat>> holders_;
  std::vector<std::unique_ptr<worker_seat>> workers_; ///< by number
  /// What has come of a set of parameters.
  struct incoming {
    std::map<holder_id, params_parcel> parts{};
  };
  std::map<std::uint64_t, incoming> fetched_; ///< by key
  std::uint64_t evaluated_ = 0;               ///< key of the newest set
  replica_collection<tensor> collection_;     ///< where there is no centre
  std::set<push_id> parked_at_lead_;

  bool ended_ = false;
  result result_;
  digest digest_;
};

} // namespace troupe::protocols::sim
