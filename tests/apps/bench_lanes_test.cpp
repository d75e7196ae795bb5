// SPDX-License-Identifier: BSD-3-Clause
// The lane benchmark measures both sides of every size that it is asked for.
#include "apps/bench/lanes.hpp"

#include <gtest/gtest.h>

#include "tests/actors/certificates.hpp"

namespace troupe::actors::net {
namespace {

class LaneBench : public testing::Test {
  void SetUp() override {
#ifdef __SANITIZE_THREAD__
    GTEST_SKIP()
        << "threads of the benchmark take turns by what the other process has received, which ThreadSanitizer cannot see";
#endif
  }
};

TEST_F(LaneBench, EverySizeHasAllFigures) {
  const std::vector<std::size_t> sizes{64, 4096, 8U << 20U};
  const tests::authority signer;
  const auto self = signer.sign("self");
  const auto rows = bench_lanes(
      {.sizes = sizes, .repeats = 1, .bytes_per_trial = 8U << 20U, .files = {signer.certificate(), self.certificate, self.key}});
  ASSERT_EQ(rows.size(), sizes.size());
  for (std::size_t i = 0; i < rows.size(); ++i) {
    EXPECT_EQ(rows[i].bytes, sizes[i]);
    for (const double figure :
         {rows[i].lane_gbps, rows[i].bare_gbps, rows[i].tls_gbps, rows[i].open_gbps, rows[i].shm_gbps, rows[i].shm_rtt_us,
          rows[i].lane_rtt_us, rows[i].bare_rtt_us, rows[i].tls_rtt_us, rows[i].urgent_ms, rows[i].open_urgent_ms})
      EXPECT_GT(figure, 0);
  }
}

TEST_F(LaneBench, WithoutCertificatesThereAreNoFiguresOfTls) {
  const auto rows = bench_lanes({.sizes = {4096}, .repeats = 1, .bytes_per_trial = 1U << 20U});
  EXPECT_GT(rows.at(0).lane_gbps, 0);
  EXPECT_EQ(rows.at(0).tls_gbps, 0);
}

} // namespace
} // namespace troupe::actors::net
