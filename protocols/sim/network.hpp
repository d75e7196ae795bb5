// SPDX-License-Identifier: BSD-3-Clause
// Hosts and their links: latency, and a bandwidth that everything shares which a host sends, and everything that it receives.
#pragma once

#include <map>
#include <optional>
#include <vector>

#include "kernels/assert.hpp"
#include "protocols/duration.hpp"
#include "protocols/emulate/shared_link.hpp"

namespace troupe::protocols::sim {

/// Where a role runs.
using host_id = strong_id<struct host_tag, std::uint32_t>;

/// One direction of a host's link.
struct host_link {
  host_id host{};
  bool sends = false; ///< else it receives
  friend auto operator<=>(const host_link&, const host_link&) = default;
};

/// A message is on its sender's link and on its receiver's at once, and shares each with what else is there; it is through when
/// both have let it through. Between idle hosts it takes its transmission once. The latency comes afterwards.
class network {
public:
  explicit network(const link_spec& link) : link_(link), latency_(duration_of_ms(link.latency_ms)) {}

  nanoseconds latency() const { return latency_; }
  bool limited() const { return link_.mbit > 0; }

  void start(std::uint64_t id, host_id from, host_id to, std::uint64_t bytes, nanoseconds now) {
    for (const host_link each : {host_link{from, true}, host_link{to, false}})
      at(each).link.start(now, id, bytes);
    links_left_[id] = 2;
  }

  /// Which messages have got through both their links, now that this one is looked at.
  std::vector<std::uint64_t> through(host_link which, nanoseconds now) {
    state& one = at(which);
    if (one.awaited && *one.awaited <= now)
      one.awaited.reset();
    std::vector<std::uint64_t> out;
    for (const std::uint64_t id : one.link.through(now)) {
      const auto left = links_left_.find(id);
      TROUPE_ASSERT(left != links_left_.end());
      if (--left->second == 0) {
        links_left_.erase(left);
        out.push_back(id);
      }
    }
    return out;
  }

  bool busy(host_link which) { return at(which).link.next().has_value(); }

  /// When to look at a link next, where that is not planned already.
  std::optional<nanoseconds> next_look(host_link which) {
    state& one = at(which);
    const auto next = one.link.next();
    if (!next || (one.awaited && *one.awaited <= *next))
      return std::nullopt;
    return one.awaited = next;
  }

private:
  struct state {
    shared_link link;
    std::optional<nanoseconds> awaited{}; ///< the earliest look that is planned
  };
  state& at(host_link which) { return links_.try_emplace(which, state{shared_link{link_}}).first->second; }

  link_spec link_;
  nanoseconds latency_;
  std::map<host_link, state> links_;
  std::map<std::uint64_t, int> links_left_; ///< of messages that are under way
};

} // namespace troupe::protocols::sim
