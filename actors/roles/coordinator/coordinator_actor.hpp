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
#include "actors/roles/coordinator/job_record.hpp"
#include "actors/roles/coordinator/nodes/job_start.hpp"
#include "actors/roles/coordinator/nodes/late_backups.hpp"
#include "actors/roles/coordinator/nodes/node_questions.hpp"
#include "actors/roles/coordinator/nodes/progress_watch.hpp"
#include "actors/roles/coordinator/nodes/worker_incarnations.hpp"
#include "actors/roles/training_clock.hpp"
#include "protocols/coordinator.hpp"

namespace troupe::actors {

/// Prepares and starts the job on every node, then lets the protocol's coordinator decide. Ends by telling every node and
/// the observer. Whoever it waits for has a name and a deadline.
class coordinator_state : private progress_watch::owner {
public:
  static inline const char* name = "troupe.coordinator";

  coordinator_state(measured_pointer<coordinator_control> self, coordinator_setup setup);
  coordinator_control::behavior_type make_behavior();

private:
  course now() const override {
    return finishing_ || interrupt_ ? course::ends : clock_.running() ? course::trains : course::evaluates;
  }
  std::uint64_t step() const override { return record_.result.steps; }
  std::uint32_t period() const override { return machine_->current().period; }
  void does_not_progress(std::uint32_t worker, const std::string& reason) override { worker_lost(worker, reason); }
  void evaluate_again() override { perform({protocols::evaluate{{step()}}}); }
  void fail(const std::string& reason) override { finish({true, reason}); }
  actor_report report() const;
  void started();
  void could_not_start(std::uint32_t node, std::string_view step, const caf::error& why);
  void data_differ(std::uint32_t node, const std::string& text);
  void lost_before_start(const std::string& reason);
  void perform(const protocols::coordinator_effects& effects);
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
  caf::result<std::string> carry_out(const actor_order& msg);
  caf::result<std::string> restart(std::uint32_t worker);
  caf::result<std::string> change(const change_order& msg);
  caf::result<traces_ptr> record(const record_order& msg);
  void worker_lost(std::uint32_t worker, const std::string& reason);
  void holder_lost(std::uint32_t holder, const std::string& reason);
  void take_over(const protocols::takes_over& who);
  const node_actor& lead_node() const { return setup_.nodes[places_.holders[0].node].actor; }
  void fetch(const protocols::fetch_order& order) { decentralized_ ? tell(order) : self_->send(lead_node(), order); }
  void job_held(const protocols::report& msg);
  void interrupt(const std::string& reason);
  void on_collected(const collected& msg);
  void newest_are_overdue();
  void resume_clock();
  void finish(const protocols::stop& how);
  void deliver();
  void save_and_deliver();
  double seconds() const { return static_cast<double>(clock_.now()) * 1e-9; }
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
  std::set<std::uint32_t> lost_;                    ///< nodes
  std::set<std::uint32_t> lost_workers_, lost_holders_;
  worker_incarnations incarnations_;
  std::map<std::uint32_t, node_actor> early_; ///< nodes that may bring workers, and came before training began
  std::set<std::uint32_t> returning_, new_;   ///< nodes that are back, or asked back, and not ready yet; of them, the newcomers
  activity& activity_;
  training_clock clock_{steady_ns};
  training_timers timers_;
  progress_watch progress_;
  checkpoints checkpoints_;
  tracer_ptr trace_;
  open_span hold_;
  bool finishing_ = false;
  std::optional<std::string> interrupt_; ///< why it ends once its newest parameters are here
  std::optional<collected> collected_;   ///< the newest parameters that have come
  std::vector<protocols::report> late_;  ///< of what was decided since the interrupt
  bool says_all_ = false;                ///< log.level
  job_record record_;
};

using coordinator_impl = measured_impl<coordinator_control, coordinator_state>;

} // namespace troupe::actors
