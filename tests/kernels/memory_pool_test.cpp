// SPDX-License-Identifier: BSD-3-Clause
// The memory pool: alignment, padding, reuse, threads, and buffers that outlive it.
#include "kernels/cpu/memory_pool.hpp"

#include <cstring>
#include <thread>

#include <gtest/gtest.h>

#include "kernels/backend.hpp"

namespace troupe::kernels {

namespace {

TEST(MemoryPool, BlocksAreAlignedAndPaddedWithZeros) {
  auto pool = memory_pool::create();
  for (std::size_t bytes : {0UL, 1UL, 63UL, 64UL, 65UL, 1000UL, 4097UL, 3UL << 20, (5UL << 20) + 3}) {
    auto block = pool->allocate(bytes);
    EXPECT_EQ(block.bytes(), bytes);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(block.data()) % alignment, 0U);
    for (std::size_t i = bytes; i % alignment != 0; ++i)
      EXPECT_EQ(block.data()[i], std::byte{0}) << bytes << " at " << i;
  }
}

TEST(MemoryPool, PaddingOfAReusedBlockIsZeroAgain) {
  auto pool = memory_pool::create();
  auto full = pool->allocate(128);
  const auto* address = full.data();
  std::memset(full.data(), 0xff, 128);
  full = {};
  auto part = pool->allocate(65); // of the same class
  ASSERT_EQ(part.data(), address);
  for (std::size_t i = 65; i < 128; ++i)
    EXPECT_EQ(part.data()[i], std::byte{0}) << i;
}

TEST(MemoryPool, AFreedBlockServesTheNextOfItsClass) {
  auto pool = memory_pool::create();
  auto first = pool->allocate(100'000);
  const auto* address = first.data();
  EXPECT_EQ(pool->used_bytes(), memory_pool::size_class(100'000));
  first = {};
  EXPECT_EQ(pool->used_bytes(), 0U);
  EXPECT_EQ(pool->free_bytes(), memory_pool::size_class(100'000));
  EXPECT_EQ(pool->allocate(99'000).data(), address);
}

TEST(MemoryPool, ASliceKeepsItsBlock) {
  auto pool = memory_pool::create();
  auto whole = pool->allocate(1024);
  auto part = whole.slice(512, 64);
  whole = {};
  EXPECT_EQ(pool->free_bytes(), 0U);
  part = {};
  EXPECT_EQ(pool->free_bytes(), 1024U);
}

TEST(MemoryPool, WhatIsAboveTheLimitGoesBackToTheSystem) {
  auto pool = memory_pool::create(1000);
  auto a = pool->allocate(640), b = pool->allocate(640);
  a = {};
  b = {};
  EXPECT_EQ(pool->free_bytes(), 640U);
  EXPECT_EQ(pool->used_bytes(), 0U);
}

TEST(MemoryPool, BuffersOutliveTheBackend) {
  buffer block;
  {
    auto cpu = open_backend({.device = "cpu"});
    block = cpu->allocate(4096);
  }
  std::memset(block.data(), 1, 4096);
  EXPECT_EQ(block.data()[4095], std::byte{1});
}

TEST(MemoryPool, HandlesDieOnAnyThread) {
  auto pool = memory_pool::create();
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([pool, t] {
      std::vector<buffer> held;
      for (std::size_t i = 0; i < 2000; ++i) {
        held.push_back(pool->allocate(64 * (i % 7 + 1)));
        std::memset(held.back().data(), t, held.back().bytes());
        if (held.size() > 10)
          held.erase(held.begin());
      }
      for (auto& block : held)
        for (std::size_t i = 0; i < block.bytes(); ++i)
          ASSERT_EQ(block.data()[i], static_cast<std::byte>(t)); // nobody else was given this block
    });
  for (auto& thread : threads)
    thread.join();
  EXPECT_EQ(pool->used_bytes(), 0U);
}

TEST(MemoryPool, SizeClassesWasteAtMostAQuarter) {
  for (std::size_t bytes = 256; bytes < (std::size_t{1} << 24); bytes += bytes / 100 + 1) {
    EXPECT_GE(memory_pool::size_class(bytes), bytes);
    EXPECT_LE(memory_pool::size_class(bytes), bytes + bytes / 4 + alignment) << bytes;
    EXPECT_EQ(memory_pool::size_class(bytes) % alignment, 0U);
  }
}

TEST(MemoryPool, AnImpossibleRequestSaysSo) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "the sanitizer ends the process at an impossible request";
#endif
  auto pool = memory_pool::create();
  EXPECT_THROW(pool->allocate(std::size_t{1} << 60), device_error);
  EXPECT_EQ(pool->used_bytes(), 0U);
}

TEST(Buffer, HoldsNothingOnceItWasMovedFrom) {
  const auto block = std::make_shared<int>();
  buffer from{block, block.get(), sizeof(int)};
  buffer to = std::move(from);
  EXPECT_FALSE(from); // NOLINT(bugprone-use-after-move): that is the question
  EXPECT_TRUE(from.empty());
  EXPECT_EQ(to.data(), reinterpret_cast<std::byte*>(block.get()));
  buffer other{block, block.get(), 1};
  other = std::move(to);
  EXPECT_FALSE(to); // NOLINT(bugprone-use-after-move)
  EXPECT_EQ(other.bytes(), sizeof(int));
  EXPECT_EQ(block.use_count(), 2);
}

} // namespace

} // namespace troupe::kernels
