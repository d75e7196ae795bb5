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

#include "protocols/catalog.hpp"
#include "protocols/coordinator.hpp"
#include "protocols/dice.hpp"
#include "protocols/holder.hpp"
#include "protocols/lead.hpp"
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

  struct kept_parameters {
    params head{};
    tensor what{};
  };
  struct incoming {
    params head{};
    std::vector<tensor> ranges{};
    std::set<std::uint32_t> shards{}; ///< whose range has come
  };
  struct worker_seat {
    member self{};
    host_id host{};
    bool alive = false;
    std::unique_ptr<worker> machine{};
    std::unique_ptr<worker_numerics> maths{};
    std::vector<holder_id> targets{};               ///< who takes its pushes
    plan_epoch first_plan{};                        ///< with this life of it, that it has heard
    std::vector<params_parcel> early{};             ///< came before that
    std::map<std::uint64_t, incoming> incomplete{}; ///< by key
    std::map<ticket, kept_parameters> parameters{};
    std::map<ticket, tensor> gradients{};
    std::map<ticket, tensor> replicas{}; ///< of other workers
    tensor pushed{};                     ///< the sum of its last push, where that is kept
    std::uint64_t last_ticket = 0;
    ticket adopted{};
    protocol_spec protocol{};      ///< of what was adopted
    std::uint64_t computation = 0; ///< generation of the one under way
    nanoseconds done_at = 0;       ///< when it ends; 0: none
    computed outcome{};
    std::optional<std::pair<batch, local_step_rule>> own_step{}; ///< under way
    std::uint64_t steps = 0;     ///< computed so far, over all lives: what measured times are drawn by
    nanoseconds idle_since = -1; ///< it has computed, and waits for what is next
    nanoseconds paused_until = 0;
    int partitions = 0;
    std::vector<parcel> parked{}; ///< while it is paused or cut off, or the job is held
  };
  struct kept_push {
    push_id id{};
    tensor what{};
  };
  struct holder_seat {
    explicit holder_seat(const holder_place& at) : place(at), machine(at) {}
    holder_place place;
    holder machine;
    std::unique_ptr<lead> decides{}; ///< of shards that have one
    std::unique_ptr<shard_numerics> maths{};
    bool alive = true;
    host_id host{};
    std::map<ticket, kept_push> kept{};
    std::map<ticket, tensor> retained{};
    std::uint64_t last_ticket = 0;
    nanoseconds free_at = 0; ///< when the last step that it began is made
  };

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

  // -- where there is no centre (peers.cpp)
  void on_peer(worker_seat& at, const peer_parcel& what);
  void send_replica(worker_seat& at, const send_peer& what);
  void collect_replicas(version ver);
  void on_collected(const peer_parcel& what);
  void average_if_complete();

  // -- shards and aggregators (shards.cpp)
  void on_holder(holder_seat& at, const message& what);
  void on_lead(holder_seat& at, const message& what);
  void perform(holder_seat& at, const holder_effects& effects);
  void perform_as_lead(holder_seat& at, const lead_effects& effects);
  template <class Order>
  void order(holder_seat& at, const Order& what, bool everywhere);
  void on_report(holder_seat& at, report what);
  void still_parked(const lead& at, const lead_effects& effects);
  std::vector<operand> take(holder_seat& at, const std::vector<term>& sum, bool keep);
  void apply(holder_seat& at, const apply_round& what);
  void forward_sum(holder_seat& at, const forward& what);
  void send_parameters(holder_seat& at, const std::vector<worker_id>& to, const params& head);
  ticket keep(holder_seat& at, const push_id& id, tensor what);

  // -- workers (workers.cpp)
  void on_worker(worker_seat& at, const message& what);
  void on_params(worker_seat& at, const params_parcel& what);
  void perform(worker_seat& at, const worker_effects& effects);
  batch batch_of(const worker_seat& at, const compute& what) const;
  void begin(worker_seat& at, const batch& of, const local_step_rule* own_step);
  void end(worker_seat& at, computed& done);
  void outcome_is(const worker_seat& at, computed& done, const gradient& found) const;
  nanoseconds time_of(worker_seat& at, const batch& of);
  void adopt_parameters(worker_seat& at, const adopt& what);
  std::vector<operand> operands_of(worker_seat& at, const std::vector<term>& sum);
  void push_to_holders(worker_seat& at, const send_push& what);
  void broken(const std::string& what);

  options options_;
  numerics& maths_;
  std::vector<listener*> listeners_;
  protocol protocol_;
  std::vector<holder_place> tree_;
  network network_;
  std::map<std::uint64_t, parcel> transmitted_; ///< what the network has under way
  std::uint64_t last_transmission_ = 0;
  nanoseconds control_latency_ = 0;
  dice dice_;
  double repeat_ = 0, loss_ = 0, reorder_ = 0; ///< probabilities

  event_queue<event> queue_;
  nanoseconds now_ = 0, last_progress_ = 0;
  training_time clock_;
  training_timers timers_;
  std::map<std::pair<endpoint, endpoint>, nanoseconds> last_on_link_; ///< where messages are delayed at random

  coordinator coordinator_;
  std::vector<std::unique_ptr<holder_seat>> holders_;
  std::vector<std::unique_ptr<worker_seat>> workers_; ///< by number
  std::map<plan_epoch, plan_parcel> plans_;
  std::map<std::uint64_t, incoming> fetched_;
  std::uint64_t evaluated_ = 0; ///< key of the newest set
  /// An average that is being collected: of whom, and what has come.
  struct collection {
    version ver{};
    std::map<worker_id, std::optional<peer_parcel>> replicas{};
  };
  std::optional<collection> collecting_;
  version averaged_;           ///< the last
  nanoseconds decided_at_ = 0; ///< training time: when the lead decided on the version that it held last
  nanoseconds head_start_ = 0; ///< of orders that were held back: how long they would be under way
  std::set<push_id> parked_at_lead_;

  bool ended_ = false;
  result result_;
  digest digest_;
};

} // namespace troupe::protocols::sim
