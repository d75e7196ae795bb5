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

TEST(Layout, ShardsBeginBetweenBlocksOfACodec) {
  EXPECT_EQ(cut_into_shards(1616, 3, 256), (std::vector<flat_range>{{0, 512}, {512, 1024}, {1024, 1616}}));
  EXPECT_EQ(cut_into_shards(160, 3, 512), (std::vector<flat_range>{{0, 0}, {0, 0}, {0, 160}}));
}

TEST(Layout, MoreShardsThanGrainsLeavesSomeEmpty) {
  auto cuts = cut_into_shards(32, 4);
  ASSERT_EQ(cuts.size(), 4U);
  EXPECT_EQ(cuts.front().begin, 0);
  EXPECT_EQ(cuts.back().end, 32);
  for (std::size_t i = 1; i < cuts.size(); ++i)
    EXPECT_EQ(cuts[i].begin, cuts[i - 1].end);
}

TEST(Layout, UpdateRangesAreCutWhereSlotsAreSteppedOtherwise) {
  parameter_layout layout;
  const auto add = [&layout](std::int64_t elements, slot_kind kind, bool decay = true, double lr_scale = 1) {
    layout.slots.push_back({.name = "w",
                            .dims = {elements},
                            .offset = layout.floats(),
                            .init = {},
                            .kind = kind,
                            .decay = decay,
                            .lr_scale = lr_scale});
  };
  add(20, slot_kind::trained); // 0 to 32
  add(16, slot_kind::trained); // to 48
  add(3, slot_kind::trained, false);
  add(16, slot_kind::statistic, false, 7); // 64 to 80; decay and rate do not matter
  add(16, slot_kind::statistic);
  add(5, slot_kind::trained, true, 0.5); // 96 to 112
  EXPECT_EQ(update_ranges(layout, {0, 112}), (std::vector<update_range>{{{0, 48}},
                                                                        {{48, 64}, slot_kind::trained, false},
                                                                        {{64, 96}, slot_kind::statistic},
                                                                        {{96, 112}, slot_kind::trained, true, 0.5}}));
  EXPECT_EQ(update_ranges(layout, {32, 80}),
            (std::vector<update_range>{{{0, 16}}, {{16, 32}, slot_kind::trained, false}, {{32, 48}, slot_kind::statistic}}));
}

TEST(Layout, WhatHasARateOfItsOwnIsARangeOfItsOwn) {
  parameter_layout layout;
  for (const bool own_rate : {true, true, false, false, true})
    layout.slots.push_back({.name = "w", .dims = {16}, .offset = layout.floats(), .init = {}, .own_rate = own_rate});
  EXPECT_EQ(update_ranges(layout, {0, 80}), (std::vector<update_range>{{{0, 16}, slot_kind::trained, true, 1, true},
                                                                       {{16, 32}, slot_kind::trained, true, 1, true},
                                                                       {{32, 64}},
                                                                       {{64, 80}, slot_kind::trained, true, 1, true}}));
}

TEST(Layout, PartitionsCoverTheRangeInWholeGrains) {
  // 100 bytes hold 25 floats, one grain of 16.
  EXPECT_EQ(cut_into_partitions({16, 64}, 100), (std::vector<flat_range>{{16, 32}, {32, 48}, {48, 64}}));
  EXPECT_EQ(cut_into_partitions({16, 64}, 128), (std::vector<flat_range>{{16, 48}, {48, 64}}));
  EXPECT_EQ(cut_into_partitions({16, 64}, 1), (std::vector<flat_range>{{16, 32}, {32, 48}, {48, 64}}));
  EXPECT_TRUE(cut_into_partitions({16, 16}, 128).empty());
}

TEST(FlatRanges, OneMoreIsJoinedToThoseItTouches) {
  const auto joined = [](std::vector<flat_range> ranges, flat_range next) {
    join(ranges, next);
    return ranges;
  };
  using ranges = std::vector<flat_range>;
  EXPECT_EQ(joined({}, {16, 32}), (ranges{{16, 32}}));
  EXPECT_EQ(joined({{16, 32}}, {48, 64}), (ranges{{16, 32}, {48, 64}}));
  EXPECT_EQ(joined({{16, 32}}, {0, 8}), (ranges{{0, 8}, {16, 32}}));
  EXPECT_EQ(joined({{16, 32}}, {32, 48}), (ranges{{16, 48}}));
  EXPECT_EQ(joined({{16, 32}}, {0, 16}), (ranges{{0, 32}}));
  EXPECT_EQ(joined({{0, 16}, {32, 48}, {64, 80}}, {16, 32}), (ranges{{0, 48}, {64, 80}}));
}

} // namespace
} // namespace troupe
