// SPDX-License-Identifier: BSD-3-Clause
// `[inject]` of a job: emulated compute times, stragglers, slow links and faults, for real runs and for virtual time alike.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "protocols/ids.hpp"

namespace troupe::protocols {

/// Makes steps slower: each step of a worker it applies to gets a random factor. The factors of several stragglers multiply.
struct straggler_spec {
  enum class law : std::uint8_t {
    constant,    ///< `factor`, with probability `prob`, else 1
    jitter,      ///< uniform in [1 - spread, 1 + spread]
    exponential, ///< shifted: 1 + Exp(mean = spread)
    pareto,      ///< Pareto with minimum 1 and shape `alpha`
    trace,       ///< `factors`, one per step, cyclic; worker w begins at entry w
  };
  law distribution = law::constant;
  std::optional<worker_id> worker{}; ///< absent: every worker, independently
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
  bool delays() const { return mbit > 0 || latency_ms > 0; } ///< whether there is one
  friend bool operator==(const link_spec&, const link_spec&) = default;
};

/// What goes wrong, and when (training time, or virtual).
struct fault_spec {
  enum class kind : std::uint8_t {
    crash,     ///< the worker is gone; with `back_after_s` it comes back as a new incarnation
    pause,     ///< it stops for `for_s` and then continues
    partition, ///< no message passes between it and the others for `for_s`; they arrive afterwards
    reorder,   ///< simulator only, like the next two: with probability `prob` a message is late; a link's order is kept
    repeat,    ///< with probability `prob` a lane's message comes twice, the second time at once or later
    loss,      ///< with probability `prob` an exchange between workers is lost; other messages never are
  };
  kind type = kind::crash;
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

/// The factor by which this worker's `step`-th step is slower. A pure function: equal arguments give equal results in every
/// process. Steps count from 1.
double step_factor(const inject_spec& spec, std::uint64_t seed, worker_id worker, std::uint64_t step);

/// `step_ms` times `share` of a batch times that factor, in nanoseconds; 0 if nothing is emulated.
nanoseconds emulated_step(const inject_spec& spec, std::uint64_t seed, worker_id worker, std::uint64_t step, double share);

/// How long `bytes` occupy a link; 0 if it is unlimited.
nanoseconds transmission(const link_spec& link, std::uint64_t bytes);

} // namespace troupe::protocols
