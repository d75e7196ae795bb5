// SPDX-License-Identifier: BSD-3-Clause
// How long a round and an evaluation may take.
#pragma once

#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "protocols/spread.hpp"

namespace troupe::actors {

/// Deadlines of those that answer and get nowhere: a hung disk, a stuck device. Without a setting they follow what was seen.
///
/// Rounds: max(30 s, 20 times the median of the last 64 local steps, times the period); none before the third round, because
/// nobody knows how long a step takes. Evaluations: max(60 s, 10 times the longest so far); 300 s for the first.
class progress_deadlines {
public:
  using seconds = std::chrono::duration<double>;

  /// `set`: `cluster.progress_s`, for both; 0: it is not set.
  explicit progress_deadlines(double set) : set_(set) {}

  /// It took `time`, for `period` local steps of each worker.
  void round_took(seconds time, std::uint32_t period) { steps_[rounds_++ % steps_.size()] = time / std::max(period, 1U); }
  void evaluation_took(seconds time) { longest_evaluation_ = std::max(longest_evaluation_.value_or(time), time); }

  /// Nothing: none.
  std::optional<seconds> of_round(std::uint32_t period) const {
    if (set_.count() > 0)
      return set_;
    if (rounds_ < rounds_to_know)
      return {};
    auto steps = steps_;
    const auto step = protocols::median(std::span{steps.data(), std::min(rounds_, steps.size())});
    return std::max(seconds{30}, 20 * std::max(period, 1U) * step);
  }
  seconds of_evaluation() const {
    if (set_.count() > 0)
      return set_;
    return longest_evaluation_ ? std::max(seconds{60}, 10 * *longest_evaluation_) : seconds{300};
  }

private:
  static constexpr std::size_t rounds_to_know = 3;
  seconds set_;
  std::array<seconds, 64> steps_{}; // a ring
  std::size_t rounds_ = 0;
  std::optional<seconds> longest_evaluation_;
};

} // namespace troupe::actors
