// SPDX-License-Identifier: BSD-3-Clause
// Training time: paused while the job is held.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "protocols/effect.hpp"

namespace troupe::protocols {

/// Where a training clock reads wall time, or a simulation's, which never goes back.
using wall_clock = std::function<nanoseconds()>;

/// Nanoseconds of training, from the first `resume` on. Starts paused.
class training_clock {
public:
  /// `passed`: training that a checkpoint has seen.
  explicit training_clock(wall_clock wall, nanoseconds passed = 0) : wall_(std::move(wall)), passed_(passed) {}

  nanoseconds now() const { return passed_ + (running_ ? wall_() - started_ : 0); }
  nanoseconds wall() const { return wall_(); }
  bool running() const { return running_; }
  void pause() {
    passed_ = now();
    running_ = false;
  }
  void resume() {
    pause();
    started_ = wall_();
    running_ = true;
  }

private:
  wall_clock wall_;
  bool running_ = false;
  nanoseconds passed_;
  nanoseconds started_ = 0;
};

/// A machine's timers in training time. `schedule` sends `expired{timer}` to the owner after a wall-clock delay; when it comes,
/// `fire` decides whether the time has really come, and schedules the rest if the clock was paused meanwhile.
///
/// However often a timer is armed, one message is pending for it: a rule that arms its deadline every round would otherwise leak
/// a pending message a round.
///
/// An actor's own timers (`own_timer`) use ids that no machine reaches.
class training_timers {
public:
  using schedule_fn = std::function<void(timer_id, nanoseconds delay)>;

  training_timers(const training_clock& clock, schedule_fn schedule) : clock_(clock), schedule_(std::move(schedule)) {}

  void arm(const arm_timer& order) {
    auto& timer = timers_[order.timer];
    timer.deadline.reset();
    if (order.delay < 0)
      return;
    timer.deadline = clock_.now() + order.delay;
    await(order.timer, timer);
  }

  /// Call when the clock runs again.
  void resume() {
    for (auto& [id, timer] : timers_)
      await(id, timer);
  }

  std::optional<expired> fire(timer_id id) {
    auto found = timers_.find(id);
    if (found == timers_.end() || !found->second.awaited || clock_.wall() < *found->second.awaited)
      return std::nullopt; // an earlier message replaced it, or it was never armed
    auto& timer = found->second;
    timer.awaited.reset();
    if (!timer.deadline || !clock_.running())
      return std::nullopt; // disarmed, or resume() will schedule it again
    if (clock_.now() < *timer.deadline) {
      await(id, timer);
      return std::nullopt;
    }
    timer.deadline.reset();
    if (id.value < first_own)
      return expired{id, clock_.now()};
    own_[id.value - first_own]();
    return std::nullopt;
  }

private:
  friend class own_timer;
  static constexpr std::uint32_t first_own = 0x8000'0000;

  struct timer_state {
    std::optional<nanoseconds> deadline; ///< in training time
    std::optional<nanoseconds> awaited;  ///< wall time of the earliest message that is under way
  };

  /// A message under way that comes no later is enough: `fire` then schedules the rest.
  void await(timer_id id, timer_state& timer) {
    if (!timer.deadline || !clock_.running())
      return;
    auto delay = std::max<nanoseconds>(0, *timer.deadline - clock_.now());
    auto due = clock_.wall() + delay;
    if (timer.awaited && *timer.awaited <= due)
      return;
    timer.awaited = due;
    schedule_(id, delay);
  }

  const training_clock& clock_;
  schedule_fn schedule_;
  std::map<timer_id, timer_state> timers_;
  std::vector<std::function<void()>> own_;
};

/// A timer of the actor itself, in training time like its machine's; `fire` calls it back.
class own_timer {
public:
  /// `timers` outlives it, and calls `due` from `fire`.
  own_timer(training_timers& timers, std::function<void()> due)
      : timers_(timers), id_{training_timers::first_own + static_cast<std::uint32_t>(timers.own_.size())} {
    timers.own_.push_back(std::move(due));
  }

  /// Replaces an earlier arming.
  void arm(nanoseconds delay) { timers_.arm({id_, std::max<nanoseconds>(0, delay)}); }

private:
  training_timers& timers_;
  timer_id id_;
};

/// Runs or pauses a clock and its timers; no effect if they are in that state.
inline void run(training_clock& clock, training_timers& timers, bool running) {
  if (running == clock.running())
    return;
  if (running) {
    clock.resume();
    timers.resume();
  } else {
    clock.pause();
  }
}

} // namespace troupe::protocols
