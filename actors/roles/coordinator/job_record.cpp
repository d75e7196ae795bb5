// SPDX-License-Identifier: BSD-3-Clause
// How reports and evaluations become a job's result.
#include "actors/roles/coordinator/job_record.hpp"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

namespace troupe::actors {

void job_record::start(const course& how, const protocols::coordinator_options::start_point& from) {
  result.steps = reported_steps_ = from.ver.value;
  result.samples = from.samples;
  course_ = how;
}

void job_record::take_over(const protocols::lead_report& said, const lead_tally& tally, const protocols::plan& plan) {
  result.steps = reported_steps_ = said.made.value;
  result.samples = said.samples;
  result.gradients = tally.gradients;
  result.discarded = tally.discarded;
  result.staleness = tally.staleness;
  result.residual_max = tally.residual_max;
  for (const auto& each : plan.workers)
    result.restarts += each.incarnation.value;
}

const evaluation_point& job_record::evaluated_before(const evaluation& msg, const held_point& held) {
  evaluated_ = msg.ver;
  result.weights_step = held.ver.value;
  result.last = evaluation_point{held.ver.value,     held.samples,  static_cast<double>(held.trained) * 1e-9,
                                 msg.train_loss,     msg.test_loss, msg.test_accuracy,
                                 msg.validation_loss};
  return *result.last;
}

void job_record::planned(const protocols::plan& plan) {
  result.period = plan.period;
  result.partition_kib = plan.partition_kib;
  if (course_.rounds)
    members_.emplace(plan.epoch, plan.workers);
}

progress job_record::round_closed(const protocols::report& msg, double seconds) {
  held(msg);
  result.gradients += msg.contributions;
  result.staleness[msg.staleness] += msg.contributions;
  result.residual_max = std::max(result.residual_max, msg.residual);
  progress out{msg.ver.value,
               msg.samples,
               static_cast<double>(msg.samples) / static_cast<double>(course_.data_size),
               msg.loss,
               seconds,
               msg.worker.value,
               static_cast<double>(msg.compute) * 1e-6};
  if (msg.made) {
    members_.erase(members_.begin(), members_.lower_bound(msg.made->epoch));
    out.rounds.push_back({*msg.made, members_[msg.made->epoch]});
  }
  return out;
}

void job_record::discarded() {
  ++result.gradients;
  ++result.discarded;
}

std::optional<std::string> job_record::left_out(const protocols::report& msg, const std::string& whom) {
  discarded();
  const bool refused = msg.event == protocols::report::kind::push_refused;
  const auto fault = refused ? "pushes were refused: " + msg.text : "gradients were not finite";
  auto& [count, last_step] = left_out_[fault];
  last_step = msg.ver.value;
  if (++count > 1)
    return {};
  return fmt::format("step {}: {}", msg.ver.value,
                     refused ? fmt::format("a push of {} was refused: {}", whom, msg.text)
                             : fmt::format("the gradient of {} is not finite; it was left out", whom));
}

void job_record::held(const protocols::report& msg) {
  result.steps = reported_steps_ = msg.ver.value;
  result.samples = msg.samples;
}

const evaluation_point& job_record::evaluated(const evaluation& msg, std::optional<protocols::step_count> heard,
                                              bool target_reached, double seconds) {
  result.parameters = msg.parameters;
  evaluated_ = msg.ver;
  if (heard) {
    result.steps = heard->steps;
    result.samples = heard->samples;
  }
  result.weights_step = heard ? result.steps : msg.ver.value;
  result.last = evaluation_point{*result.weights_step, result.samples,     seconds, msg.train_loss, msg.test_loss,
                                 msg.test_accuracy,    msg.validation_loss};
  if (target_reached && !result.target_reached) {
    result.target_reached = true;
    result.time_to_target_s = seconds;
  }
  return *result.last;
}

void job_record::is_best() {
  best_ = {result.parameters, evaluated_, result.weights_step};
  result.best_step = result.weights_step;
}

void job_record::take(weights from) {
  result.parameters = std::move(from.parameters);
  evaluated_ = from.ver;
  result.weights_step = from.step;
}

bool job_record::take_newest() {
  if (!newest_ || !newest_->step)
    return false;
  take(*std::exchange(newest_, std::nullopt));
  return true;
}

void job_record::collected(const actors::collected& msg, protocols::step_count unheard) {
  result.steps += unheard.steps;
  result.samples += unheard.samples;
  result.parameters = msg.parameters;
  evaluated_ = msg.ver;
  result.weights_step = course_.decentralized ? result.steps : msg.ver.value;
}

void job_record::ended(const protocols::stop& how, double seconds) {
  result.failed = how.failed;
  result.reason = how.reason;
  if (best_ && best_->step != result.weights_step) {
    newest_ = {result.parameters, evaluated_, result.weights_step};
    take(*best_);
  }
  result.seconds = seconds;
  if (course_.decentralized) // each of a worker's steps is a gradient, also one of which the lead has not heard
    result.gradients += result.steps - reported_steps_;
  result.epochs = static_cast<double>(result.samples) / static_cast<double>(course_.data_size);
}

void job_record::add(const node_totals& all) {
  result.bytes_sent = all.bytes_sent;
  result.bytes_received = all.bytes_received;
  result.resident_bytes = all.resident_bytes;
  result.computed_ns = all.computed_ns;
  result.emulated_ns = all.emulated_ns;
  result.bytes_push = all.bytes_push;
  result.bytes_params = all.bytes_params;
  result.bytes_peers = all.bytes_peers;
  if (all.exchanged_ns > 0)
    result.overlap = static_cast<double>(all.hidden_ns) / static_cast<double>(all.exchanged_ns);
}

std::vector<std::string> job_record::repeated_faults() const {
  std::vector<std::string> out;
  for (const auto& [fault, seen] : left_out_)
    if (seen.count > 1)
      out.push_back(fmt::format("{} {}, the last at step {}", seen.count, fault, seen.last_step));
  return out;
}

std::optional<std::string> job_record::real_time_warning() const {
  if (result.emulated_ns <= 0 || result.computed_ns <= result.emulated_ns / 4)
    return std::nullopt;
  return fmt::format("steps really took {:.0f} % of their emulated time: the times of this run measure this machine too; "
                     "a larger inject.step_ms would not",
                     100.0 * static_cast<double>(result.computed_ns) / static_cast<double>(result.emulated_ns));
}

} // namespace troupe::actors
