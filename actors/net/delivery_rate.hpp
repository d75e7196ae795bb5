// SPDX-License-Identifier: BSD-3-Clause
// How fast a lane's peer takes what waits for it.
#pragma once

#include <chrono>
#include <cstddef>
#include <optional>

namespace troupe::actors::net {

/// The bytes that a socket took while others waited, over at least `window`. Times are arguments; no lock.
class delivery_rate {
public:
  using clock = std::chrono::steady_clock;
  static constexpr clock::duration window = std::chrono::milliseconds{5};

  /// The socket took `bytes`. `waits`: others do now; without, the next bytes say nothing of how fast it is.
  void took(std::size_t bytes, bool waits, clock::time_point now) {
    if (!since_) {
      since_ = now; // what fitted into an empty socket was not sent yet
      bytes_ = 0;
    } else {
      bytes_ += bytes;
    }
    if (const auto passed = now - *since_; passed >= window) {
      a_second_ = static_cast<double>(bytes_) / std::chrono::duration<double>(passed).count();
      since_ = now;
      bytes_ = 0;
    }
    if (!waits)
      since_.reset();
  }
  bool measures() const { return since_.has_value(); }

  /// How many bytes go in so long; nothing as long as that is not known.
  std::optional<std::size_t> in(clock::duration time) const {
    if (a_second_ == 0)
      return {};
    return static_cast<std::size_t>(a_second_ * std::chrono::duration<double>(time).count());
  }

private:
  double a_second_ = 0; // 0: not known
  std::size_t bytes_ = 0;
  std::optional<clock::time_point> since_{};
};

} // namespace troupe::actors::net
