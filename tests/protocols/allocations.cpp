// SPDX-License-Identifier: BSD-3-Clause
// The test binary's own operator new.
#include "tests/protocols/allocations.hpp"

#include <cstdlib>
#include <new>

namespace {
thread_local std::size_t allocated = 0;
}

std::size_t troupe::test::allocated_bytes() {
  return allocated;
}

void* operator new(std::size_t bytes) {
  allocated += bytes;
  if (void* const memory = std::malloc(bytes))
    return memory;
  throw std::bad_alloc();
}
/// The temporary memory of std::stable_partition comes from here, and goes back below.
void* operator new(std::size_t bytes, const std::nothrow_t&) noexcept {
  allocated += bytes;
  return std::malloc(bytes);
}
void operator delete(void* memory) noexcept {
  std::free(memory);
}
void operator delete(void* memory, std::size_t) noexcept {
  std::free(memory);
}
