// SPDX-License-Identifier: BSD-3-Clause
// A host's link to the network, in one direction, as `[inject.link]` describes it.
#pragma once

#include <algorithm>
#include <deque>
#include <functional>
#include <map>
#include <utility>

#include "actors/roles/training_clock.hpp"
#include "protocols/duration.hpp"
#include "protocols/emulate/shared_link.hpp"

namespace troupe::actors {

/// Delays deliveries as a link would, in training time: messages under way share the bandwidth, then comes the latency. Emulates
/// the link of a holder's host, which its senders share: pushes and partial sums come in, parameters go out. The senders' own
/// links carry one flow each and are not the bottleneck. In a decentralized job, emulates each worker's outgoing link. A message
/// without a tensor (a trailer, an arrival, an order) takes only the latency.
class emulated_link {
public:
  /// The owner fires `timers`, which outlive this object.
  emulated_link(const protocols::link_spec& spec, training_clock& clock, training_timers& timers)
      : spec_(spec), link_(spec), clock_(clock), timer_(timers, [this] { expired(); }) {}
  emulated_link(const emulated_link&) = delete;
  emulated_link& operator=(const emulated_link&) = delete;

  /// Whether it delays anything at all.
  bool delays() const { return spec_.delays(); }
  /// Whether it still transmits.
  bool busy() const { return !under_way_.empty(); }
  /// Whether anything is still to be delivered.
  bool carries() const { return busy() || !transmitted_.empty(); }

  /// `head_start`: for how long it has been under way already; it never overtakes earlier messages.
  void send(std::uint64_t bytes, std::function<void()> deliver, protocols::nanoseconds head_start = 0) {
    move_on();
    link_.start(clock_.now(), ++last_, bytes);
    under_way_.emplace(last_, delivery{latency() - head_start, std::move(deliver)});
    await();
  }

  /// Delivers everything under way at once, in order: used when it is needed while the clock is paused.
  void deliver_all() {
    auto first = std::exchange(transmitted_, {});
    auto then = std::exchange(under_way_, {});
    link_ = protocols::shared_link{spec_};
    for (auto& each : first)
      each.deliver();
    for (auto& [id, each] : then)
      each.deliver();
  }

private:
  struct delivery {
    protocols::nanoseconds due; ///< during transmission: the delay after it
    std::function<void()> deliver;
  };

  protocols::nanoseconds latency() const { return protocols::duration_of_ms(spec_.latency_ms); }

  /// Messages that are through the link begin their latency.
  void move_on() {
    auto now = clock_.now();
    for (auto id : link_.through(now)) {
      auto through = std::move(under_way_.extract(id).mapped());
      transmitted_.push_back({now + through.due, std::move(through.deliver)});
    }
  }

  void expired() {
    move_on();
    while (!transmitted_.empty() && transmitted_.front().due <= clock_.now()) {
      auto deliver = std::move(transmitted_.front().deliver);
      transmitted_.pop_front();
      deliver();
    }
    await();
  }

  void await() {
    auto due = link_.next();
    if (!transmitted_.empty())
      due = std::min(due.value_or(transmitted_.front().due), transmitted_.front().due);
    if (due)
      timer_.arm(*due - clock_.now());
  }

  protocols::link_spec spec_;
  protocols::shared_link link_;
  training_clock& clock_;
  own_timer timer_;
  std::uint64_t last_ = 0;
  std::map<std::uint64_t, delivery> under_way_;
  std::deque<delivery> transmitted_;
};

} // namespace troupe::actors
