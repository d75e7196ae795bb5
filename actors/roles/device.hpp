// SPDX-License-Identifier: BSD-3-Clause
// What an asynchronous queue with its own memory asks of the actors that feed it.
#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "kernels/backend.hpp"

namespace troupe::actors {

/// A tensor, or a part of one, in device memory, for a role of the same process on a device of the same kind. The work that wrote
/// it has run.
struct device_tensor {
  kernels::buffer data;
  std::string device; ///< backend::name(): read in place on the same device, copied to another
};

/// Asks a device periodically whether it still works: an actor that waits for a completion would not hear of its loss.
struct device_check {};
inline constexpr std::chrono::seconds device_check_interval{1};

/// Blocks that a queue may still use, in the order of use: kept until the work that uses them has run. On the host work is done
/// when the call returns, and nothing is kept.
class in_flight {
public:
  explicit in_flight(const kernels::backend& queue) : on_host_(queue.on_host()) {}

  /// Work enqueued so far, or before the next mark, uses the block.
  void keep(const kernels::buffer& block) {
    if (!on_host_ && block)
      held_.emplace_back(marks_, block);
  }
  /// Names this place in the queue: to be taken right before enqueuing a `notify`, or work that ends with one.
  std::uint64_t mark() { return ++marks_; }
  /// The queue has run all work enqueued before that mark.
  void passed(std::uint64_t mark) {
    while (!held_.empty() && held_.front().first < mark)
      held_.pop_front();
  }
  std::size_t size() const { return held_.size(); }

private:
  bool on_host_;
  std::uint64_t marks_ = 0;
  std::deque<std::pair<std::uint64_t, kernels::buffer>> held_;
};

/// Whether these `ours` handles, all on this thread, are the only ones to the block, so that it may be overwritten.
inline bool nobody_else_holds(const kernels::buffer& block, long ours = 1) {
  if (block.use_count() != ours)
    return false;
  const kernels::buffer after =
      block; // the copy orders this thread after the release of other handles; reading the count does not
  return true;
}

/// Reuses blocks, so that addresses recur: a recorded step is replayed only with the addresses of its recording. One thread at a
/// time.
class recurring_blocks {
public:
  explicit recurring_blocks(std::function<kernels::buffer(std::size_t bytes)> allocate) : allocate_(std::move(allocate)) {}

  kernels::buffer take(std::size_t bytes) {
    for (const auto& block : blocks_)
      if (block.bytes() == bytes && nobody_else_holds(block))
        return block;
    auto fresh = allocate_(bytes);
    if (blocks_.size() < most_kept)
      blocks_.push_back(fresh);
    return fresh;
  }

private:
  static constexpr std::size_t most_kept = 3; ///< one in use, one arriving or leaving, one late
  std::function<kernels::buffer(std::size_t bytes)> allocate_;
  std::vector<kernels::buffer> blocks_;
};

} // namespace troupe::actors
