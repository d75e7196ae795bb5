// SPDX-License-Identifier: BSD-3-Clause
// How often a stranger's TLS handshake may begin.
#pragma once

#include <algorithm>
#include <chrono>
#include <deque>
#include <memory>
#include <utility>

namespace troupe::actors::net {

/// A handshake costs the server a millisecond, and the stranger nothing. So at most `a_second` begin each second, after a pause
/// up to `at_once` together. Those that wait begin the newest first: under a flood, whoever has waited for long has given up.
///
/// Has no clock or timer: times are arguments, and its owner calls `next` when `due` says so. One thread.
template <class Stranger>
class handshake_gate {
public:
  using clock = std::chrono::steady_clock;
  static constexpr int a_second = 50, at_once = 10;
  static constexpr clock::duration interval = std::chrono::nanoseconds{1'000'000'000 / a_second};

  void wait(const std::shared_ptr<Stranger>& who) { waiting_.push_back(who); }
  /// Who may begin now; null: nobody. One that is gone takes no turn.
  std::shared_ptr<Stranger> next(clock::time_point now) {
    while (!waiting_.empty() && now >= due()) {
      const auto who = waiting_.back().lock();
      waiting_.pop_back();
      if (!who)
        continue;
      free_ = std::max(free_, now - at_once * interval) + interval;
      return who;
    }
    return nullptr;
  }
  bool is_empty() const { return waiting_.empty(); }
  /// When the next one may begin.
  clock::time_point due() const { return free_; }

private:
  std::deque<std::weak_ptr<Stranger>> waiting_;
  clock::time_point free_{};
};

} // namespace troupe::actors::net
