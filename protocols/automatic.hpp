// SPDX-License-Identifier: BSD-3-Clause
// auto: measures the workers' step times and switches between protocols at a round's boundary. Our own, not from a paper.
#pragma once

#include <deque>
#include <map>
#include <vector>

#include "protocols/protocol.hpp"

namespace troupe::protocols {

/// Keeps each worker's last compute and travel times and replays them under every candidate: how long would a round have taken,
/// and how many of its samples would it have used? Switches to the candidate with the least time per sample if it is at least a
/// fifth better than the current protocol.
///
/// Each protocol states the cost of a round under given times itself (`protocol::cost`): for sync the slowest worker's time, for
/// backup the k-th fastest worker's, for k/n of the samples.
///
/// Replaying whole rounds, not means, keeps the difference between one persistent straggler and random ones: backup gains the
/// straggler's factor, or the chance that one of n workers is slow.
class automatic final : public controller {
public:
  /// `known` has the protocol of every candidate, with its cost.
  automatic(std::vector<protocol_spec> candidates, std::vector<protocol> known);

  void on(const plan& msg) override { plan_ = msg; }
  std::optional<decision> on(const report& closed, double learning_rate) override;

  /// Nanoseconds that a round under this candidate takes for each 1/n of its samples, by what was measured.
  double predicted(const protocol_spec& candidate) const;

  std::vector<double> memory() const override;
  void remember(std::span<const double> memory) override;
  void check() const override;

private:
  const protocol& protocol_of(const protocol_spec& candidate) const;
  std::vector<step_time> replay(std::size_t round) const;

  std::vector<protocol_spec> candidates_;
  std::vector<protocol> known_;
  plan plan_;
  std::map<worker_id, std::deque<step_time>> past_;
  std::uint32_t rounds_ = 0; ///< since the last decision
};

/// auto over those of `others` that have rounds and state their cost.
protocol auto_protocol(const std::vector<protocol>& others);

} // namespace troupe::protocols
