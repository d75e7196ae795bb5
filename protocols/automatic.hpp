// SPDX-License-Identifier: BSD-3-Clause
// auto: measures the workers' step times and switches between protocols at a round's boundary. No paper's: ours.
#pragma once

#include <deque>
#include <map>
#include <vector>

#include "protocols/controller.hpp"
#include "protocols/gradient_code.hpp"

namespace troupe::protocols {

/// Keeps the last computing and travelling times of each worker and replays them under every candidate: how long would a round
/// have taken, and how many of its samples would it have used? Goes over to the one that spends the least time on a sample where
/// it is a fifth better than what runs now.
///
///   sync    the slowest worker's time, all samples
///   backup  the k-th fastest worker's time, k/n of the samples
///   coded   the first time at which what has come can be decoded; computing takes as much longer as the code says
///   local   H steps for one journey, the slowest worker's; considered only where the journey takes longer than the step
///
/// Replaying whole rounds instead of means keeps what matters: under a persistent straggler backup wins by its factor, under
/// random ones by the chance that one of n is slow.
class automatic final : public controller {
public:
  explicit automatic(std::vector<protocol_spec> candidates);

  void on(const plan& msg) override { plan_ = msg; }
  std::optional<decision> on(const report& closed, double learning_rate) override;

  /// Nanoseconds that a round under this candidate takes for each 1/n of its samples, by what was measured.
  double predicted(const protocol_spec& candidate) const;

private:
  struct sample {
    double compute = 0, travel = 0; ///< nanoseconds, for one batch
  };
  std::vector<sample> replay(std::size_t round) const;
  double cost(const protocol_spec& candidate, const gradient_code* code, const std::vector<sample>& times) const;

  std::vector<protocol_spec> candidates_;
  plan plan_;
  std::map<worker_id, std::deque<sample>> past_;
  std::uint32_t rounds_ = 0; ///< since the last decision
};

} // namespace troupe::protocols
