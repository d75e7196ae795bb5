// SPDX-License-Identifier: BSD-3-Clause
// The coordinator: membership by plans, when to evaluate, when to stop.
#pragma once

#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "protocols/controller.hpp"
#include "protocols/lead_report.hpp"
#include "protocols/partition_tuner.hpp"
#include "protocols/tree.hpp"

namespace troupe::protocols {

/// `[evaluate]` and `[stop]` of a job, and the initial membership. A field that is 0 or empty does not apply.
struct coordinator_options {
  std::uint32_t workers = 1; ///< for which the first plan waits
  protocol_spec protocol{};
  std::int64_t batch = 1, data_size = 1;
  std::uint32_t period = 1;
  double lr_scale = 1;                      ///< see plan
  std::uint32_t partition_kib = 0;          ///< likewise
  partition_search search{};                ///< of other sizes
  std::uint64_t evaluate_every_samples = 0; ///< 0 with evaluate_every_ns 0: once an epoch of the data
  nanoseconds evaluate_every_ns = 0;
  stop_spec stop{};
  /// A job that goes on from a checkpoint: its version, the samples in it, and how long that took.
  struct start_point {
    version ver{};
    std::uint64_t samples = 0;
    nanoseconds trained = 0;
    std::vector<double> memory{}; ///< the controller's
  } from{};
  bool checkpoint_at_end = false;
  std::uint32_t shards = 1;   ///< holders below this number are shards: the job cannot go on without one
  std::uint32_t replicas = 1; ///< of each shard, itself among them: see holder_tree
  /// The job ends after this many rounds in a row without a usable gradient: its parameters can no longer change. A protocol
  /// that applies each push alone ends it after this many pushes per worker.
  std::uint32_t max_rounds_without_update = 20;
  /// Only the workers hold parameters: an evaluation asks all of them, and asks again when one is gone.
  bool decentralized = false;
  bool same_replicas = false; ///< decentralized: every worker's are the job's, and it says all steps that are in them
  /// The learning rate after this many samples, for controllers that follow it. Absent: 1.
  std::function<double(std::uint64_t samples)> learning_rate{};
};

/// All that a coordinator and its controller remember between messages.
struct coordinator_state {
  // of the next plan
  protocol_spec protocol{};
  std::uint32_t period = 1;
  double lr_scale = 1;
  std::map<worker_id, incarnation> members{};
  std::map<worker_id, incarnation> last_down{}; ///< per worker, its newest incarnation that was down
  std::vector<std::string> losses{};            ///< "worker 3 (its node was lost)"
  std::set<holder_id> gone{};                   ///< aggregators
  protocols::plan plan{};                       ///< the newest
  bool evaluating = false, stopped = false, target_reached = false;
  bool time_is_up = false;
  version held{};                            ///< held last
  std::uint64_t samples = 0;                 ///< applied when held last
  std::map<worker_id, step_count> counted{}; ///< decentralized: reported by the lead, for this incarnation; of same replicas, all
  std::uint32_t rounds_without_update = 0, pushes_without_update = 0; ///< in a row
  std::vector<double> memory{};                                       ///< the controller's
  std::map<holder_id, bool> backups{};                                ///< those that are there; whether each has all of its shard
  std::map<holder_id, holder_id> acting{};                            ///< by shard: the backup that is in its place
  std::uint64_t view = 0;                                             ///< how often a backup has taken the lead
  hold_order ordered{};                                               ///< the newest
  // with patience:
  version best{}; ///< the one evaluated with the lowest loss
  double best_loss = std::numeric_limits<double>::infinity();
  std::uint32_t since_best = 0;    ///< evaluations
  version judged{};                ///< the newest that has counted
  std::uint32_t partition_kib = 0; ///< of the next plan
  partition_tuning tuning{};       ///< the tuner's
  friend bool operator==(const coordinator_state&, const coordinator_state&) = default;
};

/// The backups with which a job begins, all whole, but for those that are gone.
std::map<holder_id, bool> backups_without(const tree_shape& shape, const std::set<holder_id>& gone);

/// `who` with all that are told of: the shards, and the backups that are left.
takes_over promotion(const tree_shape& shape, takes_over who, const std::map<holder_id, bool>& backups);

/// Owns membership and the course of the job. The first plan goes out when `workers` have joined; each later join or death makes
/// the next one. A job without workers left stops, failed, with the reason. Evaluation points are exact: the lead is told
/// beforehand at how many samples or steps to hold, so the same job stops at the same version wherever it runs. Points in time
/// (`_ns`) take effect at the next version. A decentralized job counts the finished steps of its evaluation, also those that the
/// lead has not heard of when it holds. A job ends with an evaluation of its last parameters, unless it fails.
///
/// A worker's incarnations only grow: a join of a newer one ends the older, and a join of one that was down already is ignored.
/// After `stop` every message is ignored.
class coordinator {
public:
  /// `controls` is null for a protocol that never changes.
  explicit coordinator(const coordinator_options& options, std::unique_ptr<controller> controls = nullptr);
  /// It goes on where the coordinator with this state was; `controls` is new.
  coordinator(const coordinator_options& options, std::unique_ptr<controller> controls, coordinator_state from);

