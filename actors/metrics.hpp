// SPDX-License-Identifier: BSD-3-Clause
// What a running job tells Prometheus.
#pragma once

#include <string>

#include <caf/actor_system.hpp>

#include "actors/run_observer.hpp"

namespace troupe::actors {

/// Gauges of one job in the registry of an actor system, whose exporter (`system_options::metrics_port`) serves them as text:
///
///   troupe_job_steps{job}, troupe_job_samples{job}, troupe_job_epochs{job}: how far it is
///   troupe_job_training_seconds{job}: training time, which stands still while the job is held
///   troupe_job_round_loss{job}, troupe_job_train_loss{job}, troupe_job_test_loss{job}, troupe_job_test_accuracy_ratio{job}
///
/// CAF's own stand beside them: caf_actor_mailbox_size and caf_actor_processing_time_seconds of every kind of actor, and
/// caf_system_running_actors. Thread-safe.
class job_metrics {
public:
  /// `job`: number and name, "3 quickstart".
  job_metrics(caf::actor_system& system, const std::string& job);
  void on_progress(const progress& p) const;
  void on_evaluation(const evaluation_point& e) const;

private:
  using gauge = caf::telemetry::dbl_gauge;

  gauge *steps_, *samples_, *epochs_, *seconds_, *round_loss_, *train_loss_, *test_loss_, *test_accuracy_;
};

} // namespace troupe::actors
