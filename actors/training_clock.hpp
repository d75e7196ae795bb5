// SPDX-License-Identifier: BSD-3-Clause
// Training time: stands still while the job is held.
#pragma once

#include <chrono>
#include <functional>
#include <map>
#include <optional>

#include "protocols/effect.hpp"

namespace troupe::actors {

/// Nanoseconds of training since the first `resume`. Starts paused.
class training_clock {
public:
  protocols::nanoseconds now() const { return passed_ + (running_ ? since(started_) : 0); }
  bool running() const { return running_; }
  void pause() {
    passed_ = now();
    running_ = false;
  }
  void resume() {
    started_ = std::chrono::steady_clock::now();
    running_ = true;
  }

private:
  static protocols::nanoseconds since(std::chrono::steady_clock::time_point t) {
    return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now() - t).count();
  }
  bool running_ = false;
  protocols::nanoseconds passed_ = 0;
  std::chrono::steady_clock::time_point started_;
};

/// A machine's timers in training time. `schedule` sends `expired{timer}` to the owner after a wall-clock delay; when it
/// comes, `fire` says whether the time has really come, and schedules the rest where the clock stood still meanwhile.
class training_timers {
public:
  using schedule_fn = std::function<void(protocols::timer_id, protocols::nanoseconds delay)>;

  training_timers(const training_clock& clock, schedule_fn schedule) : clock_(clock), schedule_(std::move(schedule)) {}

  void arm(const protocols::arm_timer& what) {
    if (what.delay < 0) {
      deadlines_.erase(what.timer);
      return;
    }
    deadlines_[what.timer] = clock_.now() + what.delay;
    if (clock_.running())
      schedule_(what.timer, what.delay);
  }

  /// Call when the clock runs again.
  void resume() {
    for (auto [timer, deadline] : deadlines_)
      schedule_(timer, std::max<protocols::nanoseconds>(0, deadline - clock_.now()));
  }

  std::optional<protocols::expired> fire(protocols::timer_id timer) {
    auto found = deadlines_.find(timer);
    if (found == deadlines_.end() || !clock_.running())
      return std::nullopt; // disarmed, or resume() will schedule it again
    if (auto rest = found->second - clock_.now(); rest > 0) {
      schedule_(timer, rest);
      return std::nullopt;
    }
    deadlines_.erase(found);
    return protocols::expired{timer, clock_.now()};
  }

private:
  const training_clock& clock_;
  schedule_fn schedule_;
  std::map<protocols::timer_id, protocols::nanoseconds> deadlines_;
};

} // namespace troupe::actors
