// SPDX-License-Identifier: BSD-3-Clause
// The flat array: slots, shards, partitions.
#include "tensor/layout.hpp"

#include <gtest/gtest.h>

namespace troupe {
namespace {

TEST(Layout, FloatsArePaddedToSixteen) {
  parameter_layout layout{{{"a", {10}, 0, {}}, {"b", {3, 7}, 16, {}}}};
  EXPECT_EQ(layout.floats(), 48);
  EXPECT_EQ(layout.find("b"), 1);
  EXPECT_EQ(layout.find("c"), -1);
  EXPECT_EQ(parameter_layout{}.floats(), 0);
}

TEST(Layout, ShardsAreEvenToOneGrain) {
  EXPECT_EQ(cut_into_shards(160, 3), (std::vector<flat_range>{{0, 48}, {48, 96}, {96, 160}}));
  EXPECT_EQ(cut_into_shards(160, 1), (std::vector<flat_range>{{0, 160}}));
}

TEST(Layout, MoreShardsThanGrainsLeavesSomeEmpty) {
  auto cuts = cut_into_shards(32, 4);
  ASSERT_EQ(cuts.size(), 4U);
  EXPECT_EQ(cuts.front().begin, 0);
  EXPECT_EQ(cuts.back().end, 32);
  for (std::size_t i = 1; i < cuts.size(); ++i)
    EXPECT_EQ(cuts[i].begin, cuts[i - 1].end);
}

TEST(Layout, PartitionsCoverTheRangeInWholeGrains) {
  // 100 bytes hold 25 floats, one grain of 16.
  EXPECT_EQ(cut_into_partitions({16, 64}, 100), (std::vector<flat_range>{{16, 32}, {32, 48}, {48, 64}}));
  EXPECT_EQ(cut_into_partitions({16, 64}, 128), (std::vector<flat_range>{{16, 48}, {48, 64}}));
  EXPECT_EQ(cut_into_partitions({16, 64}, 1), (std::vector<flat_range>{{16, 32}, {32, 48}, {48, 64}}));
  EXPECT_TRUE(cut_into_partitions({16, 16}, 128).empty());
}

} // namespace
} // namespace troupe
