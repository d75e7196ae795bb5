// SPDX-License-Identifier: BSD-3-Clause
// A step's forward that begins while its parameters are still coming: it reads none that are not there, and no result depends on
// it.
#include <algorithm>
#include <cstring>
#include <limits>
#include <random>

#include <gtest/gtest.h>

#include "tensor/plan.hpp"
#include "tests/kernels/deferred_backend.hpp"
#include "tests/tensor/allocations.hpp"
#include "tests/tensor/example_models.hpp"
#include "tests/tensor/rig.hpp"

namespace troupe {
namespace {

using testing::rig;

constexpr float no_value = std::numeric_limits<float>::quiet_NaN();

/// What is there of a rig's parameters; the rest is NaN.
class arriving {
public:
  explicit arriving(rig& of) : of_(of), values_(of.parameters.as<float>(), of.parameters.as<float>() + floats()) {
    std::fill_n(of.parameters.as<float>(), floats(), no_value);
  }
  std::int64_t floats() const { return of_.source.layout().floats(); }
  /// Slot i, up to where the next one begins.
  void comes(std::size_t i) {
    const auto& slots = of_.source.layout().slots;
    const flat_range where{slots[i].offset, i + 1 < slots.size() ? slots[i + 1].offset : floats()};
    std::copy(values_.begin() + where.begin, values_.begin() + where.end, of_.parameters.as<float>() + where.begin);
    there.insert(std::ranges::upper_bound(there, where.begin, {}, &flat_range::begin), where);
    for (std::size_t next = 1; next < there.size();)
      if (there[next - 1].end == there[next].begin) {
        there[next - 1].end = there[next].end;
        there.erase(there.begin() + static_cast<std::ptrdiff_t>(next));
      } else {
        ++next;
      }
  }
  std::vector<flat_range> there;

private:
  rig& of_;
  std::vector<float> values_;
};

void expect_same_step(rig& found, rig& expected) {
  const auto &one = found.compiled->outcome(), &other = expected.compiled->outcome();
  EXPECT_EQ(one.loss_sum, other.loss_sum);
  EXPECT_EQ(one.correct, other.correct);
  EXPECT_EQ(one.rows, other.rows);
  EXPECT_TRUE(one.finite);
  EXPECT_EQ(std::memcmp(found.gradients.data(), expected.gradients.data(), found.gradients.bytes()), 0);
  EXPECT_EQ(found.ready, expected.ready);
}

class StepsAhead : public ::testing::TestWithParam<testing::example_model> {};

TEST_P(StepsAhead, HaveTheBitsOfAWholeStepInWhateverOrderParametersCome) {
  const auto m = model::build(GetParam().spec, GetParam().data).value();
  std::mt19937 random{7};
  for (int draw = 0; draw < 5; ++draw) {
    const plan::options how{.max_rows = 4, .piece_rows = draw == 4 ? 2 : 0};
    rig whole{m, how}, ahead{m, how};
    whole.step(4);
    ahead.step(4);
    ahead.ready.clear();
    ahead.steps_done = 0;
    std::vector<std::size_t> order(m.layout().slots.size());
    for (std::size_t i = 0; i < order.size(); ++i)
      order[i] = i;
    if (draw > 0) // the first time as lanes send them
      std::ranges::shuffle(order, random);
    arriving parameters{ahead};
    ahead.compiled->enqueue_ahead(ahead.args(4), parameters.there);
    for (const auto slot : order) {
      parameters.comes(slot);
      ahead.compiled->enqueue_ahead(ahead.args(4), parameters.there);
    }
    EXPECT_TRUE(ahead.ready.empty());
    EXPECT_EQ(ahead.steps_done, 0);
    ahead.compiled->enqueue_step(ahead.args(4));
    EXPECT_EQ(ahead.steps_done, 1);
    for (auto* each : {&ahead, &whole})
      std::ranges::sort(each->ready); // statistics are reported later than otherwise
    expect_same_step(ahead, whole);
  }
}

INSTANTIATE_TEST_SUITE_P(Examples, StepsAhead, ::testing::ValuesIn(testing::example_models()),
                         [](const auto& info) { return info.param.name; });

class StepAhead : public ::testing::Test {
protected:
  const std::vector<std::string> layers{"linear 16", "tanh", "linear 8", "tanh", "linear 3"};
  const model m = model::build({.layers = layers}, {{5}, 3}).value();
  rig whole{m, {.max_rows = 4}};
  rig ahead{m, {.max_rows = 4}};
  std::vector<flat_range> first_layer() const { return {{0, m.layout().slots[2].offset}}; }
  void lose_first_layer() { std::fill_n(ahead.parameters.as<float>(), m.layout().slots[2].offset, no_value); }
};

TEST_F(StepAhead, DoesNotReadAgainWhatItHasUsed) {
  ahead.compiled->enqueue_ahead(ahead.args(4), first_layer());
  lose_first_layer(); // backward needs it for the gradient of the input alone
  ahead.compiled->enqueue_step(ahead.args(4));
  whole.step(4);
  expect_same_step(ahead, whole);
}

TEST_F(StepAhead, IsForgottenOnceItIsDone) {
  ahead.compiled->enqueue_ahead(ahead.args(4), first_layer());
  ahead.compiled->enqueue_step(ahead.args(4));
  lose_first_layer();
  ahead.compiled->enqueue_step(ahead.args(4));
  EXPECT_FALSE(ahead.compiled->outcome().finite);
}

TEST_F(StepAhead, IsForgottenForAnotherStep) {
  const auto other = ahead.queue->allocate(ahead.parameters.bytes());
  const auto batch = ahead.queue->allocate_host(ahead.x.bytes());
  std::memcpy(other.data(), ahead.parameters.data(), other.bytes());
  std::memcpy(batch.data(), ahead.x.data(), batch.bytes());
  const auto reads_anew = [&](const char* what, auto change) {
    ahead.compiled->enqueue_ahead(ahead.args(4), first_layer());
    auto args = ahead.args(4);
    change(args);
    const std::vector<float> kept(other.as<float>(), other.as<float>() + m.layout().floats());
    std::fill_n((args.parameters == other.as<float>() ? other : ahead.parameters).as<float>(), 5 * 16, no_value);
    ahead.compiled->enqueue_step(args);
    EXPECT_FALSE(ahead.compiled->outcome().finite) << what;
    std::ranges::copy(kept, other.as<float>());
    std::ranges::copy(kept, ahead.parameters.as<float>());
  };
  reads_anew("parameters", [&](step_args& args) { args.parameters = other.as<float>(); });
  reads_anew("batch", [&](step_args& args) { args.x = batch.data(); });
  reads_anew("rows", [&](step_args& args) { args.rows = 3, args.counted.reset(); });
  reads_anew("seed", [&](step_args& args) { ++args.key.seed; });
  reads_anew("evaluation between", [&](step_args&) {
    ahead.compiled->enqueue_evaluation(ahead.args(4));
    EXPECT_TRUE(ahead.compiled->outcome().finite);
  });
}

TEST_F(StepAhead, LeavesGradientsAlone) {
  constexpr float kept = 7;
  std::fill_n(ahead.gradients.as<float>(), m.layout().floats(), kept);
  ahead.compiled->enqueue_ahead(ahead.args(4), std::vector<flat_range>{{0, m.layout().floats()}});
  for (const auto& slot : m.layout().slots)
    EXPECT_EQ(
        std::count(ahead.gradients.as<float>() + slot.offset, ahead.gradients.as<float>() + slot.offset + slot.elements(), kept),
        slot.elements())
        << slot.name;
}

TEST_F(StepAhead, DoesNothingForLaterPartsOnADeviceOrWithoutTraining) {
  rig parts{m, {.max_rows = 4, .accumulate = true}};
  auto later = parts.args(4);
  later.accumulate = true;
  std::fill_n(parts.gradients.as<float>(), m.layout().floats(), 1.0F);
  parts.compiled->enqueue_ahead(later, first_layer());
  EXPECT_EQ(parts.flat_gradients(), std::vector<float>(static_cast<std::size_t>(m.layout().floats()), 1)) << "between slots, too";
  std::fill_n(parts.parameters.as<float>(), 5 * 16, no_value);
  parts.compiled->enqueue_step(later);
  EXPECT_FALSE(parts.compiled->outcome().finite);
  rig device{m, {.max_rows = 4, .capture = true}, std::make_unique<tests::deferred_backend>()};
  rig evaluates{m, {.max_rows = 4, .training = false}};
  for (auto* each : {&device, &evaluates}) {
    each->compiled->enqueue_ahead(each->args(4), first_layer());
    std::fill_n(each->parameters.as<float>(), 5 * 16, no_value);
    each != &evaluates ? each->step(4) : each->evaluate(4);
    EXPECT_FALSE(each->compiled->outcome().finite);
  }
}

TEST_F(StepAhead, AllocatesNoMoreThanAStep) {
  const auto there = first_layer();
  auto args = ahead.args(4);
  args.gradient_ready = nullptr;
  args.done = nullptr;
  ahead.compiled->enqueue_step(args);
  const testing::allocation_count before;
  ahead.compiled->enqueue_step(args);
  const auto of_a_step = before.since();
  const testing::allocation_count between;
  ahead.compiled->enqueue_ahead(args, there);
  ahead.compiled->enqueue_step(args);
  EXPECT_EQ(between.since(), of_a_step);
}

} // namespace
} // namespace troupe
