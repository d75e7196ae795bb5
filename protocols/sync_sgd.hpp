// SPDX-License-Identifier: BSD-3-Clause
// Synchronous SGD: a round closes when every live worker has pushed (Chen et al. 2016, section 2).
#pragma once

#include "protocols/protocol.hpp"

namespace troupe::protocols {

/// A version is one optimizer step on the mean gradient over the round's samples.
class sync_sgd final : public round_policy {
public:
  std::optional<closing> close(const open_round& round) override {
    return round.full() ? std::optional{by_samples(round)} : std::nullopt;
  }
};

inline protocol sync_protocol() {
  return round_protocol(
      {.name = "sync",
       .summary = "synchronous SGD: one step on the mean gradient of all workers",
       .round_is_full = "all live workers have pushed; weighted by samples",
       .recipients = "everyone, at each new version",
       .pays_when = "all are equally fast",
       .takes_fan_in = true,
       .resumable = true,
       .cost = [](const protocol_spec&, const plan&, round_times times) { return cost_of_first(times, times.size()); },
       .policy = [](const protocol_spec&, std::uint64_t) { return std::make_unique<sync_sgd>(); }});
}

} // namespace troupe::protocols
