// SPDX-License-Identifier: BSD-3-Clause
// What a run reports to its submitter: progress, evaluations, events, the result.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "actors/messages/fields.hpp"
#include "actors/monitoring/trace.hpp"
#include "kernels/buffer.hpp"
#include "protocols/effect.hpp"
#include "protocols/ids.hpp"
#include "tensor/data/data_set.hpp"

namespace troupe::actors {

/// A version that was made, and who took part in its round.
struct made_round {
  protocols::round_record made;
  std::vector<protocols::member> members; ///< of the round's plan
};

struct progress {
  std::uint64_t step = 0, samples = 0;
  double epoch = 0;
  double train_loss = 0;                       ///< of the last round
  double seconds = 0;                          ///< training time
  std::optional<std::uint32_t> slowest_worker; ///< of the last round
  double slowest_ms = 0;                       ///< its compute time
  std::vector<made_round> rounds{};            ///< since the last progress, where they are recorded
};

struct evaluation_point {
  std::uint64_t step = 0, samples = 0;
  double seconds = 0; ///< training time
  double train_loss = 0, test_loss = 0, test_accuracy = 0;
  std::optional<double> validation_loss{}; ///< of what is held out, if anything is
};

/// How a run ended. `parameters` are the final ones, flat, on the host: the newest if the run was interrupted, those of its last
/// evaluation if it failed. Empty if there are none.
struct job_result {
  bool failed = false, interrupted = false;
  bool lost_before_start = false; ///< a node or role was lost before training began: the job may start again on others
  std::string reason;
  std::uint64_t steps = 0, gradients = 0, samples = 0, discarded = 0;
  double epochs = 0;
  double seconds = 0;
  std::optional<evaluation_point> last;
  bool target_reached = false;
  std::optional<double> time_to_target_s;
  /// By staleness (versions between a push's base and its use): how many pushes were applied.
  std::map<std::uint64_t, std::uint64_t> staleness;
  double residual_max = 0;                       ///< coded: of any round's decoding
  std::int64_t computed_ns = 0, emulated_ns = 0; ///< see node_totals
  std::uint64_t bytes_sent = 0, bytes_received = 0;
  std::uint64_t bytes_push = 0, bytes_params = 0, bytes_peers = 0; ///< see node_totals
  std::optional<double> overlap;                                   ///< of communication with computing; see worker_meter
  std::uint64_t resident_bytes = 0;                                ///< the largest of the nodes, at the end
  std::uint64_t resident_bytes_first = 0;                          ///< the same at the first evaluation
  std::uint32_t restarts = 0;                                      ///< workers that were restarted
  std::uint32_t period = 1;
  std::uint32_t partition_kib = 0;           ///< of the last plan; 0: the job's
  data_scaling scaling;                      ///< of the training data
  std::optional<std::uint64_t> weights_step; ///< the version of `parameters`, if any
  std::optional<std::uint64_t> best_step;    ///< with `stop.patience`: the version evaluated with the lowest loss
  stays_here<kernels::buffer> parameters;    ///< this and the trace follow in pieces to another process
  stays_here<std::vector<node_trace>> trace; ///< if traced: by node; the first has the coordinator's events too

  std::uint64_t staleness_max() const { return staleness.empty() ? 0 : staleness.rbegin()->first; }
  double staleness_mean() const {
    double pushes = 0, sum = 0;
    for (auto [versions, count] : staleness) {
      pushes += static_cast<double>(count);
      sum += static_cast<double>(versions) * static_cast<double>(count);
    }
    return pushes > 0 ? sum / pushes : 0;
  }
};

/// Called on the coordinator's thread: must not block.
class run_observer {
public:
  virtual ~run_observer() = default;
  virtual void on_started(std::int64_t data_size) = 0; ///< training samples
  virtual void on_progress(const progress& p) = 0;
  virtual void on_evaluation(const evaluation_point& e) = 0;
  virtual void on_event(const std::string& text) = 0;
  virtual void on_finished(job_result result) = 0;
};

} // namespace troupe::actors
