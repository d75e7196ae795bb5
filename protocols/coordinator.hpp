// SPDX-License-Identifier: BSD-3-Clause
// The coordinator: membership by plans, when to evaluate, when to stop.
#pragma once

#include "protocols/effect.hpp"

namespace troupe::protocols {

/// `[stop]` and `[evaluate]` of a job, and what membership starts with. What is 0 or empty does not apply.
struct coordinator_options {
  std::uint32_t workers = 1; ///< the first plan waits for so many
  protocol_spec protocol;
  std::int64_t batch = 1, data_size = 1;
  std::uint32_t period = 1;
  std::uint64_t evaluate_every_samples = 0; ///< 0 with evaluate_every_ns 0: once an epoch of the data
  nanoseconds evaluate_every_ns = 0;
  double stop_epochs = 0;
  std::uint64_t stop_steps = 0, stop_samples = 0;
  nanoseconds stop_ns = 0;
  double target_accuracy = 0;
};

/// Owns membership and the course of the job. The first plan goes out when `workers` have joined; each later join or
/// death makes the next one. A job without workers left stops, failed, with the reason. Evaluation points are exact: the
/// lead is told beforehand at how many samples or steps to hold, so the same job stops at the same version wherever it runs.
class coordinator {
public:
  explicit coordinator(const coordinator_options& options);

  coordinator_effects on(const joined& msg);
  coordinator_effects on(const down& msg);
  coordinator_effects on(const held& msg);
  coordinator_effects on(const evaluated& msg);
  coordinator_effects on(const expired& msg);

  const plan& current() const;
  bool started() const;
  bool stopped() const;
  bool target_reached() const;
};

} // namespace troupe::protocols
