// SPDX-License-Identifier: BSD-3-Clause
// What a running job and the lanes of a node tell Prometheus.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include <caf/actor_system.hpp>

#include "actors/net/lane.hpp"
#include "actors/run_observer.hpp"

namespace troupe::actors {

/// What one job has come to, in the registry of an actor system, whose exporter (`system_options::metrics_port`) serves it as text:
///
///   troupe_job_steps_total{job}, troupe_job_samples_total{job}: how far it is; their rates are its speed
///   troupe_job_training_seconds_total{job}: training time, which stands still while the job is held
///   troupe_job_epochs{job}, troupe_job_round_loss{job}, troupe_job_train_loss{job}, troupe_job_test_loss{job},
///   troupe_job_test_accuracy_ratio{job}
///
/// CAF's own stand beside them: caf_actor_mailbox_size and caf_actor_processing_time_seconds of every kind of actor, and
/// caf_system_running_actors. Thread-safe where one thread at a time tells the progress.
class job_metrics {
public:
  /// `job`: number and name, "3 quickstart".
  job_metrics(caf::actor_system& system, const std::string& job);
  void on_progress(const progress& p) const;
  void on_evaluation(const evaluation_point& e) const;

private:
  using gauge = caf::telemetry::dbl_gauge;
  using counter = caf::telemetry::dbl_counter;

  counter *steps_, *samples_, *seconds_;
  gauge *epochs_, *round_loss_, *train_loss_, *test_loss_, *test_accuracy_;
};

/// The lanes of a node, over all of its jobs:
///
///   troupe_lane_sent_bytes_total{peer}, troupe_lane_received_bytes_total{peer}: payloads and their frames
///   troupe_lane_queued_bytes{peer}: what waits for the peer to take it
///   troupe_node_resident_bytes: memory of the process
class lane_metrics {
public:
  explicit lane_metrics(caf::actor_system& system) : system_(system) {}
  /// What a lane's hub counts now. Where it counts less than before, it has begun anew.
  void on_lane(const std::string& peer, const net::lane_stats& stats);
  void on_memory(std::uint64_t resident_bytes) const;

private:
  caf::actor_system& system_;
  std::map<std::string, net::lane_stats> seen_;
};

} // namespace troupe::actors
