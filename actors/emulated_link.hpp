// SPDX-License-Identifier: BSD-3-Clause
// A host's link to the network, in one direction, as `[inject.link]` describes it.
#pragma once

#include <algorithm>
#include <deque>
#include <functional>

#include "actors/training_clock.hpp"
#include "protocols/inject.hpp"

namespace troupe::actors {

/// Delays deliveries as a link would: one message after the other, each for as long as its bytes take, then the latency. In
/// training time. Stands for the link of a shard's own host, which all its workers share; their own links, which carry one
/// flow each, are not the bottleneck and add nothing.
class emulated_link {
public:
  /// `timer`: the one of `timers` that is this link's; its owner calls `expired` when it has fired.
  emulated_link(const protocols::link_spec& spec, training_clock& clock, training_timers& timers, protocols::timer_id timer)
      : spec_(spec), clock_(clock), timers_(timers), timer_(timer) {}

  /// Whether it delays anything at all.
  bool delays() const { return spec_.mbit > 0 || spec_.latency_ms > 0; }

  void send(std::uint64_t bytes, std::function<void()> deliver) {
    free_ = std::max(free_, clock_.now()) + protocols::transmission(spec_, bytes);
    waiting_.push_back({free_ + static_cast<protocols::nanoseconds>(spec_.latency_ms * 1e6), std::move(deliver)});
    if (waiting_.size() == 1)
      await();
  }

  void expired() {
    while (!waiting_.empty() && waiting_.front().due <= clock_.now()) {
      auto deliver = std::move(waiting_.front().deliver);
      waiting_.pop_front();
      deliver();
    }
    await();
  }

private:
  struct delivery {
    protocols::nanoseconds due;
    std::function<void()> deliver;
  };

  void await() {
    if (!waiting_.empty())
      timers_.arm({timer_, std::max<protocols::nanoseconds>(0, waiting_.front().due - clock_.now())});
  }

  protocols::link_spec spec_;
  training_clock& clock_;
  training_timers& timers_;
  protocols::timer_id timer_;
  protocols::nanoseconds free_ = 0; ///< when it has transmitted everything
  std::deque<delivery> waiting_;
};

} // namespace troupe::actors
