// SPDX-License-Identifier: BSD-3-Clause
// Steps of shards and of workers' replicas over parameters that are trained, frozen, or statistics.
#include <algorithm>
#include <cmath>
#include <memory>
#include <vector>

#include <gtest/gtest.h>

#include "actors/roles/gradient_norm.hpp"
#include "actors/roles/holder/shard_step.hpp"
#include "actors/roles/worker/replica.hpp"

namespace troupe::actors {
namespace {

using values = std::vector<float>;
constexpr std::int64_t part = 16, count = 3 * part;

/// A trained slot, a statistic, a frozen one.
std::vector<update_range> three() {
  return {{{0, part}, slot_kind::trained}, {{part, 2 * part}, slot_kind::statistic}, {{2 * part, count}, slot_kind::frozen}};
}

class Steps : public ::testing::Test {
protected:
  kernels::buffer filled(float value) const {
    auto made = queue->allocate(count * sizeof(float));
    std::fill_n(made.as<float>(), count, value);
    return made;
  }
  /// The first element of each slot; the others are the same.
  static values of(const kernels::buffer& block) {
    const auto* x = block.as<const float>();
    for (std::int64_t i = 0; i < count; ++i)
      EXPECT_EQ(x[i], x[i / part * part]) << i;
    return {x[0], x[part], x[2 * part]};
  }
  values step(shard_step& steps, const protocols::step_rule& how, float p, float gradient) const {
    const auto from = filled(p), g = filled(gradient), to = filled(-1);
    protocols::close round{};
    round.step = how;
    steps.begin(round);
    steps.apply({{g.as<const float>(), 1}}, round, from.as<const float>(), to.as<float>(), {0, count});
    return of(to);
  }

