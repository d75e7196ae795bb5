// SPDX-License-Identifier: BSD-3-Clause
// Stale synchronous parallel (Ho et al. 2013): asynchronous SGD whose fastest worker is at most s clocks ahead of its slowest.
#pragma once

#include "protocols/async_sgd.hpp"

namespace troupe::protocols {

/// A worker that has pushed c times may go on iff c - min over workers <= s; until then it waits. The parameters that it then
/// gets include every worker's pushes up to clock c - s. With s = 0 workers run in lockstep.
class ssp final : public async_sgd {
public:
  explicit ssp(std::uint64_t bound) : bound_(bound) {}

private:
  bool may_go(member who) const override { return progress_of(who).clock - slowest() <= bound_; }

  std::uint64_t bound_;
};

inline protocol ssp_protocol() {
  const auto bound = integer_parameter("bound", 4, 0, "s: clocks that the fastest worker may be ahead of the slowest");
  return {.name = "ssp",
          .summary = "stale synchronous parallel: asynchronous SGD whose fastest worker is at most s clocks ahead",
          .round_is_full = "each push alone; learning rate times samples / (n B)",
          .recipients = "the pusher, once it is within s clocks of the slowest",
          .pays_when = "speeds differ, and gradients must not be staler than a bound",
          .per_push = true,
          .resumable = true,
          .parameters = {bound},
          .clock_bound = [bound](const protocol_spec& spec) { return static_cast<std::uint64_t>(bound.of(spec)); },
          .make_rule = [bound](const protocol_spec& spec,
                               std::uint64_t) { return std::make_unique<ssp>(static_cast<std::uint64_t>(bound.of(spec))); },
          .make_worker = own_slice_worker_maker()};
}

} // namespace troupe::protocols
