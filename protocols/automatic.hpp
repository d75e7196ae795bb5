// SPDX-License-Identifier: BSD-3-Clause
// auto: measures the workers' step times and switches between protocols at a round's boundary. No paper's: ours.
#pragma once

#include <deque>
#include <map>
#include <vector>

#include "protocols/protocol.hpp"

namespace troupe::protocols {

/// Keeps the last computing and travelling times of each worker and replays them under every candidate: how long would a round
/// have taken, and how many of its samples would it have used? Goes over to the one that spends the least time on a sample where
/// it is a fifth better than what runs now.
///
/// What a round costs under given times each protocol says itself (`protocol::cost`): sync the slowest worker's time, backup the
/// k-th fastest one's for k/n of the samples.
///
/// Replaying whole rounds instead of means keeps what matters: under a persistent straggler backup wins by its factor, under
/// random ones by the chance that one of n is slow.
class automatic final : public controller {
public:
  /// `known` has the protocol of every candidate, with its cost.
  automatic(std::vector<protocol_spec> candidates, std::vector<protocol> known);

  void on(const plan& msg) override { plan_ = msg; }
  std::optional<decision> on(const report& closed, double learning_rate) override;

  /// Nanoseconds that a round under this candidate takes for each 1/n of its samples, by what was measured.
  double predicted(const protocol_spec& candidate) const;

private:
  const protocol& protocol_of(const protocol_spec& candidate) const;
  std::vector<step_time> replay(std::size_t round) const;

  std::vector<protocol_spec> candidates_;
  std::vector<protocol> known_;
  plan plan_;
  std::map<worker_id, std::deque<step_time>> past_;
  std::uint32_t rounds_ = 0; ///< since the last decision
};

/// auto among `others`: those of rounds that say what a round costs.
protocol auto_protocol(const std::vector<protocol>& others);

} // namespace troupe::protocols
