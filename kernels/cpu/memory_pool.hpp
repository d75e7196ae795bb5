// SPDX-License-Identifier: BSD-3-Clause
// The host memory pool: blocks that come back when their last handle dies and serve again.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "kernels/buffer.hpp"
#include "kernels/free_lists.hpp"

namespace troupe::kernels {

/// Free lists by size class. Thread-safe. A block's handle keeps the pool alive, so a buffer may outlive the backend that
/// gave it.
class memory_pool : public std::enable_shared_from_this<memory_pool> {
public:
  /// Keeps at most `keep_bytes` of freed memory for reuse (0: all of it); what is above goes back to the system.
  static std::shared_ptr<memory_pool> create(std::uint64_t keep_bytes = 0);
  memory_pool(const memory_pool&) = delete;
  memory_pool& operator=(const memory_pool&) = delete;
  ~memory_pool();

  /// A block of `bytes`, aligned to `alignment` and readable up to the next multiple of it; what lies between is zero at
  /// every allocation, not only at the block's first. Throws out_of_memory when the system has no memory left.
  buffer allocate(std::size_t bytes);

  /// Freed bytes that wait for reuse.
  std::uint64_t free_bytes() const { return lists_.free_bytes(); }
  /// Bytes of blocks that have a handle.
  std::uint64_t used_bytes() const { return lists_.used_bytes(); }

  /// What a request of `bytes` really takes: the next of 4 steps per power of two (at most 25 % more).
  static std::size_t size_class(std::size_t bytes);

private:
  explicit memory_pool(std::uint64_t keep_bytes) : lists_(keep_bytes) {}
  void* take(std::size_t capacity);
  void give_back(void* block, std::size_t capacity) noexcept;

  free_lists lists_;
};

} // namespace troupe::kernels
