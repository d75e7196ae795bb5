// SPDX-License-Identifier: BSD-3-Clause
// How often something may be started.
#pragma once

#include <chrono>
#include <cstddef>
#include <deque>

namespace troupe::apps {

/// At most `most` starts within any time as long as `window`. A start that is refused does not count.
class start_limit {
public:
  using clock = std::chrono::steady_clock;

  start_limit(std::size_t most, clock::duration window) : most_(most), window_(window) {}

  /// Whether there may be a start at `now`, which then counts. Times do not go back.
  bool take(clock::time_point now) {
    while (!starts_.empty() && now - starts_.front() >= window_)
      starts_.pop_front();
    if (starts_.size() >= most_)
      return false;
    starts_.push_back(now);
    return true;
  }

private:
  std::size_t most_;
  clock::duration window_;
  std::deque<clock::time_point> starts_; ///< those of the last window
};

} // namespace troupe::apps
