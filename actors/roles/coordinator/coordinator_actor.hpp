// SPDX-License-Identifier: BSD-3-Clause
// The coordinator: places a job's roles, owns its membership, decides when to evaluate and when to stop.
#pragma once

#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include <caf/stateful_actor.hpp>
#include <caf/typed_event_based_actor.hpp>

#include "actors/roles/coordinator/checkpoints.hpp"
#include "actors/roles/coordinator/coordinator_setup.hpp"
#include "actors/roles/coordinator/decided_effects.hpp"
#include "actors/roles/coordinator/job_ending.hpp"
#include "actors/roles/coordinator/job_record.hpp"
#include "actors/roles/coordinator/job_takeover.hpp"
#include "actors/roles/coordinator/nodes/evaluator_seat.hpp"
#include "actors/roles/coordinator/nodes/job_start.hpp"
#include "actors/roles/coordinator/nodes/late_backups.hpp"
#include "actors/roles/coordinator/nodes/node_questions.hpp"
#include "actors/roles/coordinator/nodes/progress_watch.hpp"
#include "actors/roles/coordinator/nodes/worker_incarnations.hpp"
#include "actors/roles/coordinator/orders/interruption.hpp"
#include "actors/roles/coordinator/orders/operator_orders.hpp"
#include "actors/roles/training_clock.hpp"
#include "protocols/coordinator.hpp"

