// SPDX-License-Identifier: BSD-3-Clause
// What is to happen, by time and then by the order in which it was planned.
#pragma once

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

#include "kernels/assert.hpp"
#include "protocols/ids.hpp"

namespace troupe::protocols::sim {

/// A binary heap of small keys; the events stay where they were put.
template <class Event>
class event_queue {
public:
  bool empty() const { return heap_.empty(); }
  /// When the next one happens; there must be one.
  nanoseconds next_time() const {
    TROUPE_ASSERT(!heap_.empty());
    return heap_.front().at;
  }

  void push(nanoseconds at, Event event) {
    std::uint32_t slot = 0;
    if (free_.empty()) {
      slot = static_cast<std::uint32_t>(events_.size());
      events_.push_back(std::move(event));
    } else {
      slot = free_.back();
      free_.pop_back();
      events_[slot] = std::move(event);
    }
    heap_.push_back({at, ++planned_, slot});
    std::ranges::push_heap(heap_, later);
  }

  /// The earliest; of several the first planned.
  std::pair<nanoseconds, Event> pop() {
    TROUPE_ASSERT(!heap_.empty());
    std::ranges::pop_heap(heap_, later);
    const key next = heap_.back();
    heap_.pop_back();
    free_.push_back(next.slot);
    return {next.at, std::move(events_[next.slot])};
  }

  /// Everything that is to happen, in its order; they may be changed.
  std::vector<Event*> pending() {
    std::vector<key> keys = heap_;
    std::ranges::sort(keys, [](const key& a, const key& b) { return later(b, a); });
    std::vector<Event*> out;
    for (const key& each : keys)
      out.push_back(&events_[each.slot]);
    return out;
  }

private:
  struct key {
    nanoseconds at = 0;
    std::uint64_t order = 0;
    std::uint32_t slot = 0;
  };
  static bool later(const key& a, const key& b) { return std::pair{a.at, a.order} > std::pair{b.at, b.order}; }

  std::vector<key> heap_;
  std::vector<Event> events_;
  std::vector<std::uint32_t> free_;
  std::uint64_t planned_ = 0;
};

} // namespace troupe::protocols::sim
