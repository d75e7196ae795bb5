// SPDX-License-Identifier: BSD-3-Clause
// The host memory pool.
#include "kernels/cpu/memory_pool.hpp"

#include <algorithm>
#include <bit>
#include <cstdlib>
#include <cstring>

#include <fmt/format.h>
#include <sys/mman.h>

#include "kernels/backend.hpp"

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
#else
#define ASAN_POISON_MEMORY_REGION(address, bytes) ((void)(address), (void)(bytes))
#define ASAN_UNPOISON_MEMORY_REGION(address, bytes) ((void)(address), (void)(bytes))
#endif

namespace troupe::kernels {

namespace {

constexpr std::size_t huge_page = std::size_t{2} << 20;

constexpr std::size_t round_up(std::size_t value, std::size_t multiple) {
  return (value + multiple - 1) / multiple * multiple;
}

void* allocate_block(std::size_t capacity) {
  // A block of megabytes is walked by gemm in strides of a row: with 4 KiB pages every row is a TLB miss.
  const bool large = capacity >= huge_page;
  void* block = nullptr;
  if (posix_memalign(&block, large ? huge_page : alignment, capacity) != 0)
    return nullptr;
  if (large)
    madvise(block, capacity, MADV_HUGEPAGE); // a wish: nothing is lost where it is not granted
  return block;
}

} // namespace

std::shared_ptr<memory_pool> memory_pool::create(std::uint64_t keep_bytes) {
  return std::shared_ptr<memory_pool>(new memory_pool(keep_bytes));
}

memory_pool::~memory_pool() {
  for (auto& [capacity, blocks] : lists_.release())
    for (void* block : blocks) {
      ASAN_UNPOISON_MEMORY_REGION(block, capacity);
      std::free(block);
    }
}

std::size_t memory_pool::size_class(std::size_t bytes) {
  if (bytes <= 4 * alignment)
    return round_up(std::max<std::size_t>(bytes, 1), alignment);
  const std::size_t step = std::max(alignment, std::bit_ceil(bytes) / 8);
  return round_up(bytes, step);
}

buffer memory_pool::allocate(std::size_t bytes) {
  const std::size_t capacity = size_class(bytes);
  void* block = take(capacity);
  const std::size_t padded = std::max(round_up(bytes, alignment), alignment);
  ASAN_UNPOISON_MEMORY_REGION(block, padded);
  std::memset(static_cast<std::byte*>(block) + bytes, 0, padded - bytes);
  auto pool = shared_from_this();
  // Should making the handle throw, shared_ptr runs the deleter itself: the block is not lost.
  std::shared_ptr<void> owner(block, [pool, capacity](void* p) { pool->give_back(p, capacity); });
  return {std::move(owner), block, bytes};
}

void* memory_pool::take(std::size_t capacity) {
  if (void* block = lists_.take(capacity))
    return block;
  void* block = allocate_block(capacity);
  if (block == nullptr)
    throw out_of_memory(
        fmt::format("out of memory: {} bytes asked for, {} in use, {} free in the pool", capacity, used_bytes(), free_bytes()));
  ASAN_POISON_MEMORY_REGION(block, capacity);
  lists_.add_used(capacity);
  return block;
}

void memory_pool::give_back(void* block, std::size_t capacity) noexcept {
  ASAN_POISON_MEMORY_REGION(block, capacity);
  if (lists_.give_back(block, capacity))
    return;
  ASAN_UNPOISON_MEMORY_REGION(block, capacity);
  std::free(block);
}

} // namespace troupe::kernels
