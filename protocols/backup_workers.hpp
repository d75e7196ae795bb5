// SPDX-License-Identifier: BSD-3-Clause
// Backup workers: a round closes with its first k pushes (Chen et al. 2016, section 3, "Revisiting Distributed Synchronous SGD").
#pragma once

#include <algorithm>

#include "protocols/round_policy.hpp"

namespace troupe::protocols {

/// One step on the mean gradient over the samples of the k that came first; the others' pushes are late, discarded and counted.
/// k is capped at the number of live workers.
class backup_workers final : public round_policy {
public:
  /// `quorum` 0: all live workers but one.
  explicit backup_workers(std::size_t quorum) : quorum_(quorum) {}

  std::optional<closing> close(const open_round& round) override {
    const std::size_t live = round.live.size();
    const std::size_t wanted = quorum_ == 0 ? std::max<std::size_t>(live - 1, 1) : std::min(quorum_, live);
    return round.pushed.size() >= wanted ? std::optional{by_samples(round)} : std::nullopt;
  }

private:
  std::size_t quorum_;
};

} // namespace troupe::protocols
