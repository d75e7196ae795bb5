// SPDX-License-Identifier: BSD-3-Clause
// When a worker that did not progress is taken back.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <optional>

namespace troupe::actors {

/// A worker that was lost, for it did not progress. It is taken back when it moves again, but each time that it stands still
/// costs everybody a deadline. So it has to move for a second first, and for four times as long each time; an hour after the last
/// time that is forgotten.
class stray_worker {
public:
  using clock = std::chrono::steady_clock;

  void lost(clock::time_point now) {
    times_ = lost_at_ && now - *lost_at_ <= std::chrono::hours{1} ? std::min(times_ + 1, most_times) : 0;
    lost_at_ = now;
    looks_ = 0;
    is_out_ = true;
  }
  /// It has no part since it was lost.
  bool is_out() const { return is_out_; }
  void has_part() { is_out_ = false; }
  /// It was found to move, once a second. Whether that is long enough.
  bool moves() { return ++looks_ >= 1U << (2 * times_); }

private:
  static constexpr std::uint32_t most_times = 6; // more than an hour
  std::optional<clock::time_point> lost_at_{};
  std::uint32_t times_ = 0; ///< before the last, within an hour of the next each
  std::uint32_t looks_ = 0; ///< that found it moving
  bool is_out_ = false;
};

} // namespace troupe::actors
