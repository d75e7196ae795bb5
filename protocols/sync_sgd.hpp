// SPDX-License-Identifier: BSD-3-Clause
// Synchronous SGD: a round closes when every live worker has pushed (Chen et al. 2016, section 2).
#pragma once

#include "protocols/round_policy.hpp"

namespace troupe::protocols {

/// A version is one optimizer step on the mean gradient over the round's samples.
class sync_sgd final : public round_policy {
public:
  std::optional<closing> close(const open_round& round) override {
    return round.full() ? std::optional{by_samples(round)} : std::nullopt;
  }
};

} // namespace troupe::protocols
