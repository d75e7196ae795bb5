// SPDX-License-Identifier: BSD-3-Clause
// The coordinator: membership by plans, when to evaluate, when to stop.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "protocols/controller.hpp"

namespace troupe::protocols {

/// `[stop]` and `[evaluate]` of a job, and what membership starts with. What is 0 or empty does not apply.
struct coordinator_options {
  std::uint32_t workers = 1; ///< that the first plan waits for
  protocol_spec protocol{};
  std::int64_t batch = 1, data_size = 1;
  std::uint32_t period = 1;
  double lr_scale = 1;                      ///< see plan
  std::uint64_t evaluate_every_samples = 0; ///< 0 with evaluate_every_ns 0: once an epoch of the data
  nanoseconds evaluate_every_ns = 0;
  double stop_epochs = 0;
  std::uint64_t stop_steps = 0, stop_samples = 0;
  nanoseconds stop_ns = 0;
  double target_accuracy = 0;
  std::uint32_t shards = 1; ///< holders below this number are shards: the job cannot go on without one
  /// The job ends after this many rounds in a row without a usable gradient: its parameters can no longer change. A protocol
  /// that applies each push alone ends it after this many pushes per worker.
  std::uint32_t barren_rounds = 20;
  /// Nobody holds parameters but the workers themselves: an evaluation asks them, and asks again when one of them is gone.
  bool centreless = false;
  /// After so many samples; what controllers that follow it are told. Absent: 1.
  std::function<double(std::uint64_t samples)> learning_rate{};
};

/// Owns membership and the course of the job. The first plan goes out when `workers` have joined; each later join or
/// death makes the next one. A job without workers left stops, failed, with the reason. Evaluation points are exact: the
/// lead is told beforehand at how many samples or steps to hold, so the same job stops at the same version wherever it runs.
/// Points in time (`_ns`) take effect at the next version. A decentralized job counts the finished steps of its evaluation, also
/// those that the lead has not heard of when it holds. A job ends with an evaluation of its last parameters, unless it fails.
///
/// A worker's lives only grow: a join of a newer life ends the older one, and a join of a life that was down already is ignored.
/// So is a join of a worker whose pushes no aggregator takes: in a job with a tree, a worker beyond the first `workers`, or one
/// whose aggregator is gone.
/// After `stop` every message is ignored.
class coordinator {
public:
  /// `controls` may be null: a protocol that stays as it is.
  explicit coordinator(const coordinator_options& options, std::unique_ptr<controller> controls = nullptr);

  coordinator_effects on(const joined& msg);
  coordinator_effects on(const down& msg);
  /// A shard: the job fails. An aggregator: the workers below it are down too, and stay so.
  coordinator_effects on(const holder_down& msg);
  coordinator_effects on(const held& msg);
  coordinator_effects on(const evaluated& msg);
  coordinator_effects on(const expired& msg);
  /// The operator's, while the job runs: takes effect as a controller's does.
  coordinator_effects on(const decision& msg);
  /// The lead's; only `round_closed` matters here.
  coordinator_effects on(const report& msg);

  /// Ends the process where an invariant of its state is broken. Between messages.
  void check() const;
  const plan& current() const { return plan_; } ///< the newest
  bool started() const { return plan_.epoch != plan_epoch{}; }
  bool stopped() const { return stopped_; }
  bool target_reached() const { return target_reached_; }
  /// What was held, or evaluated, last.
  version held_version() const { return version_; }
  std::uint64_t held_samples() const { return samples_; }
  /// Where there is no centre: of the steps that replicas hold, those of which no report has come yet.
  step_count unheard(const std::vector<std::pair<member, step_count>>& made) const;

private:
  bool is_out(member who) const;
  coordinator_effects start();
  coordinator_effects lose(std::vector<member> who, const std::string& reason);
  coordinator_effects fail(std::string reason);
  send_plan next_plan();
  coordinator_effects follow(const std::optional<decision>& what);
  hold next_hold() const;
  arm_timer evaluation_timer(nanoseconds now) const;
  std::uint64_t stop_samples() const;
  bool at_the_end() const;
  std::string end_reason() const;

  coordinator_options options_;
  std::unique_ptr<controller> controls_;
  std::map<worker_id, incarnation> members_;
  std::map<worker_id, incarnation> buried_; ///< per worker, its newest life that was down
  std::vector<std::string> obituaries_;     ///< "worker 3 (its node was lost)"
  std::set<worker_id> cut_off_;             ///< below an aggregator that is gone
  plan plan_;
  bool evaluating_ = false, stopped_ = false, target_reached_ = false;
  bool time_is_up_ = false;
  version version_;                              ///< held last
  std::uint64_t samples_ = 0;                    ///< applied when held last
  std::map<worker_id, step_count> counted_;      ///< where there is no centre: by the lead, of this life
  std::uint32_t barren_ = 0, barren_pushes_ = 0; ///< in a row
};

} // namespace troupe::protocols
