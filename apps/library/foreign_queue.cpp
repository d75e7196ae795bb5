// SPDX-License-Identifier: BSD-3-Clause
// The queue of tasks.
#include "apps/library/foreign_queue.hpp"

#include <utility>

namespace troupe::apps {

void foreign_queue::enqueue(foreign_task task) {
  {
    const std::lock_guard guard{mutex_};
    if (closed_)
      return;
    waiting_.push_back(std::move(task));
  }
  changed_.notify_one();
}

std::optional<foreign_task> foreign_queue::next(std::chrono::milliseconds patience) {
  std::unique_lock lock{mutex_};
  changed_.wait_for(lock, patience, [this] { return closed_ || !waiting_.empty(); });
  if (waiting_.empty())
    return std::nullopt;
  auto task = std::move(waiting_.front());
  waiting_.pop_front();
  return task;
}

void foreign_queue::close() {
  std::deque<foreign_task> dropped; // their blocks die outside the lock
  {
    const std::lock_guard guard{mutex_};
    closed_ = true;
    dropped.swap(waiting_);
  }
  changed_.notify_all();
}

} // namespace troupe::apps
