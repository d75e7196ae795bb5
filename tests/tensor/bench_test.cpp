// SPDX-License-Identifier: BSD-3-Clause
// The benchmark's models and options; its figures are for people.
#include "tensor/bench.hpp"

#include <gtest/gtest.h>

namespace troupe {
namespace {

TEST(StepBench, ModelsAreThoseOfThePeers) {
  auto mlp = find_bench_model("mlp").value();
  EXPECT_EQ(mlp.batch, 128);
  auto built = model::build(mlp.spec, mlp.sample, mlp.classes).value();
  EXPECT_EQ(built.layout().slots[2].dims, (shape{1024, 1024}));
  auto cnn = find_bench_model("cnn").value();
  EXPECT_EQ(cnn.batch, 64);
  EXPECT_EQ(model::build(cnn.spec, cnn.sample, cnn.classes).value().layout().slots[4].dims, (shape{128, 64 * 12 * 12}));
}

TEST(StepBench, UnknownModelAndEmptyBatchAreRefused) {
  auto queue = kernels::open_backend({});
  EXPECT_EQ(bench_direct_step(*queue, {.model = "lstm"}).error().code, errc::bad_option);
  EXPECT_EQ(bench_direct_step(*queue, {.batch = -1}).error().code, errc::bad_option);
}

TEST(StepBench, CountsWhatItTrains) {
  auto queue = kernels::open_backend({});
  auto rate = bench_direct_step(*queue, {.model = "mlp", .batch = 8, .rounds = 1, .seconds_per_round = 0});
  ASSERT_TRUE(rate);
  EXPECT_EQ(rate->batch, 8);
}

} // namespace
} // namespace troupe
