// SPDX-License-Identifier: BSD-3-Clause
// Schedules and optimizer steps against numbers worked by hand.
#include "tensor/optimizer.hpp"

#include <cmath>
#include <tuple>

#include <gtest/gtest.h>

#include "tests/kernels/deferred_backend.hpp"
#include "tests/tensor/allocations.hpp"

namespace troupe {
namespace {

TEST(Schedule, ConstantStaysTheSame) {
  optimizer_spec spec{.lr = 0.1};
  EXPECT_DOUBLE_EQ(learning_rate(spec, 0, 4), 0.1);
  EXPECT_DOUBLE_EQ(learning_rate(spec, 90, 4), 0.1);
}

TEST(Schedule, StepDropsAtEachMultiple) {
  optimizer_spec spec{.lr = 0.8, .schedule = "step", .gamma = 0.5, .step_epochs = 10};
  EXPECT_DOUBLE_EQ(learning_rate(spec, 9.99, 1), 0.8);
  EXPECT_DOUBLE_EQ(learning_rate(spec, 10, 1), 0.4);
  EXPECT_DOUBLE_EQ(learning_rate(spec, 25, 1), 0.2);
}

TEST(Schedule, CosineGoesFromPeakToFloor) {
  optimizer_spec spec{.lr = 1, .schedule = "cosine", .min_lr = 0.2, .total_epochs = 8};
  EXPECT_DOUBLE_EQ(learning_rate(spec, 0, 1), 1);
  EXPECT_NEAR(learning_rate(spec, 4, 1), 0.6, 1e-12);                                  // half-way between 1 and 0.2
  EXPECT_NEAR(learning_rate(spec, 2, 1), 0.2 + 0.8 * (1 + std::sqrt(0.5)) / 2, 1e-12); // cos 45 degrees
  EXPECT_NEAR(learning_rate(spec, 8, 1), 0.2, 1e-12);
  EXPECT_NEAR(learning_rate(spec, 100, 1), 0.2, 1e-12);
}

TEST(Schedule, WarmUpRampsFromZero) {
  optimizer_spec spec{.lr = 0.4, .warmup_epochs = 5};
  EXPECT_DOUBLE_EQ(learning_rate(spec, 0, 1), 0);
  EXPECT_DOUBLE_EQ(learning_rate(spec, 1.25, 1), 0.1);
  EXPECT_DOUBLE_EQ(learning_rate(spec, 5, 1), 0.4);
}

TEST(Schedule, LinearScalingRuleRampsFromOneWorkersRate) {
  optimizer_spec spec{.lr = 0.1, .warmup_epochs = 5, .scale_with_workers = true};
  EXPECT_DOUBLE_EQ(learning_rate(spec, 0, 8), 0.1);
  EXPECT_DOUBLE_EQ(learning_rate(spec, 2.5, 8), 0.45); // half-way from 0.1 to 0.8
  EXPECT_DOUBLE_EQ(learning_rate(spec, 5, 8), 0.8);
  spec.warmup_epochs = 0;
  EXPECT_DOUBLE_EQ(learning_rate(spec, 0, 8), 0.8);
}

TEST(Schedule, CosineBeginsAfterTheWarmUp) {
  optimizer_spec spec{.lr = 1, .schedule = "cosine", .total_epochs = 12, .warmup_epochs = 2};
  EXPECT_DOUBLE_EQ(learning_rate(spec, 1, 1), 0.5);
  EXPECT_DOUBLE_EQ(learning_rate(spec, 2, 1), 1);
  EXPECT_NEAR(learning_rate(spec, 7, 1), 0.5, 1e-12);
}

TEST(OptimizerSpec, RefusalsNameTheKeyAndTheValue) {
  auto refusal = [](const optimizer_spec& spec) { return validate(spec) ? "" : validate(spec).error().message; };
  EXPECT_EQ(refusal({}), "");
  EXPECT_EQ(refusal({.name = "adam"}), "name = \"adam\" is unknown; write \"sgd\", \"lars\" or \"adamw\"");
  EXPECT_EQ(refusal({.lr = -1}), "lr = -1 must be above 0");
  EXPECT_EQ(refusal({.lr = std::nan("")}), "lr = nan must be above 0");
  EXPECT_EQ(refusal({.momentum = 1}), "momentum = 1 must be at least 0 and below 1");
  EXPECT_EQ(refusal({.nesterov = true}), "nesterov looks ahead along the momentum, which is 0; write momentum = 0.9");
  EXPECT_EQ(refusal({.schedule = "linear"}), "schedule = \"linear\" is unknown; write \"constant\", \"step\" or \"cosine\"");
  EXPECT_EQ(refusal({.lr = 1, .schedule = "cosine", .min_lr = 2, .total_epochs = 5}),
            "min_lr = 2 is above lr = 1; the cosine falls from lr to min_lr");
  EXPECT_EQ(
      refusal({.schedule = "cosine", .total_epochs = 5, .warmup_epochs = 5}),
      "warmup_epochs = 5 leaves nothing to the cosine, which ends at total_epochs = 5; give fewer, or a larger total_epochs");
  EXPECT_EQ(refusal({.schedule = "cosine", .total_epochs = 5, .warmup_epochs = 4.9}), "");
}

/// One parameter under one optimizer.
class Optimizer : public ::testing::Test {
protected:
  static constexpr std::int64_t count = 16;