  std::shared_ptr<kernels::backend> queue = kernels::open_backend({});
};

TEST_F(Steps, AShardMovesStatisticsByThemselvesAndLeavesWhatIsFrozen) {
  using kind = protocols::step_rule::kind;
  shard_step steps{{.lr = 0.5, .momentum = 0.5, .weight_decay = 1}, *queue, count, 1, three()};
  EXPECT_EQ(step(steps, {.method = kind::optimizer}, 2, 0.25F), (values{2 - 0.5F * 2.25F, 1.75F, 2}));
  shard_step outer{{.lr = 0.5}, *queue, count, 1, three()};
  EXPECT_EQ(step(outer, {.method = kind::outer, .lr = 0.5, .momentum = 0.5}, 2, 0.25F), (values{1.875F, 1.75F, 2}));
  shard_step linear{{.lr = 0.5}, *queue, count, 1, three()};
  EXPECT_EQ(step(linear, {.method = kind::linear, .parameter_weight = 0.5}, 2, 0.25F), (values{1.25F, 1.25F, 2}));
}

TEST_F(Steps, APushThatIsAppliedAloneMovesAStatisticByItsPartOfARound) {
  shard_step steps{{.lr = 1}, *queue, count, 1, three()};
  EXPECT_EQ(step(steps, {.method = protocols::step_rule::kind::optimizer, .lr_scale = 0.25}, 2, 0.5F),
            (values{1.875F, 1.875F, 2}));
}

TEST_F(Steps, OnlyGradientsAreCompensated) {
  shard_step steps{{.lr = 1}, *queue, count, 1, three()};
  const auto g = filled(2), now = filled(5), backup = filled(4);
  // g + lambda g g (w - w_backup)
  const protocols::close round{.compensate = {.lambda = 0.5}};
  EXPECT_EQ(of(steps.compensated(g.as<const float>(), now.as<const float>(), backup.as<const float>(), round)),
            (values{4, 2, 2}));
}

TEST_F(Steps, ACopyOfAShardTakesTheStepThatTheShardTakes) {
  using kind = protocols::step_rule::kind;
  const std::vector<optimizer_spec> specs{{.lr = 0.5, .momentum = 0.5}, {.name = "adamw", .lr = 0.5}};
  for (const auto& spec : specs)
    for (const protocols::step_rule& how : {protocols::step_rule{.method = kind::optimizer},
                                            {.method = kind::outer, .lr = 0.5, .momentum = 0.5, .nesterov = true},
                                            {.method = kind::linear, .parameter_weight = 0.5}}) {
      SCOPED_TRACE(spec.name + " " + std::to_string(static_cast<int>(how.method)));
      shard_step first{spec, *queue, count, 1, three()}, copy{spec, *queue, count, 1, three()};
      for (const float gradient : {0.25F, 0.75F})
        step(first, how, 2, gradient);
      copy.take(first.memory());
      const auto from = first.buffers(), to = copy.buffers();
      ASSERT_EQ(from.size(), to.size());
      for (std::size_t i = 0; i < from.size(); ++i) {
        EXPECT_EQ(from[i].first, to[i].first);
        std::ranges::copy(from[i].second.span<const float>(), to[i].second.span<float>().begin());
      }
      EXPECT_EQ(step(first, how, 2, 0.5F), step(copy, how, 2, 0.5F));
    }
}

/// Of a gradient of `part` equal elements, where only these are trained.
protocols::squared_norm squares_of_all(float element, double clip_norm) {
  const values gradient(count, element);
  return squares_of(gradient.data(), three(), clip_norm);
}

TEST_F(Steps, OnlyWhatIsTrainedIsMeasured) {
  EXPECT_NEAR(squares_of_all(3, 2).norm(), 4 * 3 / 2.0, 1e-12) << "16 elements";
  EXPECT_EQ(squares_of_all(3, 0), protocols::squared_norm{});
}

TEST_F(Steps, ASumIsMeasuredAlikeHoweverItIsCut) {
  values gradient(part * 1000);
  for (std::size_t i = 0; i < gradient.size(); ++i)
    gradient[i] = static_cast<float>(std::sin(static_cast<double>(i)) * std::exp(static_cast<double>(i % 40) - 20));
  const auto measured = [&](std::int64_t begin, std::int64_t end) {
    return squares_of(gradient.data() + begin * part, {{{0, (end - begin) * part}}}, 0.7);
  };
  double expected = 0;
  for (const float each : gradient)
    expected += static_cast<double>(each) * each;
  EXPECT_NEAR(measured(0, 1000).norm() * 0.7 / std::sqrt(expected), 1, 1e-12);
  for (const std::int64_t cut : {1, 333, 999}) {
    auto sum = measured(0, cut);
    sum += measured(cut, 1000);
    EXPECT_EQ(sum, measured(0, 1000)) << cut;
  }
}

TEST_F(Steps, AShardClipsGradientsAndNoStatistics) {
  shard_step steps{{.lr = 1, .clip_norm = 2}, *queue, count, 1, three()};
  // A norm of 12 is brought to 2: each 3 to 0.5.
  const auto made = step(steps, {.method = protocols::step_rule::kind::optimizer, .squares = squares_of_all(3, 2)}, 4, 3);
  EXPECT_NEAR(made[0], 3.5, 1e-6);
  EXPECT_EQ(made[1], 1);
  EXPECT_EQ(made[2], 4);
}

TEST_F(Steps, ADelayedGradientIsClippedBeforeItIsCompensatedAndNotAgain) {
  shard_step steps{{.lr = 1, .clip_norm = 2}, *queue, count, 1, three()};
  const auto g = filled(3), now = filled(5), backup = filled(3), to = filled(-1);
  const protocols::close round{.step = {.squares = squares_of_all(3, 2)}, .compensate = {.lambda = 1}};
  const auto compensated = steps.compensated(g.as<const float>(), now.as<const float>(), backup.as<const float>(), round);
  EXPECT_NEAR(of(compensated)[0], 0.5 + 0.5 * 0.5 * 2, 1e-6);
  EXPECT_EQ(of(compensated)[1], 3);
  steps.begin(round);
  steps.apply({{compensated.as<const float>(), 1}}, round, now.as<const float>(), to.as<float>(), {0, count});
  EXPECT_NEAR(of(to)[0], 5 - 1, 1e-6);
}

TEST_F(Steps, AReplicaClipsTheGradientAndNotWhatIsAddedToIt) {
  for (const double momentum : {-1.0, 0.5}) {
    replica own{*queue, {.lr = 1, .clip_norm = 2}, count, nullptr, three()};
    own.mix({{replica_term::source::given, filled(4), 1}});
    const local_update how{.anchor = filled(3), .proximal = 1, .momentum = momentum, .lr = 1, .squares = squares_of_all(3, 2)};
    own.parameters_for(how);
    own.step(filled(3), how);
    EXPECT_NEAR(of(own.parameters())[0], 4 - (0.5 + (4 - 3)), 1e-6) << momentum;
  }
}

TEST_F(Steps, AReplicaDoesTheSame) {
  replica own{*queue, {.lr = 0.5, .weight_decay = 1}, count, nullptr, three()};
  own.mix({{replica_term::source::given, filled(2), 1}});
  own.step(filled(0.25F), {.anchor = {}, .lr = 0.5});
  EXPECT_EQ(of(own.parameters()), (values{2 - 0.5F * 2.25F, 1.75F, 2}));
}

TEST_F(Steps, AReplicaWithAMomentumOfItsOwnLooksAheadAlongWhatIsTrained) {
  replica own{*queue, {.lr = 0.5, .weight_decay = 1}, count, nullptr, three()};
  own.mix({{replica_term::source::given, filled(2), 1}});
  const local_update how{.anchor = {}, .momentum = 0.5, .lr = 0.5};
  EXPECT_EQ(of(own.parameters_for(how)), (values{2, 2, 2}));
  own.step(filled(0.25F), how); // v = -1.125
  EXPECT_EQ(of(own.parameters()), (values{0.875F, 1.75F, 2}));
  EXPECT_EQ(of(own.parameters_for(how)), (values{0.875F - 0.5625F, 1.75F, 2}));
}

TEST_F(Steps, AMeanOfReplicasLeavesWhatIsFrozen) {
  replica own{*queue, {.lr = 0.5}, count, nullptr, three()};
  own.mix({{replica_term::source::given, filled(2), 1}});
  own.mix({{replica_term::source::own, {}, 0.75}, {replica_term::source::given, filled(4), 0.25}});
  EXPECT_EQ(of(own.parameters()), (values{2.5F, 2.5F, 2}));
}

} // namespace
} // namespace troupe::actors
