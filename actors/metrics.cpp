// SPDX-License-Identifier: BSD-3-Clause
// Counters and gauges in CAF's registry.
#include "actors/metrics.hpp"

#include <caf/telemetry/counter.hpp>
#include <caf/telemetry/gauge.hpp>
#include <caf/telemetry/metric_registry.hpp>

namespace troupe::actors {

namespace {

/// A counter takes what is added; we know what it should come to.
void raise(caf::telemetry::dbl_counter& counter, double to) {
  if (const auto more = to - counter.value(); more > 0)
    counter.inc(more);
}

} // namespace

job_metrics::job_metrics(caf::actor_system& system, const std::string& job) {
  auto gauge_of = [&](const char* name, const char* meaning, const char* unit) {
    return system.metrics().gauge_family<double>("troupe.job", name, {"job"}, meaning, unit)->get_or_add({{"job", job}});
  };
  auto counter_of = [&](const char* name, const char* meaning, const char* unit) {
    return system.metrics().counter_family<double>("troupe.job", name, {"job"}, meaning, unit, true)->get_or_add({{"job", job}});
  };
  steps_ = counter_of("steps", "Versions of the parameters.", "1");
  samples_ = counter_of("samples", "Samples in applied updates.", "1");
  seconds_ = counter_of("training", "Training time; holds do not count.", "seconds");
  epochs_ = gauge_of("epochs", "Passes over the training data.", "1");
  round_loss_ = gauge_of("round-loss", "Mean loss of the last round.", "1");
  train_loss_ = gauge_of("train-loss", "Training loss at the last evaluation.", "1");
  test_loss_ = gauge_of("test-loss", "Test loss at the last evaluation.", "1");
  test_accuracy_ = gauge_of("test-accuracy", "Part of the test samples that the last evaluation got right.", "ratio");
}

void job_metrics::on_progress(const progress& p) const {
  raise(*steps_, static_cast<double>(p.step));
  raise(*samples_, static_cast<double>(p.samples));
  raise(*seconds_, p.seconds);
  epochs_->value(p.epoch);
  round_loss_->value(p.train_loss);
}

void job_metrics::on_evaluation(const evaluation_point& e) const {
  train_loss_->value(e.train_loss);
  test_loss_->value(e.test_loss);
  test_accuracy_->value(e.test_accuracy);
}

void lane_metrics::on_lane(const std::string& peer, const net::lane_stats& stats) {
  auto& before = seen_[peer];
  if (stats.bytes_sent < before.bytes_sent || stats.bytes_received < before.bytes_received)
    before = {.peer = stats.peer, .queued_bytes = before.queued_bytes};
  auto add = [&](const char* name, const char* meaning, std::uint64_t now, std::uint64_t then) {
    auto* counter = system_.metrics().counter_family<std::int64_t>("troupe.lane", name, {"peer"}, meaning, "bytes", true)->get_or_add({{"peer", peer}});
    if (now > then)
      counter->inc(static_cast<std::int64_t>(now - then));
  };
  add("sent", "Sent over the lane to a peer.", stats.bytes_sent, before.bytes_sent);
  add("received", "Received over the lane from a peer.", stats.bytes_received, before.bytes_received);
  system_.metrics()
    .gauge_family<std::int64_t>("troupe.lane", "queued", {"peer"}, "Waits for the peer to take it.", "bytes")
    ->get_or_add({{"peer", peer}})
    ->inc(static_cast<std::int64_t>(stats.queued_bytes) - static_cast<std::int64_t>(before.queued_bytes)); // of all jobs together
  before = stats;
}

void lane_metrics::on_memory(std::uint64_t resident_bytes) const {
  system_.metrics()
    .gauge_singleton<std::int64_t>("troupe.node", "resident", "Memory of the process.", "bytes")
    ->value(static_cast<std::int64_t>(resident_bytes));
}

} // namespace troupe::actors
