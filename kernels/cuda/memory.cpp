// SPDX-License-Identifier: BSD-3-Clause
// Pools of device memory and of pinned host memory.
#include "kernels/cuda/memory.hpp"

#include <algorithm>
#include <bit>
#include <cstring>

#include <fmt/format.h>

#include "kernels/backend.hpp"
#include "kernels/cuda/status.hpp"

namespace troupe::kernels::cuda {

namespace {

constexpr std::size_t smallest = 512; // what cudaMalloc aligns to

constexpr std::size_t round_up(std::size_t value, std::size_t multiple) {
  return (value + multiple - 1) / multiple * multiple;
}

} // namespace

std::shared_ptr<block_pool> block_pool::create(kind memory_kind, int device, std::uint64_t keep_bytes) {
  return std::shared_ptr<block_pool>(new block_pool(memory_kind, device, keep_bytes));
}

block_pool::block_pool(kind memory_kind, int device, std::uint64_t keep_bytes)
    : kind_(memory_kind), device_(device), lists_(keep_bytes) {
  if (kind_ == kind::device)
    TROUPE_CUDA(cudaStreamCreateWithFlags(&zeroing_, cudaStreamNonBlocking));
}

block_pool::~block_pool() {
  release_free();
  if (zeroing_)
    cudaStreamDestroy(zeroing_);
}

std::size_t block_pool::size_class(std::size_t bytes) {
  return round_up(std::max<std::size_t>(bytes, 1), std::max(smallest, std::bit_ceil(bytes) / 16));
}

buffer block_pool::allocate(std::size_t bytes) {
  const std::size_t capacity = size_class(bytes), padded = std::max(round_up(bytes, alignment), alignment);
  void* block = take(capacity);
  auto pool = shared_from_this();
  // Should anything from here on throw, the deleter gives the block back.
  std::shared_ptr<void> owner(block, [pool, capacity](void* p) { pool->give_back(p, capacity); });
  zero(static_cast<std::byte*>(block) + bytes, padded - bytes);
  return {std::move(owner), block, bytes};
}

void block_pool::zero(void* begin, std::size_t bytes) const {
  if (bytes == 0)
    return; // the rule: tensors are padded to whole lines by their owners
  if (kind_ == kind::pinned) {
    std::memset(begin, 0, bytes);
    return;
  }
  TROUPE_CUDA(cudaSetDevice(device_));
  TROUPE_CUDA(cudaMemsetAsync(begin, 0, bytes, zeroing_));
  TROUPE_CUDA(cudaStreamSynchronize(zeroing_)); // or it might come after the owner's first write
}

void* block_pool::take(std::size_t capacity) {
  if (void* block = lists_.take(capacity))
    return block;
  void* block = from_cuda(capacity);
  if (!block) {
    release_free(); // blocks of other sizes
    block = from_cuda(capacity);
  }
  if (!block)
    out_of_memory(capacity);
  lists_.add_used(capacity);
  std::lock_guard lock{mutex_};
  all_blocks_.emplace(static_cast<const std::byte*>(block), capacity);
  return block;
}

void* block_pool::from_cuda(std::size_t capacity) {
  TROUPE_CUDA(cudaSetDevice(device_));
  void* block = nullptr;
  const auto status =
      kind_ == kind::device ? cudaMalloc(&block, capacity) : cudaHostAlloc(&block, capacity, cudaHostAllocPortable);
  if (status == cudaErrorMemoryAllocation) {
    cudaGetLastError(); // forget it
    return nullptr;
  }
  check(status, kind_ == kind::device ? "cudaMalloc" : "cudaHostAlloc");
  return block;
}

void block_pool::to_cuda(void* block) noexcept {
  {
    std::lock_guard lock{mutex_};
    all_blocks_.erase(static_cast<const std::byte*>(block));
  }
  // A failure here is that of something that ran before, and is reported where that is looked at.
  static_cast<void>(kind_ == kind::device ? cudaFree(block) : cudaFreeHost(block));
}

void block_pool::give_back(void* block, std::size_t capacity) noexcept {
  if (!lists_.give_back(block, capacity))
    to_cuda(block);
}

void block_pool::release_free() {
  for (auto& [capacity, blocks] : lists_.release())
    for (void* block : blocks)
      to_cuda(block);
}

void block_pool::out_of_memory(std::size_t capacity) const {
  if (kind_ == kind::pinned)
    throw kernels::out_of_memory(fmt::format("out of pinned host memory: {} bytes asked for, {} in use by this queue; "
                                             "the limit is the machine's memory, or `ulimit -l`",
                                             capacity, used_bytes()));
  std::size_t free = 0, total = 0;
  cudaMemGetInfo(&free, &total);
  throw kernels::out_of_memory(
      fmt::format("cuda:{} is out of memory: {} bytes asked for, {} in use by this queue, {} free of {}; "
                  "a smaller batch, fewer workers on this device, or a larger device would do",
                  device_, capacity, used_bytes(), free, total));
}

bool block_pool::owns(const void* address) const {
  const auto* place = static_cast<const std::byte*>(address);
  std::lock_guard lock{mutex_};
  auto after = all_blocks_.upper_bound(place);
  if (after == all_blocks_.begin())
    return false;
  --after;
  return static_cast<std::size_t>(place - after->first) < after->second;
}

} // namespace troupe::kernels::cuda
