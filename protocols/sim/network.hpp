// SPDX-License-Identifier: BSD-3-Clause
// Hosts and their links: latency, and a bandwidth that everything shares which a host sends, and everything that it receives.
#pragma once

#include <map>
#include <optional>
#include <utility>
#include <variant>
#include <vector>

#include "kernels/assert.hpp"
#include "protocols/duration.hpp"
#include "protocols/emulate/shared_link.hpp"
#include "protocols/sim/message.hpp"

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

  /// A message begins, and gets a number; of two, the one with the lower `order` is more urgent.
  std::uint64_t start(host_id from, host_id to, std::uint64_t bytes, nanoseconds now, std::uint32_t order) {
    const std::uint64_t id = next();
    for (const host_link each : {host_link{from, true}, host_link{to, false}})
      at(each).link.start(now, id, bytes, order);
    links_left_[id] = 2;
    return id;
  }

  /// For a message that comes to its sender bit by bit.
  std::uint64_t next() { return ++last_; }
  /// More of it; what was there before may be through.
  void extend(std::uint64_t id, host_id from, host_id to, std::uint64_t bytes, nanoseconds now) {
    for (const host_link each : {host_link{from, true}, host_link{to, false}})
      if (shared_link& link = at(each).link; !link.extend(now, id, bytes)) {
        link.start(now, id, bytes);
        ++links_left_[id];
      }
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
  std::uint64_t last_ = 0;
};

/// What of pushes is on its way before all of it is there: of each sender and receiver the newest push. What no push follows has
/// taken its time on the links all the same.
class begun_pushes {
public:
  struct part {
    push_id of{};
    std::uint64_t transmission = 0, bytes = 0;
  };

  /// More of a push leaves; gives the number of its transmission.
  std::uint64_t add(endpoint from, endpoint to, const push_id& of, std::uint64_t bytes, network& on) {
    part& begun = newest_[{from, to}];
    if (begun.of != of || begun.transmission == 0)
      begun = {.of = of, .transmission = on.next()};
    begun.bytes += bytes;
    return begun.transmission;
  }

  /// What has left of this message, if it is such a push.
  std::optional<part> take(endpoint from, endpoint to, const message& msg) {
    const auto* push = std::get_if<push_envelope>(&msg);
    const auto found = newest_.find({from, to});
    if (push == nullptr || found == newest_.end() || found->second.of != push->head.id)
      return std::nullopt;
    return newest_.extract(found).mapped();
  }

private:
  std::map<std::pair<endpoint, endpoint>, part> newest_;
};

} // namespace troupe::protocols::sim
