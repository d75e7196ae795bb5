// SPDX-License-Identifier: BSD-3-Clause
// The coordinator: places a job's roles, owns its membership, decides when to evaluate and when to stop.
#pragma once

#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <caf/actor_clock.hpp>
#include <caf/stateful_actor.hpp>
#include <caf/typed_event_based_actor.hpp>

#include "actors/messages/node.hpp"
#include "actors/roles/activity.hpp"
#include "actors/roles/join_counter.hpp"
#include "actors/roles/training_clock.hpp"
#include "actors/run_observer.hpp"
#include "protocols/catalog.hpp"
#include "protocols/coordinator.hpp"

namespace troupe::actors {

/// A node that takes part in a job.
struct member_node {
  node_actor actor;
  std::string name;
  std::string host = "127.0.0.1";
  bool shard = true, worker = true;   ///< what it may hold
  std::vector<std::string> devices{}; ///< as in node_description
};

struct coordinator_setup {
  job what;
  std::uint64_t job_key = 0;
  std::vector<member_node> nodes; ///< the coordinator's own first
  std::shared_ptr<run_observer> observer;
  bool trace = false;                          ///< gather what every node was busy with
  std::vector<protocols::protocol> added = {}; ///< to the catalog, by this program
};

/// Names a job's lanes among all others, so that nodes of two runs cannot mix.
std::uint64_t random_job_key();

/// What a job says to the protocol's coordinator. `data_size`: training samples.
protocols::coordinator_options coordinator_options_of(const job& what, std::int64_t data_size,
                                                      std::span<const protocols::protocol> added);

/// Where each worker and holder goes; lane ports are not filled in. The first shard is always on the first node, the
/// coordinator's. Where shards and workers live apart, the other shards go to nodes that may hold no workers, and workers to all
/// that hold no shard, if there are such. A node at least may hold workers. Nodes that list several of the job's devices get more
/// workers than others, and those of one node have a device each in turn.
job_places place_roles(const job& what, const std::vector<member_node>& nodes);

/// How long a node may take to load the data, and to spawn its roles and connect its lanes.
struct coordinator_deadlines {
  static constexpr std::chrono::seconds prepare{300}, start{60};
};

/// Prepares and starts the job on every node, then lets the protocol's coordinator decide. Ends by telling every node and
/// the observer. Whoever it waits for has a name and a deadline.
class coordinator_state {
public:
  static inline const char* name = "troupe.coordinator";

  coordinator_state(measured_pointer<coordinator_control> self, coordinator_setup setup);
  coordinator_control::behavior_type make_behavior();

private:
  actor_report report() const;
  std::vector<std::string> names() const; ///< of the nodes
  void prepare();
  void start();
  std::string wrong_data(std::size_t node) const;
  void started();
  void perform(const protocols::coordinator_effects& effects);
  void on_report(const protocols::report& msg);
  void on_evaluation(const evaluation& msg);
  void on_role_lost(const role_lost& msg);
  void on_node_lost(std::size_t node, const std::string& reason);
  void on_node_back(std::uint32_t node, const node_actor& actor);
  void tell_of_return(std::uint32_t node);
  void turn_away(std::uint32_t node, const std::string& why);
  std::uint32_t next_life(std::uint32_t node) const;
  std::uint32_t next_life_of(std::uint32_t worker) const;
  void start_again(std::uint32_t node);
  void take_back(std::uint32_t worker, std::uint32_t life);
  bool on_node_leaves(std::uint32_t node);
  caf::result<std::string> carry_out(const actor_order& msg);
  caf::result<std::string> restart(std::uint32_t worker);
  caf::result<std::string> change(const change_order& msg);
  caf::result<traces_ptr> record(const record_order& msg);
  void worker_lost(std::uint32_t worker, const std::string& reason);
  void holder_lost(std::uint32_t holder, const std::string& reason);
  void could_not(std::size_t node, std::string_view what, const caf::error& why);
  void leave_out(const protocols::report& msg, const std::string& one, const std::string& all);
  void count(const protocols::report& msg);
  void interrupt(const std::string& reason);
  void on_collected(const collected& msg);
  void newest_are_overdue();
  void watch_for_stalls();
  void resume_clock();
  void finish(const protocols::stop& how);
  void ask_totals(std::function<void(node_totals)> take);
  using traces_taker = std::function<void(std::vector<node_trace>)>;
  struct collection;
  /// With what has come `until` then, on this actor's clock.
  void collect_traces(traces_taker take, caf::actor_clock::time_point until = caf::actor_clock::time_point::max());
  void read_clock(std::size_t node, const join_counter<collection>& into, int times);
  void collect_trace(std::size_t node, const join_counter<collection>& into);
  void deliver();
  double seconds() const { return static_cast<double>(clock_.now()) * 1e-9; }
  std::string describe(std::uint32_t worker) const;
  template <class Message>
  void tell(const Message& msg) {
    for (std::size_t i = 0; i < setup_.nodes.size(); ++i)
      if (!lost_.contains(i))
        self_->send(setup_.nodes[i].actor, msg);
  }

  measured_pointer<coordinator_control> self_;
  coordinator_setup setup_;
  std::int64_t data_size_ = 1;
  std::vector<std::vector<file_probe>> files_; ///< by node: what its data were read from
  job_places places_;
  std::size_t answers_missing_ = 0;
  std::unique_ptr<protocols::coordinator> machine_;
  bool centreless_ = false;          ///< the workers hold the parameters
  std::uint64_t reported_steps_ = 0; ///< by the lead
  std::set<std::size_t> lost_;       ///< nodes
  std::set<std::uint32_t> lost_workers_, lost_holders_;
  std::map<std::uint32_t, std::uint32_t> lives_;       ///< of workers, where it is not their first
  std::map<std::uint32_t, std::uint32_t> begun_lives_; ///< the last that a person wanted of each, whatever became of it
  std::set<std::size_t> returning_;                    ///< nodes that are back and not ready yet
  activity& activity_;
  std::set<std::uint32_t> awaited_; ///< nodes that prepare or start
  training_clock clock_;
  training_timers timers_;
  std::chrono::steady_clock::time_point last_progress_;
  tracer_ptr trace_;
  open_span hold_;
  bool finishing_ = false;
  std::optional<std::string> interrupt_; ///< why it ends once its newest parameters are here
  std::optional<collected> collected_;   ///< the newest parameters that have come
  struct repetition {
    std::uint64_t count = 0, last_step = 0;
  };
  std::map<std::string, repetition> left_out_; ///< pushes, by what was wrong with them
  std::vector<protocols::report> late_;        ///< of what was decided since the interrupt
  bool stall_said_ = false;
  bool says_all_ = false; ///< log.level
  job_result result_;
};

using coordinator_impl = measured_impl<coordinator_control, coordinator_state>;

} // namespace troupe::actors
