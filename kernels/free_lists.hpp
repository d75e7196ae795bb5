// SPDX-License-Identifier: BSD-3-Clause
// What pools of host and of device memory have in common: freed blocks by size class, and how much is where.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <utility>
#include <vector>

namespace troupe::kernels {

/// Lists of free blocks by their capacity; knows no allocator. Thread-safe.
class free_lists {
public:
  /// Keeps at most `keep_bytes` (0: all).
  explicit free_lists(std::uint64_t keep_bytes) : keep_bytes_(keep_bytes) {}

  /// A free block of exactly this capacity, the one freed last: its lines are the warmest. Null: there is none. It is in use now.
  void* take(std::size_t capacity) {
    std::lock_guard lock{mutex_};
    const auto found = free_.find(capacity);
    if (found == free_.end() || found->second.empty())
      return nullptr;
    void* block = found->second.back();
    found->second.pop_back();
    free_bytes_ -= capacity;
    used_bytes_ += capacity;
    return block;
  }
  /// A block that the pool has just made is in use.
  void add_used(std::size_t capacity) {
    std::lock_guard lock{mutex_};
    used_bytes_ += capacity;
  }
  /// A block is not used any more. False: it is not kept, and its pool gives it up.
  bool give_back(void* block, std::size_t capacity) noexcept {
    std::lock_guard lock{mutex_};
    used_bytes_ -= capacity;
    if (keep_bytes_ != 0 && free_bytes_ + capacity > keep_bytes_)
      return false;
    try {
      free_[capacity].push_back(block);
      free_bytes_ += capacity;
      return true;
    } catch (...) { // no memory for the list
      return false;
    }
  }
  /// All that is free, for the pool to give up.
  std::map<std::size_t, std::vector<void*>> release() {
    std::lock_guard lock{mutex_};
    free_bytes_ = 0;
    return std::exchange(free_, {});
  }

  /// Freed bytes that wait for reuse.
  std::uint64_t free_bytes() const {
    std::lock_guard lock{mutex_};
    return free_bytes_;
  }
  /// Bytes of blocks that have a handle.
  std::uint64_t used_bytes() const {
    std::lock_guard lock{mutex_};
    return used_bytes_;
  }

private:
  const std::uint64_t keep_bytes_;
  mutable std::mutex mutex_;
  std::map<std::size_t, std::vector<void*>> free_; // by capacity
  std::uint64_t free_bytes_ = 0, used_bytes_ = 0;
};

} // namespace troupe::kernels
