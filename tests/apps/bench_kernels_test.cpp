// SPDX-License-Identifier: BSD-3-Clause
// The benchmark runs and reports what it promises; what it measures is nobody's business here.
#include "apps/bench/kernels.hpp"

#include <set>

#include <gtest/gtest.h>

namespace troupe::kernels {

namespace {

TEST(Bench, ReportsEveryRowOnce) {
  auto cpu = open_backend({});
  const auto rows = bench_kernels(*cpu, {.elements = 5000, .rounds = 1, .round_seconds = 0});
  std::set<std::string> names;
  for (const auto& row : rows) {
    EXPECT_TRUE(names.insert(row.op + " " + row.shape).second) << row.op << " " << row.shape;
    EXPECT_GT(row.gflops + row.gbps, 0) << row.op;
    EXPECT_GT(row.reference_ratio, 0) << row.op;
  }
  EXPECT_GE(rows.size(), 20U);
}

} // namespace

} // namespace troupe::kernels
