// SPDX-License-Identifier: BSD-3-Clause
// The replaced operator new and delete.
#include "tests/tensor/allocations.hpp"

#include <atomic>
#include <cstddef>
#include <cstdlib>
#include <new>

namespace {

std::atomic<long> calls{0};

void* counted(std::size_t bytes, std::size_t alignment) noexcept {
  calls.fetch_add(1, std::memory_order_relaxed);
  const auto padded = (bytes + alignment - 1) / alignment * alignment;
  return std::aligned_alloc(alignment, padded == 0 ? alignment : padded);
}

void* counted_or_throw(std::size_t bytes, std::size_t alignment) {
  if (void* memory = counted(bytes, alignment))
    return memory;
  throw std::bad_alloc{};
}

constexpr std::size_t usual = alignof(std::max_align_t);

} // namespace

void* operator new(std::size_t bytes) {
  return counted_or_throw(bytes, usual);
}
void* operator new(std::size_t bytes, std::align_val_t alignment) {
  return counted_or_throw(bytes, static_cast<std::size_t>(alignment));
}
// A sanitizer's own would not match our delete.
void* operator new(std::size_t bytes, const std::nothrow_t&) noexcept {
  return counted(bytes, usual);
}
void* operator new(std::size_t bytes, std::align_val_t alignment, const std::nothrow_t&) noexcept {
  return counted(bytes, static_cast<std::size_t>(alignment));
}
void operator delete(void* memory) noexcept {
  std::free(memory);
}
void operator delete(void* memory, std::size_t) noexcept {
  std::free(memory);
}
void operator delete(void* memory, std::align_val_t) noexcept {
  std::free(memory);
}
void operator delete(void* memory, std::size_t, std::align_val_t) noexcept {
  std::free(memory);
}

namespace troupe::testing {

allocation_count::allocation_count() : before_(calls.load()) {}

long allocation_count::since() const {
  return calls.load() - before_;
}

} // namespace troupe::testing
