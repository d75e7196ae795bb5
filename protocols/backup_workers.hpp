// SPDX-License-Identifier: BSD-3-Clause
// Backup workers: a round closes with its first k gradients (Chen et al. 2016, section 3, "Revisiting Distributed Synchronous
// SGD").
#pragma once

#include <algorithm>

#include "protocols/round_policy.hpp"

namespace troupe::protocols {

/// How many gradients close a round of so many live workers: k, at most all of them; k = 0: all but one.
inline std::size_t quorum_of(std::size_t k, std::size_t live) {
  return k == 0 ? std::max<std::size_t>(live - 1, 1) : std::min(k, live);
}

/// One step on the mean gradient over the samples of the k that came first; the others' pushes are late, discarded and counted.
/// A push that is not finite, or has no samples, is no gradient. A round closes with fewer than k where no more are left to come.
/// Ours: k need not be given; the paper finds it by trials.
class backup_workers final : public round_policy {
public:
  explicit backup_workers(std::size_t k) : k_(k) {}

  std::optional<closing> close(const open_round& round) override {
    const std::size_t quorum = quorum_of(k_, round.live.size());
    const bool enough = round.pushed.size() >= quorum && round.gradients() >= quorum;
    return enough || round.settled() ? std::optional{by_samples(round)} : std::nullopt;
  }

private:
  std::size_t k_;
};

} // namespace troupe::protocols
