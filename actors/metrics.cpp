// SPDX-License-Identifier: BSD-3-Clause
// A job's gauges.
#include "actors/metrics.hpp"

#include <caf/telemetry/gauge.hpp>
#include <caf/telemetry/metric_registry.hpp>

namespace troupe::actors {

job_metrics::job_metrics(caf::actor_system& system, const std::string& job) {
  auto gauge_of = [&](const char* name, const char* meaning, const char* unit) {
    return system.metrics().gauge_family<double>("troupe.job", name, {"job"}, meaning, unit)->get_or_add({{"job", job}});
  };
  steps_ = gauge_of("steps", "Versions of the parameters.", "1");
  samples_ = gauge_of("samples", "Samples in applied updates.", "1");
  epochs_ = gauge_of("epochs", "Passes over the training data.", "1");
  seconds_ = gauge_of("training", "Training time; holds do not count.", "seconds");
  round_loss_ = gauge_of("round-loss", "Mean loss of the last round.", "1");
  train_loss_ = gauge_of("train-loss", "Training loss at the last evaluation.", "1");
  test_loss_ = gauge_of("test-loss", "Test loss at the last evaluation.", "1");
  test_accuracy_ = gauge_of("test-accuracy", "Part of the test samples that the last evaluation got right.", "ratio");
}

void job_metrics::on_progress(const progress& p) const {
  steps_->value(static_cast<double>(p.step));
  samples_->value(static_cast<double>(p.samples));
  epochs_->value(p.epoch);
  seconds_->value(p.seconds);
  round_loss_->value(p.train_loss);
}

void job_metrics::on_evaluation(const evaluation_point& e) const {
  train_loss_->value(e.train_loss);
  test_loss_->value(e.test_loss);
  test_accuracy_->value(e.test_accuracy);
}

} // namespace troupe::actors
