// SPDX-License-Identifier: BSD-3-Clause
// Stale synchronous parallel (Ho et al. 2013): asynchronous SGD whose fastest worker is at most s clocks ahead of its slowest.
#pragma once

#include "protocols/async_sgd.hpp"

namespace troupe::protocols {

/// A worker that has pushed c times may go on iff c - min over workers <= s; until then it waits. What it then gets holds
/// every push of every worker up to clock c - s. s = 0: in lockstep; without a bound: asynchronous.
class ssp final : public async_sgd {
public:
  explicit ssp(std::uint64_t bound) : bound_(bound) {}

private:
  bool may_go(member who) const override { return of(who).clock - slowest() <= bound_; }

  std::uint64_t bound_;
};

} // namespace troupe::protocols
