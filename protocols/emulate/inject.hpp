// SPDX-License-Identifier: BSD-3-Clause
// `[inject]` of a job: emulated compute times, stragglers, slow links and faults, for real runs and for virtual time alike.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "protocols/ids.hpp"

namespace troupe::protocols {

/// Makes steps slower. A step of a worker that it concerns is drawn a factor; the factors of several stragglers multiply.
struct straggler_spec {
  enum class law : std::uint8_t {
    constant,    ///< `factor`, with probability `prob`, else 1
    jitter,      ///< uniform in [1 - spread, 1 + spread]
    exponential, ///< shifted: 1 + Exp(mean = spread)
    pareto,      ///< Pareto with minimum 1 and shape `alpha`
    trace,       ///< `factors`, one a step, over and over; worker w begins at entry w
  };
  law distribution = law::constant;
  std::optional<worker_id> worker{}; ///< absent: every worker, each on its own
  double factor = 1;                 ///< >= 1
  double prob = 1;                   ///< in (0, 1]
  double alpha = 1.5;                ///< > 0
  double spread = 0.1;               ///< > 0; of jitter < 1
  std::vector<double> factors{};     ///< each > 0
  friend bool operator==(const straggler_spec&, const straggler_spec&) = default;
};

/// Every host's link to the network. 0: takes no time.
struct link_spec {
  double latency_ms = 0; ///< one way
  double mbit =
      0; ///< megabits per second in each direction, shared by everything that the host sends, and receives; 0: unlimited
  friend bool operator==(const link_spec&, const link_spec&) = default;
};

/// What goes wrong, and when (training time, or virtual).
struct fault_spec {
  enum class kind : std::uint8_t {
    crash,     ///< the worker is gone; with `back_after_s` it comes back as a new life
    pause,     ///< it stops for `for_s` and goes on where it was
    partition, ///< nothing passes between it and the others for `for_s`; what was sent arrives afterwards
    reorder,   ///< simulator only, as the next two: with probability `prob` a message is late; those of one link stay in order
    repeat,    ///< with probability `prob` what goes over a lane comes twice, the second time at once or later
    loss,      ///< with probability `prob` an exchange between workers is lost; nothing else may be
  };
  kind what = kind::crash;
  worker_id worker{}; ///< crash, pause, partition
  double at_s = 0;
  std::optional<double> back_after_s{};
  double for_s = 0;
  double prob = 0;
  friend bool operator==(const fault_spec&, const fault_spec&) = default;
};

struct inject_spec {
  double step_ms = 0; ///< emulated time of one worker's whole batch; 0: real time
  std::vector<straggler_spec> stragglers{};
  link_spec link{};
  std::vector<fault_spec> faults{};
  friend bool operator==(const inject_spec&, const inject_spec&) = default;
};

/// How many times longer than usual this worker's `step`-th step takes. A pure function: the same for the same arguments
/// in every process. Steps count from 1.
double step_factor(const inject_spec& spec, std::uint64_t seed, worker_id worker, std::uint64_t step);

/// `step_ms` for `share` of a batch at that factor, in nanoseconds; 0 where nothing is emulated.
nanoseconds emulated_step(const inject_spec& spec, std::uint64_t seed, worker_id worker, std::uint64_t step, double share);

/// How long `bytes` occupy a link; 0 where it is unlimited.
nanoseconds transmission(const link_spec& link, std::uint64_t bytes);

} // namespace troupe::protocols