namespace troupe::actors {

/// Prepares and starts the job on every node, or takes over one that runs; then lets the protocol's coordinator decide. Ends by
/// telling every node and the observer. Whoever it waits for has a name and a deadline.
class coordinator_state : private progress_watch::owner,
                          private operator_orders::owner,
                          private evaluator_seat::owner,
                          private interruption::owner {
public:
  static inline const char* name = "troupe.coordinator";

  coordinator_state(measured_pointer<coordinator_control> self, coordinator_setup setup);
  coordinator_control::behavior_type make_behavior();

private:
  course now() const override {
    return finishing_ || interruption_.begun() ? course::ends : clock_.running() ? course::trains : course::evaluates;
  }
  std::uint64_t step() const override { return record_.result.steps; }
  void worker_does_not_progress(std::uint32_t worker, const std::string& reason) override { worker_lost(worker, reason); }
  void worker_moves_again(std::uint32_t worker) override { orders_.restart_as_it_moves(worker); }
  void holder_does_not_progress(std::uint32_t holder, const std::string& reason) override;
  void evaluator_is_overdue(const std::string& reason) override { evaluator_lost(reason); }
  void evaluate_again() override;
  void fail(const std::string& reason) override { finish({true, reason}); }
  bool takes_orders() const override { return !finishing_ && machine_; }
  bool is_lost(const std::string& role, std::uint32_t index) const override {
    return role != "evaluator" && (role == "worker" ? lost_workers_ : lost_holders_).contains(index);
  }
  const std::set<std::uint32_t>& lost_nodes() const override { return lost_; }
  const protocols::plan& plan() const override { return machine_->current(); }
  void decide(const protocols::decision& change) override { perform(machine_->on(change)); }
  void decide_incarnation(std::uint32_t worker, std::uint32_t incarnation, std::function<void()> then) override {
    effects_.decide(protocols::ledger::incarnated{setup_.decided.number, setup_.decided.life, true, worker, incarnation},
                    std::move(then));
  }
  void restarted(std::uint32_t worker, std::uint32_t incarnation) override;
  void could_not_restart(std::uint32_t worker, const std::string& reason) override { worker_lost(worker, reason); }
  void record_everywhere(const record_order& msg) override { tell(msg); }
  actor_report report() const;
  void started();
  void find_blocks();
  void make_machine(std::int64_t data_size, const std::optional<protocols::coordinator_state>& from = {});
  void take_over();
  /// What is said of a job before it is known where its roles are waits until then.
  template <class Hear>
  void once_known(Hear hear) {
    if (takes_over_)
      parked_.push_back(std::move(hear));
    else
      hear();
  }
  void on_early_report(const protocols::report& msg);
  void could_not_start(std::uint32_t node, std::string_view step, const caf::error& why);
  void data_differ(std::uint32_t node, const std::string& text);
  void lost_before_start(const std::string& reason);
  void perform(const protocols::coordinator_effects& effects) { effects_.add(effects); }
  void carry_out(const protocols::coordinator_effects& effects);
  void on_report(const protocols::report& msg);
  void on_evaluation(const evaluation& msg);
  void on_role_lost(const role_lost& msg);
  void on_peer_unreachable(const peer_unreachable& msg);
  void on_node_lost(std::uint32_t node, const std::string& reason);
  void put_out(std::uint32_t node, const std::string& reason);
  void ask_back(std::uint32_t node);
  void on_node_back(std::uint32_t node, const node_actor& actor);
  void takes_part_again(std::uint32_t node);
  void take_back(std::uint32_t worker, std::uint32_t life, bool joins = false);
  bool on_node_leaves(std::uint32_t node);
  void roles_lost(std::uint32_t node, const std::string& reason);
  void worker_lost(std::uint32_t worker, const std::string& reason);
  void holder_lost(std::uint32_t holder, const std::string& reason);
  void evaluator_lost(const std::string& reason);
  void promote(const protocols::takes_over& who);
  void copy_lost(const protocols::holder_down& who);
  void replace_copies_soon();
  const node_actor& lead_node() const { return setup_.nodes[places_.holders[0].node].actor; }
  void fetch(const protocols::fetch_order& order) { decentralized_ ? tell(order) : self_->send(lead_node(), order); }
  void job_held(const protocols::report& msg);
  bool trains() const override { return clock_.running(); }
  bool is_ending() const override { return finishing_; }
  bool is_decentralized() const override { return decentralized_; }
  void save_newest() override { checkpoints_.order_now(); }
  void fetch_newest() override;
  protocols::step_count unheard_in(const collected& msg) const override {
    return decentralized_ ? machine_->unheard(msg.made) : protocols::step_count{};
  }
  void resume_clock();
  void finish(const protocols::stop& how);
  void deliver();
  double seconds() const override { return static_cast<double>(clock_.now()) * 1e-9; }
  template <class Message>
  void tell(const Message& msg) {
    for (std::size_t i = 0; i < setup_.nodes.size(); ++i)
      if (!lost_.contains(i))
        self_->send(setup_.nodes[i].actor, msg);
  }

  measured_pointer<coordinator_control> self_;
  coordinator_setup setup_;
  job_places places_;
  job_start start_;
  late_backups late_backups_;
  std::unique_ptr<protocols::coordinator> machine_; ///< from the start of training on
  bool decentralized_ = false;                      ///< the workers hold the parameters
  bool reduces_ = false;                            ///< likewise, and all the same
  std::set<std::uint32_t> lost_;                    ///< nodes
  std::set<std::uint32_t> lost_workers_, lost_holders_;
  worker_incarnations incarnations_;
  std::map<std::uint32_t, node_actor> early_; ///< nodes that may bring workers, and came before training began
  std::set<std::uint32_t> returning_, new_;   ///< nodes that are back, or asked back, and not ready yet; of them, the newcomers
  activity& activity_;
  training_clock clock_{steady_ns};
  training_timers timers_;
  progress_watch progress_;
  evaluator_seat evaluator_;
  checkpoints checkpoints_;
  tracer_ptr trace_;
  open_span hold_;
  bool finishing_ = false;
  std::optional<stop_job> end_; ///< what its nodes are told once that is decided
  job_record record_;
  operator_orders orders_;
  interruption interruption_;
  job_ending ending_;
  decided_effects effects_;
  job_takeover takeover_;
  bool takes_over_ = setup_.decided.taken_over.has_value(); ///< another coordinator's job, and not all its nodes have answered
  std::vector<std::function<void()>> parked_;               ///< meanwhile
};

using coordinator_impl = measured_impl<coordinator_control, coordinator_state>;

} // namespace troupe::actors
