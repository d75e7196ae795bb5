// SPDX-License-Identifier: BSD-3-Clause
// A rate limit for log messages.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>

#include <fmt/format.h>

namespace troupe::actors {

/// Passes on the first text, then one every ten seconds that says how many were dropped meanwhile. Thread-safe.
class rate_limited {
public:
  using clock = std::chrono::steady_clock;
  static constexpr std::chrono::seconds pause{10};

  explicit rate_limited(std::function<void(const std::string&)> say) : say_(std::move(say)) {}

  void operator()(const std::string& text, clock::time_point now = clock::now()) {
    const std::lock_guard guard{mutex_};
    if (said_ && now - *said_ < pause) {
      ++unsaid_;
      return;
    }
    said_ = now;
    say_(unsaid_ == 0 ? text : fmt::format("{} (and {} more since the last)", text, unsaid_));
    unsaid_ = 0;
  }

private:
  std::function<void(const std::string&)> say_;
  std::mutex mutex_;
  std::optional<clock::time_point> said_;
  std::uint64_t unsaid_ = 0;
};

/// Logs refused connections, rate-limited: it is called with "connection from HOST: WHY". Thread-safe if `log` is.
inline std::function<void(const std::string&)> turned_away(std::function<void(const std::string&)> log) {
  return [log = std::make_shared<rate_limited>(std::move(log))](const std::string& who) { (*log)("turns away a " + who); };
}

} // namespace troupe::actors
