// SPDX-License-Identifier: BSD-3-Clause
// The benchmark's models and options; its figures are for people.
#include "apps/bench/training.hpp"

#include <gtest/gtest.h>

namespace troupe {
namespace {

TEST(StepBench, ModelsAreThoseOfThePeers) {
  auto mlp = find_bench_model("mlp").value();
  EXPECT_EQ(mlp.batch, 128);
  auto built = model::build(mlp.spec, mlp.data).value();
  EXPECT_EQ(built.layout().slots[2].dims, (shape{1024, 1024}));
  auto cnn = find_bench_model("cnn").value();
  EXPECT_EQ(cnn.batch, 64);
  EXPECT_EQ(model::build(cnn.spec, cnn.data).value().layout().slots[4].dims, (shape{128, 64 * 12 * 12}));
}

TEST(StepBench, EveryModelCanBeBuilt) {
  for (const std::string name : {"mlp", "cnn", "mnist-cnn", "wide"}) {
    const auto entry = find_bench_model(name).value();
    EXPECT_TRUE(model::build(entry.spec, entry.data)) << name;
  }
}

TEST(StepBench, UnknownModelAndEmptyBatchAreRefused) {
  auto queue = kernels::open_backend({});
  EXPECT_EQ(direct_step_bench::open(*queue, {.model = "lstm"}).error().code, errc::bad_option);
  EXPECT_EQ(direct_step_bench::open(*queue, {.batch = -1}).error().code, errc::bad_option);
}

TEST(StepBench, CountsWhatItTrains) {
  auto queue = kernels::open_backend({});
  for (const bool prepared : {false, true}) {
    auto bench = direct_step_bench::open(*queue, {.model = "mlp", .batch = 8, .prepared = prepared});
    ASSERT_TRUE(bench);
    EXPECT_EQ((*bench)->batch(), 8);
    EXPECT_GT((*bench)->measure(0), 0);
  }
}

} // namespace
} // namespace troupe
