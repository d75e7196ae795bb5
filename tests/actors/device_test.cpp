// SPDX-License-Identifier: BSD-3-Clause
// Blocks that are reused once they have no other holder.
#include "actors/roles/device.hpp"

#include <algorithm>
#include <memory>
#include <numeric>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

namespace troupe::actors {
namespace {

kernels::buffer floats(std::size_t bytes) {
  auto block = std::make_shared<std::vector<float>>(bytes / sizeof(float), 1.0F);
  return {block, block->data(), bytes};
}

TEST(RecurringBlocks, WhatSomebodyHoldsIsNotHandedOut) {
  recurring_blocks blocks{floats};
  const auto first = blocks.take(64);
  auto second = blocks.take(64);
  EXPECT_NE(second.data(), first.data());
  const auto* where = second.data();
  second = {};
  EXPECT_NE(blocks.take(128).data(), where) << "another size";
  EXPECT_EQ(blocks.take(64).data(), where);
}

// Under ThreadSanitizer: what the reader did with the block is over, not only its handle gone.
TEST(NobodyElseHolds, ABlockIsWrittenAfterItsReaderHasLetGo) {
  const auto block = floats(4096);
  float sum = 0;
  std::thread reader([&sum, theirs = block]() mutable {
    sum = std::accumulate(theirs.span<float>().begin(), theirs.span<float>().end(), 0.0F);
    theirs = {};
  });
  while (!nobody_else_holds(block))
    std::this_thread::yield();
  std::ranges::fill(block.span<float>(), 2.0F);
  reader.join();
  EXPECT_EQ(sum, 1024);
}

} // namespace
} // namespace troupe::actors
