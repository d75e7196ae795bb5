// SPDX-License-Identifier: BSD-3-Clause
// The worked example of protocols/README.md: a protocol whose rounds close once more than half of the workers have pushed.
#pragma once

#include "protocols/protocol.hpp"

namespace troupe::protocols {

/// One step on the mean gradient over the samples of the majority that came first.
class majority final : public round_policy {
public:
  std::optional<closing> close(const open_round& round) override {
    const bool enough = 2 * round.gradients() > round.live.size() || round.settled();
    return enough ? std::optional{by_samples(round)} : std::nullopt;
  }
};

inline protocol majority_protocol() {
  return round_protocol({.name = "majority",
                         .summary = "one step on the gradients of whichever majority comes first",
                         .round_is_full = "more than half have pushed; weighted by samples, late ones discarded",
                         .recipients = "those that wait; a late one at its late push",
                         .takes_fan_in = true,
                         .policy = [](const protocol_spec&, std::uint64_t) { return std::make_unique<majority>(); }});
}

} // namespace troupe::protocols
