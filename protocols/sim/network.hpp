// SPDX-License-Identifier: BSD-3-Clause
// Hosts and their links: latency, and a bandwidth that everything shares which a host sends, and everything that it receives.
#pragma once

#include <algorithm>
#include <cstddef>
#include <vector>

#include "protocols/inject.hpp"

namespace troupe::protocols::sim {

/// Where a role runs.
using host_id = strong_id<struct host_tag, std::uint32_t>;

/// A message occupies its sender's link, then its receiver's, each for as long as its bytes take; it is handed on as it comes
/// (cut-through), so between idle hosts it takes the latency and the transmission once. Who comes first is served first.
class network {
public:
  explicit network(const link_spec& link) : link_(link), latency_(static_cast<nanoseconds>(link.latency_ms * 1e6 + 0.5)) {}

  nanoseconds latency() const { return latency_; }
  bool limited() const { return link_.mbit > 0; }

  /// When the first byte of a message that is ready at `at` reaches its receiver.
  nanoseconds depart(host_id from, std::uint64_t bytes, nanoseconds at) {
    nanoseconds& free = place(out_, from);
    const nanoseconds begin = std::max(at, free);
    free = begin + transmission(link_, bytes);
    return begin + latency_;
  }
  /// When the last byte of a message is in whose first one comes at `at`. Call in the order of these times.
  nanoseconds land(host_id to, std::uint64_t bytes, nanoseconds at) {
    nanoseconds& free = place(in_, to);
    return free = std::max(at, free) + transmission(link_, bytes);
  }

private:
  static nanoseconds& place(std::vector<nanoseconds>& of, host_id host) {
    if (of.size() <= host.value)
      of.resize(host.value + std::size_t{1});
    return of[host.value];
  }

  link_spec link_;
  nanoseconds latency_;
  std::vector<nanoseconds> out_, in_; ///< when each host's link is free
};

} // namespace troupe::protocols::sim
