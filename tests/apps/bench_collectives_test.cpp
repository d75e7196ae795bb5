// SPDX-License-Identifier: BSD-3-Clause
// The collectives' benchmark sums among real processes by every schedule, and measures each.
#include "apps/bench/collectives.hpp"

#include <stdexcept>

#include <gtest/gtest.h>

namespace troupe::actors::net {
namespace {

using protocols::collective::algorithm;

class CollectiveBench : public testing::Test {
  void SetUp() override {
#ifdef __SANITIZE_THREAD__
    GTEST_SKIP() << "processes take turns by a barrier in shared memory, which ThreadSanitizer cannot see";
#endif
  }
};

/// It fails by itself if an element of a sum is wrong. 65,600 numbers: no number of ranks divides them into equal segments, and
/// the largest lie in partitions of their own.
TEST_F(CollectiveBench, EverySumIsMadeByEveryAlgorithm) {
  for (const std::uint32_t procs : {2U, 3U, 5U}) {
    const std::vector<std::size_t> sizes{64, 4096, 262'400};
    const auto rows = bench_collectives({.procs = procs, .sizes = sizes, .bytes_per_trial = 0});
    ASSERT_EQ(rows.size(), 4 * sizes.size());
    for (std::size_t i = 0; i < rows.size(); ++i) {
      EXPECT_EQ(rows[i].bytes, sizes[i / 4]);
      EXPECT_EQ(rows[i].which, static_cast<algorithm>(i % 4));
      EXPECT_GT(rows[i].us, 0);
      EXPECT_GT(rows[i].bare_us, 0);
    }
  }
}

TEST_F(CollectiveBench, BusBandwidthIsOfTheBytesThatMustBeSent) {
  const collective_row row{.which = algorithm::ring, .bytes = 4'000'000, .us = 3000, .bare_us = 1500, .procs = 4};
  EXPECT_DOUBLE_EQ(row.bus_gbps(), 2); // 1.5 times 4 MB in 3 ms
  EXPECT_DOUBLE_EQ(row.bare_gbps(), 4);
}

TEST_F(CollectiveBench, AProcessThatCannotBeStartedIsNamed) {
  try {
    bench_collectives({.sizes = {64}, .bytes_per_trial = 0, .congestion = "none-such"});
    FAIL() << "there is no such congestion control";
  } catch (const std::runtime_error& e) {
    EXPECT_NE(std::string(e.what()).find("none-such"), std::string::npos) << e.what();
  }
}

TEST_F(CollectiveBench, ASumHasTwoToSixteenProcesses) {
  EXPECT_THROW(bench_collectives({.procs = 1}), std::runtime_error);
  EXPECT_THROW(bench_collectives({.procs = 17}), std::runtime_error);
}

} // namespace
} // namespace troupe::actors::net
