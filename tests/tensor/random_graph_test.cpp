// SPDX-License-Identifier: BSD-3-Clause
// What holds for every graph: gradients are those of central differences, and a plan computes what the interpreter does, on a
// queue that runs later and from a recording too.
#include "tests/tensor/random_graph.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "tests/kernels/deferred_backend.hpp"
#include "tests/tensor/central_differences.hpp"
#include "tests/tensor/rig.hpp"

namespace troupe {
namespace {

using testing::random_model;
using testing::rig;

TEST(RandomGraphs, GradientsEqualCentralDifferences) {
  const auto seed = testing::seed_or(20250301);
  std::mt19937 random{seed};
  for (int round = 0; round < 100 && !::testing::Test::HasFailure(); ++round) {
    SCOPED_TRACE(fmt::format("TROUPE_TEST_SEED={} round {}", seed, round));
    const auto m = random_model(random);
    const rig r{m, {.max_rows = 2}};
    testing::expect_gradients(m.forward(), m.loss(), m.layout(), r.plain_inputs(2, true), 4, true);
  }
}

TEST(RandomGraphs, PlansEqualTheInterpreter) {
  const auto seed = testing::seed_or(20250302);
  std::mt19937 random{seed};
  for (int round = 0; round < 200 && !::testing::Test::HasFailure(); ++round) {
    SCOPED_TRACE(fmt::format("TROUPE_TEST_SEED={} round {}", seed, round));
    rig r{random_model(random), {.max_rows = 4}};
    for (const std::int64_t rows : {4, 1})
      testing::expect_step_equals_interpreter(r, rows, {.part = 1e-3, .least = 2e-2});
    const auto all = testing::interpret(r.source.forward(), r.plain_inputs(3, false));
    EXPECT_NEAR(r.evaluate(3).loss_sum, testing::sum_of(all[static_cast<std::size_t>(r.source.loss())]), 1e-3);
  }
}

TEST(RandomGraphs, BitsAreThoseOfAQueueThatRunsLaterAndOfARecording) {
  const auto seed = testing::seed_or(20250303);
  std::mt19937 random{seed};
  for (int round = 0; round < 100 && !::testing::Test::HasFailure(); ++round) {
    SCOPED_TRACE(fmt::format("TROUPE_TEST_SEED={} round {}", seed, round));
    const auto m = random_model(random);
    rig now{m, {.max_rows = 3}};
    rig later{m, {.max_rows = 3}, std::make_unique<tests::deferred_backend>()};
    rig recorded{m, {.max_rows = 3, .capture = true}, std::make_unique<tests::deferred_backend>()};
    for (const std::int64_t rows : {3, 2, 3}) {
      const auto expected = now.step(rows).loss_sum;
      EXPECT_EQ(later.step(rows).loss_sum, expected);
      EXPECT_EQ(recorded.step(rows).loss_sum, expected);
      EXPECT_EQ(later.flat_gradients(), now.flat_gradients());
      EXPECT_EQ(recorded.flat_gradients(), now.flat_gradients());
    }
  }
}

} // namespace
} // namespace troupe
