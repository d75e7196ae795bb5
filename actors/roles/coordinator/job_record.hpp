// SPDX-License-Identifier: BSD-3-Clause
// What a job has come to so far.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "actors/messages/node.hpp"
#include "actors/run_observer.hpp"
#include "protocols/coordinator.hpp"

namespace troupe::actors {

/// Sums up what a job's lead reports and what its evaluations find. Used on the coordinator's thread alone.
class job_record {
public:
  struct course {
    std::int64_t data_size = 1; ///< training samples
    bool decentralized = false; ///< the workers hold the parameters, so the lead hears of steps late
    bool rounds = false;        ///< the lead records them
  };
  void start(const course& how, const protocols::coordinator_options::start_point& from);
  /// What another coordinator had heard, as far as the lead knows it. `plan`: the newest.
  void take_over(const protocols::lead_report& said, const lead_tally& tally, const protocols::plan& plan);
  void planned(const protocols::plan& plan);

  /// A round, as the observer is told. `seconds` of training so far.
  progress round_closed(const protocols::report& msg, double seconds);
  void discarded();
  /// A push of `whom` that was refused, or is not finite, is counted by what was wrong with it. A sentence about the first of
  /// each.
  std::optional<std::string> left_out(const protocols::report& msg, const std::string& whom);
  void held(const protocols::report& msg);
  /// `heard`: steps and samples in the evaluated version, where the coordinator's machine knows better than the lead.
  const evaluation_point& evaluated(const evaluation& msg, std::optional<protocols::step_count> heard, bool target_reached,
                                    double seconds);
  /// The newest evaluation has the lowest loss: its parameters are the result's at the end.
  void is_best();
  /// An evaluation that another coordinator may have heard of, or not.
  const evaluation_point& evaluated_before(const evaluation& msg, const held_point& held);
  /// Parameters that were fetched without an evaluation; `unheard` is in them and in no report.
  void collected(const actors::collected& msg, protocols::step_count unheard);
  /// The result's parameters, where they are not in this process yet.
  std::optional<protocols::version> missing_parameters() const {
    return result.weights_step && result.parameters.empty() ? std::optional{evaluated_} : std::nullopt;
  }
  /// The best ones are nowhere any more: the newest are the result's. False if these are not there either.
  bool take_newest();
  /// The newest parameters have been evaluated.
  bool is_evaluated() const { return result.last && result.last->step == result.steps; }

  void ended(const protocols::stop& how, double seconds);
  void add(const node_totals& all);
  /// Faults of which there was more than one, and a warning where steps took a good part of the time that they emulate.
  std::vector<std::string> repeated_faults() const;
  std::optional<std::string> real_time_warning() const;

  job_result result;

private:
  struct repetition {
    std::uint64_t count = 0, last_step = 0;
  };
  std::map<std::string, repetition> left_out_; ///< by fault
  course course_;
  std::map<protocols::plan_epoch, std::vector<protocols::member>> members_; ///< of plans whose rounds are recorded
  /// Parameters, what the evaluator calls them, and their step.
  struct weights {
    kernels::buffer parameters;
    protocols::version ver;
    std::optional<std::uint64_t> step;
  };
  void take(weights from);

  std::uint64_t reported_steps_ = 0; ///< by the lead
  protocols::version evaluated_;     ///< what the evaluator calls the result's parameters
  std::optional<weights> best_, newest_;
};

} // namespace troupe::actors
