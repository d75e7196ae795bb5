// SPDX-License-Identifier: BSD-3-Clause
// From actors that want a step computed to the thread of a library's caller, which computes it.
#pragma once

#include <chrono>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "tensor/foreign.hpp"

namespace troupe::apps {

/// Tasks in the order in which they came. Thread-safe.
class foreign_queue final : public foreign_computer {
public:
  /// `initial`: of the model; empty: there is none.
  explicit foreign_queue(std::vector<float> initial = {}) : initial_(std::move(initial)) {}
  void enqueue(foreign_task task) override;
  std::span<const float> initial() const override { return initial_; }
  /// Waits for a task; none: it has been closed, or `patience` has passed.
  std::optional<foreign_task> next(std::chrono::milliseconds patience);
  /// There will be no more tasks; those that wait are dropped.
  void close();

private:
  const std::vector<float> initial_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<foreign_task> waiting_;
  bool closed_ = false;
};

} // namespace troupe::apps
