// SPDX-License-Identifier: BSD-3-Clause
// What a queue that runs later, on memory that is not the host's, asks of the actors that feed it.
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

/// A tensor, or a part of one, in a device's memory, handed to a role of the same process whose device is of the same kind.
/// What wrote it has run.
struct device_tensor {
  kernels::buffer data;
  std::string device; ///< backend::name(): on the same one it is read where it lies, else copied
};

/// Asks a device, every so often, whether it still works: what waits for a completion would not hear of its loss.
struct device_check {};
inline constexpr std::chrono::seconds device_check_interval{1};

/// Blocks that a queue may still use, in the order of use: kept until it has run what uses them. On the host work is done when
/// the call returns, and nothing is kept.
class in_flight {
public:
  explicit in_flight(const kernels::backend& queue) : on_host_(queue.on_host()) {}

  /// What has been enqueued so far uses it, or what is enqueued before the next mark will.
  void keep(const kernels::buffer& block) {
    if (!on_host_ && block)
      held_.emplace_back(marks_, block);
  }
  /// Names this place in the queue: to be taken right before a `notify`, or whatever ends with one, is enqueued.
  std::uint64_t mark() { return ++marks_; }
  /// The queue has run what was enqueued before that mark.
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

/// Whether these `ours` handles are all that the block has, so that it may be written anew: whoever let go of one is done with
/// it. They are this thread's.
inline bool nobody_else_holds(const kernels::buffer& block, long ours = 1) {
  if (block.use_count() != ours)
    return false;
  const kernels::buffer after = block; // letting go of it comes after their letting go; a look at the count alone has no order
  return true;
}

/// Blocks of one size whose addresses come again: the first that nobody else holds, else a new one. A recorded step is replayed
/// only with the addresses that it was recorded with. One thread at a time.
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
  static constexpr std::size_t most_kept = 3; ///< one is computed with, one comes in or leaves, one is late
  std::function<kernels::buffer(std::size_t bytes)> allocate_;
  std::vector<kernels::buffer> blocks_;
};

} // namespace troupe::actors