  /// The first call to one that goes on where another one was lost (takeover.hpp): tells everyone again what that one may have
  /// told nobody, or some; also the plans under which something may be on its way, for whoever has missed one.
  coordinator_effects take_office(const lead_report& said);

  coordinator_effects on(const joined& msg);
  coordinator_effects on(const down& msg);
  /// If it is a shard, a backup takes its place; without one, the job fails. If it is an aggregator, its children are its
  /// parents' from the next plan on.
  coordinator_effects on(const holder_down& msg);
  /// It may take its shard's place once it has caught up. Its number is one that no holder had before.
  coordinator_effects on(const new_backup& msg);
  coordinator_effects on(const caught_up& msg);
  coordinator_effects on(const held& msg);
  coordinator_effects on(const evaluated& msg);
  coordinator_effects on(const expired& msg);
  /// From the operator, while the job runs: takes effect as a controller's decision does.
  coordinator_effects on(const decision& msg);
  /// From the lead; only `round_closed`, `push_not_finite` and `lost` matter here.
  coordinator_effects on(const report& msg);

  /// To one that goes on where another one was lost: an evaluation of which that one may have heard. With patience: whether it
  /// had the lowest loss so far.
  bool recall(const evaluated& msg) { return judge(msg, msg.ver); }

  coordinator_state state() const;
  /// Ends the process if an invariant of its state is broken. To be called between messages.
  void check() const;
  const plan& current() const { return state_.plan; } ///< the newest
  bool started() const { return state_.plan.epoch != plan_epoch{}; }
  bool stopped() const { return state_.stopped; }
  bool target_reached() const { return state_.target_reached; }
  /// With patience: the last evaluation had the lowest loss so far.
  bool is_at_best() const { return options_.stop.patience > 0 && state_.best == state_.held && state_.since_best == 0; }
  /// The version held or evaluated last.
  version held_version() const { return state_.held; }
  /// Whether the lead that was to send the held version sent a later one: it had gone on, for the last coordinator.
  bool has_gone_on(version evaluated) const { return !options_.decentralized && evaluated > state_.held; }
  std::uint64_t held_samples() const { return state_.samples; }
  /// In a decentralized job: the steps in the replicas of which no report has come yet.
  step_count unheard(const std::vector<std::pair<member, step_count>>& made) const;

private:
  void remind();
  bool is_out(member who) const;
  coordinator_effects start();
  void arm_timers(coordinator_effects& out, nanoseconds trained) const;
  coordinator_effects lose(member who, const std::string& reason);
  tree_shape shape() const { return {options_.workers, options_.shards, state_.protocol.fan_in, options_.replicas}; }
  coordinator_effects fail(std::string reason);
  coordinator_effects replace(holder_id shard, const std::string& reason);
  void repeat_memberships(coordinator_effects& out) const;
  void repeat_to_lead(coordinator_effects& out) const;
  bool is_backup(holder_id who) const { return who.value >= first_backup(shape()).value; }
  hold order(const hold& limit);
  send_plan next_plan();
  coordinator_effects follow(const std::optional<decision>& decided);
  coordinator_effects try_partitions(const report& closed);
  hold next_hold() const;
  arm_timer evaluation_timer(nanoseconds now) const;
  std::uint64_t stop_samples() const;
  bool judge(const evaluated& msg, version of);
  bool is_out_of_patience() const { return options_.stop.patience > 0 && state_.since_best >= options_.stop.patience; }
  bool at_the_end() const;
  std::string end_reason() const;

  coordinator_options options_;
  std::unique_ptr<controller> controls_;
  partition_tuner tuner_;
  coordinator_state state_; ///< without the controller's memory, once that has it, and the tuner's state
};

} // namespace troupe::protocols
