// SPDX-License-Identifier: BSD-3-Clause
// Pools of device memory and of pinned host memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>

#include <cuda_runtime.h>

#include "kernels/buffer.hpp"
#include "kernels/free_lists.hpp"

namespace troupe::kernels::cuda {

/// Free lists by size class over cudaMalloc or cudaHostAlloc, which both stop the device: a step that has run once allocates
/// nothing from CUDA again. Thread-safe. A block's handle keeps the pool alive, so a buffer may outlive its backend.
class block_pool : public std::enable_shared_from_this<block_pool> {
public:
  enum class kind : std::uint8_t { device, pinned };

  /// Keeps at most `keep_bytes` of freed memory for reuse (0: all of it).
  static std::shared_ptr<block_pool> create(kind memory_kind, int device, std::uint64_t keep_bytes);
  block_pool(const block_pool&) = delete;
  block_pool& operator=(const block_pool&) = delete;
  ~block_pool();

  /// A block of `bytes`, padded to `alignment` with zeros. Throws device_error when CUDA has none left, after it has given back
  /// all that lay free here; the reason names the bytes asked for, in use here, and free and present on the device.
  buffer allocate(std::size_t bytes);

  /// Whether an address lies in a block of this pool, free or not.
  bool owns(const void* address) const;

  std::uint64_t free_bytes() const { return lists_.free_bytes(); }
  std::uint64_t used_bytes() const { return lists_.used_bytes(); }

  /// What a request really takes: multiples of 512 bytes, then the next of 8 steps per power of two (at most 12.5 % more).
  static std::size_t size_class(std::size_t bytes);

private:
  block_pool(kind memory_kind, int device, std::uint64_t keep_bytes);
  void* take(std::size_t capacity);
  void give_back(void* block, std::size_t capacity) noexcept;
  void* from_cuda(std::size_t capacity);
  void to_cuda(void* block) noexcept;
  void zero(void* begin, std::size_t bytes) const;
  void release_free();
  [[noreturn]] void out_of_memory(std::size_t capacity) const;

  const kind kind_;
  const int device_;
  cudaStream_t zeroing_ = nullptr; ///< beside the queues: a block that is being made has no user yet
  free_lists lists_;
  mutable std::mutex mutex_;                           // of all_blocks_
  std::map<const std::byte*, std::size_t> all_blocks_; // capacity by address
};

} // namespace troupe::kernels::cuda
