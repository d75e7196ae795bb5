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
  for (const std::string& name : bench_models()) {
    const auto entry = find_bench_model(name).value();
    EXPECT_TRUE(model::build(entry.spec, entry.data)) << name;
  }
}

TEST(StepBench, ModelsOfTextsHaveTheParametersOfThePeers) {
  const auto parameters = [](const char* name) {
    const auto entry = find_bench_model(name).value();
    const auto built = model::build(entry.spec, entry.data).value();
    std::int64_t count = 0;
    for (const parameter_slot& slot : built.layout().slots)
      count += slot.dims.elements();
    return count;
  };
  const auto block = 4 * 128 + (3 * 128 + 128 + 512 + 512) * 128 + 3 * 128 + 128 + 512 + 128;
  EXPECT_EQ(parameters("transformer"), 65 * 128 + 128 * 128 + 4 * block + 2 * 128 + 128 * 65 + 65);
  EXPECT_EQ(parameters("gpt2"), 124439808 - (1024 - 64) * 768); // it knows 1024 places, this one 64
}

TEST(StepBench, UnknownModelAndEmptyBatchAreRefused) {
  auto queue = kernels::open_backend({});
  EXPECT_EQ(direct_step_bench::open(*queue, {.model = "vgg"}).error().code, errc::bad_option);
  EXPECT_EQ(direct_step_bench::open(*queue, {.batch = -1}).error().code, errc::bad_option);
}

TEST(StepBench, CountsWhatItTrains) {
  auto queue = kernels::open_backend({});
  for (const char* model : {"mlp", "lstm"})
    for (const bool prepared : {false, true}) {
      auto bench = direct_step_bench::open(*queue, {.model = model, .batch = 8, .prepared = prepared});
      ASSERT_TRUE(bench);
      EXPECT_EQ((*bench)->batch(), 8);
      EXPECT_GT((*bench)->measure(0), 0);
    }
}

} // namespace
} // namespace troupe
