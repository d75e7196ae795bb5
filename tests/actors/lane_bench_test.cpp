// SPDX-License-Identifier: BSD-3-Clause
// The lane benchmark measures both sides of every size that it is asked for.
#include "actors/net/bench_lanes.hpp"

#include <gtest/gtest.h>

namespace troupe::actors::net {
namespace {

TEST(LaneBench, EverySizeHasAllFourFigures) {
  const std::vector<std::size_t> sizes{64, 4096, 8U << 20U};
  const auto rows = bench_lanes({.sizes = sizes, .repeats = 1, .bytes_per_trial = 8U << 20U});
  ASSERT_EQ(rows.size(), sizes.size());
  for (std::size_t i = 0; i < rows.size(); ++i) {
    EXPECT_EQ(rows[i].bytes, sizes[i]);
    for (const double figure : {rows[i].lane_gbps, rows[i].bare_gbps, rows[i].lane_rtt_us, rows[i].bare_rtt_us})
      EXPECT_GT(figure, 0);
  }
}

} // namespace
} // namespace troupe::actors::net