  void open(const optimizer_spec& spec, float start) {
    opt = std::make_unique<optimizer>(spec, *queue, count);
    p = queue->allocate(count * 4);
    g = queue->allocate(count * 4);
    h = queue->allocate(count * 4);
    queue->enqueue(kernels::fill{p.as<float>(), start, count});
    queue->enqueue(kernels::fill{g.as<float>(), 0, count});
    queue->enqueue(kernels::fill{h.as<float>(), 0, count});
  }
  float step(float gradient, double lr) {
    queue->enqueue(kernels::fill{g.as<float>(), gradient, count});
    const kernels::term term{g.as<float>(), 1};
    opt->apply({&term, 1}, p.as<float>(), p.as<float>(), lr);
    queue->synchronize();
    return p.as<float>()[0];
  }

  std::unique_ptr<kernels::backend> queue = kernels::open_backend({});
  std::unique_ptr<optimizer> opt;
  kernels::buffer p, g, h;
};

TEST_F(Optimizer, PlainSgd) {
  open({}, 1);
  EXPECT_FLOAT_EQ(step(2, 0.1), 0.8F);
  EXPECT_FLOAT_EQ(step(-1, 0.5), 1.3F);
}

TEST_F(Optimizer, MomentumAccumulates) {
  open({.momentum = 0.5}, 0);
  EXPECT_FLOAT_EQ(step(1, 0.1), -0.1F);         // v = 1
  EXPECT_FLOAT_EQ(step(1, 0.1), -0.1F - 0.15F); // v = 1.5
  EXPECT_FLOAT_EQ(step(0, 0.1), -0.325F);       // v = 0.75
  EXPECT_EQ(opt->steps(), 3);
}

TEST_F(Optimizer, NesterovLooksAhead) {
  open({.momentum = 0.5, .nesterov = true}, 0);
  EXPECT_FLOAT_EQ(step(1, 0.1), -0.15F);          // v = 1, g + 0.5 v = 1.5
  EXPECT_FLOAT_EQ(step(1, 0.1), -0.15F - 0.175F); // v = 1.5, g + 0.5 v = 1.75
}

TEST_F(Optimizer, WeightDecayOfSgdIsPartOfTheGradient) {
  open({.weight_decay = 0.5}, 2);
  EXPECT_FLOAT_EQ(step(1, 0.1), 1.8F); // 2 - 0.1 (1 + 0.5 * 2)
}

TEST_F(Optimizer, AdamWsFirstStepsAreTheirSigns) {
  // Constant gradient: m/c1 = g and v/c2 = g^2 at every step, so each step is lr (1 + decay * p).
  open({.name = "adamw", .weight_decay = 0.1}, 1);
  EXPECT_NEAR(step(3, 0.01), 1 - 0.01 * (1 + 0.1), 1e-6);
  const double second = 0.989 - 0.01 * (1 + 0.0989);
  EXPECT_NEAR(step(3, 0.01), second, 1e-6);
}

TEST_F(Optimizer, TermsAreSummedByWeight) {
  open({}, 1);
  queue->enqueue(kernels::fill{g.as<float>(), 2, count});
  queue->enqueue(kernels::fill{h.as<float>(), 4, count});
  const kernels::term terms[] = {{g.as<float>(), 0.25}, {h.as<float>(), 0.75}};
  opt->apply(terms, p.as<float>(), p.as<float>(), 0.1);
  queue->synchronize();
  EXPECT_FLOAT_EQ(p.as<float>()[0], 1 - 0.1F * 3.5F);
}

TEST_F(Optimizer, ResetForgets) {
  open({.name = "adamw"}, 1);
  const auto first = step(1, 0.1);
  step(-5, 0.1);
  opt->reset();
  EXPECT_EQ(opt->steps(), 0);
  queue->enqueue(kernels::fill{p.as<float>(), 1, count});
  EXPECT_EQ(step(1, 0.1), first);
}

TEST(OptimizerOnAQueue, EachStepReadsItsOwnScalars) {
  // 20 steps are enqueued before the first runs: each must still find the learning rate that it was given.
  tests::deferred_backend queue;
  optimizer opt{{}, queue, 16};
  auto p = queue.allocate(64), g = queue.allocate(64);
  queue.enqueue(kernels::fill{p.as<float>(), 0, 16});
  queue.enqueue(kernels::fill{g.as<float>(), -1, 16});
  const kernels::term term{g.as<float>(), 1};
  for (int step = 1; step <= 20; ++step)
    opt.apply({&term, 1}, p.as<float>(), p.as<float>(), step);
  EXPECT_GT(queue.waiting(), 40U);
  queue.synchronize();
  EXPECT_EQ(p.as<float>()[0], 210); // 1 + 2 + ... + 20
}

TEST(OptimizerOnAQueue, HoweverManyStepsAreAhead) {
  // As many pushes as there are workers, and more, may be applied before a busy device runs the first of them.
  struct counting_queue final : tests::deferred_backend {
    kernels::buffer allocate_host(std::size_t bytes) override {
      ++allocated;
      return deferred_backend::allocate_host(bytes);
    }
    int allocated = 0;
  } queue;
  optimizer opt{{}, queue, 16};
  auto p = queue.allocate(64), g = queue.allocate(64);
  queue.enqueue(kernels::fill{g.as<float>(), -1, 16});
  const kernels::term term{g.as<float>(), 1};
  int after_first = 0;
  for (int time = 1; time <= 4; ++time) {
    queue.enqueue(kernels::fill{p.as<float>(), 0, 16});
    for (int step = 1; step <= 200; ++step) {
      opt.apply({&term, 1}, p.as<float>(), p.as<float>(), step);
      if (step % 7 == 0 && time % 2 == 0) // of some, the oldest runs meanwhile
        queue.run_one();
    }
    queue.synchronize();
    ASSERT_EQ(p.as<float>()[0], 20100) << "time " << time; // 1 + 2 + ... + 200
    if (time == 1)
      after_first = queue.allocated;
  }
  EXPECT_LE(queue.allocated, after_first + 1) << "what has run is used again";
}

TEST_F(Optimizer, StepsAllocateNothing) {
  open({.name = "adamw", .momentum = 0}, 1);
  step(1, 0.1);
  const testing::allocation_count before;
  for (int i = 0; i < 200; ++i) // each block of scalars several times
    step(1, 0.001);
  EXPECT_EQ(before.since(), 0);
}

TEST(OptimizerRanges, EachRangeIsSteppedInItsWay) {
  // One float in each kind of range; a step at rate 0.5 with momentum and decay, from p = 2 with the gradient 0.25 * 4 + 0.75
  // * 4.
  const std::vector<update_range> ranges{{{0, 16}},
                                         {{16, 32}, slot_kind::trained, false},
                                         {{32, 48}, slot_kind::trained, true, 0.1},
                                         {{48, 64}, slot_kind::statistic},
                                         {{64, 80}, slot_kind::frozen}};
  for (const bool in_place : {false, true}) {
    for (const bool whole : {false, true}) {
      const auto queue = kernels::open_backend({});
      optimizer opt{{.lr = 0.5, .momentum = 0.5, .weight_decay = 0.1}, *queue, 80, ranges};
      std::vector<float> p(80, 2.0F), g(80, 4.0F), out(80, -1.0F);
      const std::vector<kernels::term> terms{{g.data(), 0.25}, {g.data(), 0.75}};
      auto* to = in_place ? p.data() : out.data();
      if (whole) {
        opt.apply(terms, p.data(), to, 0.5);
      } else { // ranges of a step may be cut anywhere
        opt.begin_step(0.5);
        for (const auto& [begin, end] : {flat_range{0, 25}, {25, 57}, {57, 80}})
          opt.apply_range(terms, p.data(), to, begin, end);
      }
      for (int i = 0; i < 80; ++i) {
        const float expected[]{2 - 0.5F * 4.2F, 0, 2 - 0.1F * 0.5F * 4.2F, -2, 2};
        EXPECT_FLOAT_EQ(to[i], expected[i / 16]) << i;
      }
      const auto velocity = opt.buffers()[0].second.as<float>();
      EXPECT_FLOAT_EQ(velocity[0], 4.2F);
      EXPECT_FLOAT_EQ(velocity[16], 4.0F);
      EXPECT_EQ(velocity[48], 0.0F) << "a statistic has no momentum";
      EXPECT_EQ(velocity[64], 0.0F);
    }
  }
}

TEST(OptimizerRanges, AMatrixIsSteppedAtARateOfItsOwn) {
  // 16 floats of a matrix, then 16 of a vector. |p| = 8 and |g| = 16: the rate is 0.5 * 8 / (16 + 0.1 * 8).
  const std::vector<update_range> ranges{{{0, 16}, slot_kind::trained, true, 1, true}, {{16, 32}}};
  for (const bool in_place : {false, true}) {
    for (const bool whole : {false, true}) {
      const auto queue = kernels::open_backend({});
      optimizer opt{{.name = "lars", .lr = 0.5, .momentum = 0.5, .weight_decay = 0.1, .trust = 0.5}, *queue, 32, ranges};
      std::vector<float> p(32, 2.0F), g(32, 4.0F), out(32, -1.0F);
      const std::vector<kernels::term> terms{{g.data(), 0.25}, {g.data(), 0.75}};
      const auto step = [&] {
        auto* to = in_place ? p.data() : out.data();
        if (whole) {
          opt.apply(terms, p.data(), to, 0.5);
        } else { // what was stepped already must not count in the norm
          opt.begin_step(0.5);
          for (const auto& [begin, end] : {flat_range{0, 7}, {7, 9}, {9, 32}})
            opt.apply_range(terms, p.data(), to, begin, end);
        }
        if (!in_place)
          p = out;
      };
      step();
      EXPECT_FLOAT_EQ(p[0], 2 - 0.5F * 1.0F); // 4 / 16.8 * (4 + 0.1 * 2)
      EXPECT_FLOAT_EQ(p[15], p[0]);
      EXPECT_FLOAT_EQ(p[16], 2 - 0.5F * 4.2F) << "a vector: as by sgd";
      step(); // |p| = 6: 3 / 16.6 * (4 + 0.1 * 1.5) = 0.75, and half of the step before
      EXPECT_FLOAT_EQ(p[0], 1.5F - 0.5F * 1.25F);
      EXPECT_FLOAT_EQ(p[8], p[0]);
    }
  }
}

TEST(OptimizerRanges, WithoutANormTheLocalRateIsOne) {
  const auto queue = kernels::open_backend({});
  optimizer opt{{.name = "lars", .lr = 0.5},
                *queue,
                32,
                {{{0, 16}, slot_kind::trained, true, 1, true}, {{16, 32}, slot_kind::trained, true, 1, true}}};
  std::vector<float> p(32, 0.0F), g(32, 4.0F);
  std::fill(p.begin() + 16, p.end(), 3.0F);
  std::fill(g.begin() + 16, g.end(), 0.0F);
  opt.apply(std::vector<kernels::term>{{g.data(), 1}}, p.data(), p.data(), 0.5);
  EXPECT_FLOAT_EQ(p[0], -2) << "it begins at zero";
  EXPECT_FLOAT_EQ(p[16], 3);
}

TEST(OptimizerRanges, AStatisticBecomesTheMeanOfThePushesWhateverTheOptimizer) {
  const auto queue = kernels::open_backend({});
  optimizer opt{{.name = "adamw", .lr = 0.5, .weight_decay = 0.1}, *queue, 16, {{{0, 16}, slot_kind::statistic}}};
  // It was 3; two workers of equal weight say 2 and 7.
  std::vector<float> s(16, 3.0F), first(16, 3.0F - 2.0F), second(16, 3.0F - 7.0F);
  opt.apply(std::vector<kernels::term>{{first.data(), 0.5}, {second.data(), 0.5}}, s.data(), s.data(), 1e-3);
  EXPECT_FLOAT_EQ(s[0], 4.5F);
}

parameter_layout named_slots() {
  parameter_layout layout;
  for (const auto& [name, dims, kind] : {std::tuple{"h.0.weight", shape{2, 3}, slot_kind::trained},
                                         {"h.0.bias", shape{2}, slot_kind::trained},
                                         {"bn.running_mean", shape{2}, slot_kind::statistic},
                                         {"h.1.weight", shape{2, 2}, slot_kind::trained}})
    layout.slots.push_back({.name = name, .dims = dims, .offset = layout.floats(), .init = {}, .kind = kind});
  return layout;
}

TEST(ChosenSlots, PatternsFreezeWhatTheyName) {
  auto layout = named_slots();
  ASSERT_TRUE(choose_slots(layout, {.freeze = {"h.0.*"}}));
  std::vector<slot_kind> kinds;
  for (const auto& slot : layout.slots)
    kinds.push_back(slot.kind);
  EXPECT_EQ(kinds, (std::vector{slot_kind::frozen, slot_kind::frozen, slot_kind::statistic, slot_kind::trained}));
}

TEST(ChosenSlots, DecayMayBeOfMatricesAlone) {
  auto layout = named_slots();
  ASSERT_TRUE(choose_slots(layout, {.weight_decay_on = "matrices"}));
  EXPECT_TRUE(layout.slots[0].decay);
  EXPECT_FALSE(layout.slots[1].decay);
  ASSERT_TRUE(choose_slots(layout, {.name = "lars"}));
  EXPECT_TRUE(layout.slots[0].own_rate && !layout.slots[1].own_rate && layout.slots[3].own_rate);
  ASSERT_TRUE(choose_slots(layout, {}));
  EXPECT_FALSE(layout.slots[0].own_rate);
  EXPECT_TRUE(layout.slots[1].decay);
}

TEST(ChosenSlots, TheLastPatternThatNamesAParameterScalesItsRate) {
  auto layout = named_slots();
  ASSERT_TRUE(choose_slots(layout, {.freeze = {"h.1.*"}, .lr_scale = {"*=0.5", "h.*.bias = 1e-1"}}));
  EXPECT_EQ(layout.slots[0].lr_scale, 0.5);
  EXPECT_EQ(layout.slots[1].lr_scale, 0.1);
  EXPECT_EQ(layout.slots[2].lr_scale, 1) << "a statistic has no rate";
  EXPECT_EQ(
      choose_slots(layout, {.lr_scale = {"h.0.* = 2", "h.1.* = 2"}}).error().message,
      "optimizer.lr_scale = \"h.1.* = 2\" is the name of no trained parameter; `check` lists them, and h.0.weight is the first");
  for (const auto* text : {"h.0.*", "h.0.* = 0", "h.0.* = -1", "h.0.* = inf", " = 1", "h.0.* = 1 x", ""})
    EXPECT_FALSE(validate(optimizer_spec{.lr_scale = {text}})) << text;
}

TEST(ChosenSlots, PatternsWithoutAParameterAndWithAllOfThemAreRefused) {
  auto layout = named_slots();
  EXPECT_EQ(choose_slots(layout, {.freeze = {"wte.*"}}).error().message,
            "optimizer.freeze = \"wte.*\" is the name of no parameter; `check` lists them, and h.0.weight is the first");
  EXPECT_EQ(choose_slots(layout, {.freeze = {"h*"}}).error().message,
            "optimizer.freeze leaves no parameter to train; name fewer");
}

} // namespace
} // namespace troupe
