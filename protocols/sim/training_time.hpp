// SPDX-License-Identifier: BSD-3-Clause
// Training time in a simulated cluster, and the timers that count it: both stand still while the job is held.
#pragma once

#include <functional>
#include <map>
#include <utility>

#include "kernels/assert.hpp"
#include "protocols/sim/message.hpp"

namespace troupe::protocols::sim {

/// Starts running, at 0. `now` arguments are virtual time and never go back.
class training_time {
public:
  nanoseconds at(nanoseconds now) const { return passed_ + (running_ ? now - since_ : 0); }
  bool running() const { return running_; }
  void pause(nanoseconds now) {
    TROUPE_ASSERT(!running_ || now >= since_);
    passed_ = at(now);
    running_ = false;
  }
  void go_on(nanoseconds now) {
    TROUPE_ASSERT(!running_); // what has passed would be lost
    since_ = now;
    running_ = true;
  }

private:
  bool running_ = true;
  nanoseconds passed_ = 0, since_ = 0;
};

/// Of all machines. `plan` makes `fire` be called after a delay of virtual time, with the same arguments.
class training_timers {
public:
  using plan_fn = std::function<void(nanoseconds delay, endpoint of, timer_id timer, std::uint64_t generation)>;

  training_timers(const training_time& clock, plan_fn plan) : clock_(clock), plan_(std::move(plan)) {}

  void arm(endpoint of, const arm_timer& what, nanoseconds now) {
    timer& own = timers_[{of, what.timer}];
    ++own.generation;
    own.armed = what.delay >= 0;
    own.deadline = clock_.at(now) + what.delay;
    if (own.armed && clock_.running())
      plan_(what.delay, of, what.timer, own.generation);
  }
  /// Call when the clock goes on.
  void resume(nanoseconds now) {
    for (auto& [name, own] : timers_)
      if (own.armed) {
        TROUPE_ASSERT(own.deadline >= clock_.at(now));
        plan_(own.deadline - clock_.at(now), name.first, name.second, ++own.generation);
      }
  }
  /// Whether it has run out; it is disarmed then.
  bool fire(endpoint of, timer_id name, std::uint64_t generation) {
    timer& own = timers_[{of, name}];
    if (!own.armed || own.generation != generation || !clock_.running())
      return false;
    own.armed = false;
    return true;
  }

private:
  struct timer {
    bool armed = false;
    nanoseconds deadline = 0; ///< training time
    std::uint64_t generation = 0;
  };
  const training_time& clock_;
  plan_fn plan_;
  std::map<std::pair<endpoint, timer_id>, timer> timers_;
};

} // namespace troupe::protocols::sim
