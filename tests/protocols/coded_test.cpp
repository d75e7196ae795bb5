// SPDX-License-Identifier: BSD-3-Clause
// Gradient coding as a protocol: who computes what, when a round closes, with what weights. (The codes: gradient_code_test.cpp.)
#include "protocols/coded.hpp"

#include <algorithm>
#include <bit>
#include <cmath>

#include <gtest/gtest.h>

#include "protocols/round_rule.hpp"
#include "tests/protocols/making.hpp"

namespace troupe::protocols {
namespace {

round_rule coded_rule(coded_options options = {}) {
  return round_rule{[options](const protocol_spec&, std::uint64_t) { return std::make_unique<coded>(options); }};
}

plan plan_of_n(std::uint32_t n, std::int64_t data_size = 1000) {
  plan out = plan_of(1, {}, 10, data_size);
  for (std::uint32_t i = 0; i < n; ++i)
    out.workers.push_back({w(i), {}});
  return out;
}

push coded_push(std::uint32_t worker, std::uint64_t base = 0, std::uint32_t epoch = 1) {
  return {.epoch = e(epoch),
          .id = {w(worker), {}, {10 * epoch + base + 1}},
          .base = v(base),
          .gradient = t(100 * (base + 1) + worker),
          .samples = 20};
}

/// What this worker of n computes of its first batch.
compute asked(std::uint32_t worker, const plan& with, coded_options options = {}, std::uint64_t position = 0) {
  params_worker subject{{w(worker), {}}, [options](const protocol_spec&) { return std::make_unique<coded_task>(options); }};
  subject.on(with);
  return only<compute>(subject.on(params{.epoch = with.epoch, .key = 1, .position = position, .parameters = t(50)}));
}

TEST(Coded, FourWorkersAndOneStragglerAreTwoGroupsOfHalves) {
  // Groups {0, 2} and {1, 3}; of 40 samples each member computes 20, and pushes half of their mean.
  for (std::uint32_t worker = 0; worker < 4; ++worker) {
    const compute sum = asked(worker, plan_of_n(4));
    EXPECT_EQ(sum.batches, 4u);
    EXPECT_EQ(sum.cuts, 2u);
    EXPECT_EQ(sum.parts, (std::vector<compute::part>{{worker / 2, 0.5}}));
    EXPECT_EQ(sum.stream_as, std::nullopt) << "the push is not a gradient as it comes";
  }
}

TEST(Coded, WeightsAreSharesOfWhatTheShortBatchHas) {
  // Workers 0, 2, 4 are a group of thirds, 1 and 3 one of halves. 25 of 50 samples are left: 9, 8, 8 and 13, 12.
  const plan five = plan_of_n(5, 75);
  EXPECT_EQ(asked(0, five, {}, 50).parts, (std::vector<compute::part>{{0, 9.0 / 25}}));
  EXPECT_EQ(asked(2, five, {}, 50).parts, (std::vector<compute::part>{{1, 8.0 / 25}}));
  EXPECT_EQ(asked(4, five, {}, 50).parts, (std::vector<compute::part>{{2, 8.0 / 25}}));
  EXPECT_EQ(asked(1, five, {}, 50).parts, (std::vector<compute::part>{{0, 13.0 / 25}}));
  EXPECT_EQ(asked(3, five, {}, 50).parts, (std::vector<compute::part>{{1, 12.0 / 25}}));
}

TEST(Coded, CyclicPartsAreTheCodesCoefficientsTimesTheirShares) {
  const coded_options cyclic{.scheme = code_scheme::cyclic, .stragglers = 1};
  const gradient_code code = code_of(cyclic, plan_of_n(3));
  const compute sum = asked(1, plan_of_n(3), cyclic);
  ASSERT_EQ(sum.parts.size(), 2u);
  for (std::size_t i = 0; i < 2; ++i) {
    EXPECT_EQ(sum.parts[i].index, code.parts(1)[i].index);
    EXPECT_DOUBLE_EQ(sum.parts[i].weight, code.parts(1)[i].weight / 3);
  }
}

TEST(Coded, WhatIsComputedIsPushed) {
  params_worker subject{{w(1), {}}, [](const protocol_spec&) { return std::make_unique<coded_task>(coded_options{}); }};
  subject.on(plan_of_n(2));
  subject.on(params{.epoch = e(1), .ver = v(3), .key = 1, .parameters = t(50)});
  const push expected{
      .epoch = e(1), .id = {w(1), {}, {1}}, .base = v(3), .gradient = t(9), .samples = 20, .loss = 0.5, .compute = 7};
  EXPECT_EQ(subject.on(computed{.step = 1, .gradient = t(9), .samples = 20, .loss = 0.5, .compute = 7}),
            (worker_effects{send_push{expected}}));
}

/// The weights, by worker, of the round that these pushes close; empty: they do not.
std::map<std::uint32_t, double> closed_by(std::uint32_t n, std::uint32_t s, std::initializer_list<std::uint32_t> workers) {
  round_rule rule = coded_rule({.stragglers = s});
  rule.on(plan_of_n(n));
  std::map<std::uint32_t, double> out;
  for (const std::uint32_t worker : workers) {
    EXPECT_TRUE(out.empty()) << "closed before worker " << worker;
    for (const apply& made : all<apply>(rule.on(coded_push(worker))))
      for (const term& part : made.sum)
        out[static_cast<std::uint32_t>(part.tensor.value) - 100] = part.weight;
  }
  return out;
}

using weights = std::map<std::uint32_t, double>;

TEST(Coded, RoundClosesWithTheFirstPushesThatHoldTheWholeBatch) {
  EXPECT_EQ(closed_by(4, 1, {0, 1}), weights{}) << "both hold the first half";
  EXPECT_EQ(closed_by(4, 1, {0, 2}), (weights{{0, 1}, {2, 1}}));
  EXPECT_EQ(closed_by(4, 1, {0, 3}), (weights{{0, 1}, {3, 1}})) << "groups of one size stand in for each other";
  EXPECT_EQ(closed_by(4, 1, {1, 0, 2}), (weights{{0, 1}, {2, 1}})) << "of two with the same half the first by rank";
  EXPECT_EQ(closed_by(2, 1, {1}), (weights{{1, 1}}));
}

TEST(Coded, OneOfThreeGroupsIsEnough) {
  // Six workers, s = 2: groups {0, 3}, {1, 4}, {2, 5}; 0, 1 and 2 hold the first half.
  EXPECT_EQ(closed_by(6, 2, {2, 1, 0}), weights{});
  EXPECT_EQ(closed_by(6, 2, {2, 1, 0, 5}), (weights{{0, 1}, {5, 1}}));
  EXPECT_EQ(closed_by(3, 2, {1}), (weights{{1, 1}})) << "everybody holds everything";
  // Five workers, s = 1: groups {0, 2, 4} of thirds and {1, 3} of halves, which do not add up across.
  EXPECT_EQ(closed_by(5, 1, {0, 1, 2}), weights{});
  EXPECT_EQ(closed_by(5, 1, {0, 1, 2, 3}), (weights{{1, 1}, {3, 1}}));
  EXPECT_EQ(closed_by(5, 1, {0, 1, 2, 4}), (weights{{0, 1}, {2, 1}, {4, 1}}));
}

/// A job of n workers in which each push is known by how much of each sample's gradient it holds.
class samples_of_a_round {
public:
  samples_of_a_round(const plan& with, coded_options options, std::uint64_t position) {
    const std::uint64_t samples = with.after(position) - position;
    for (std::uint32_t worker = 0; worker < with.workers.size(); ++worker) {
      std::vector<double> held(samples);
      const compute sum = asked(worker, with, options, position);
      for (const compute::part& part : sum.parts) {
        std::uint64_t begin = 0;
        for (std::uint32_t cut = 0; cut < part.index; ++cut)
          begin += static_cast<std::uint64_t>(plan::cut_size(samples, sum.cuts, cut));
        const auto size = static_cast<std::uint64_t>(plan::cut_size(samples, sum.cuts, part.index));
        for (std::uint64_t i = begin; i < begin + size; ++i)
          held[i] += part.weight / static_cast<double>(size);
      }
      pushes_.push_back(std::move(held));
    }
  }

  bool empty(std::uint32_t worker) const {
    return std::ranges::all_of(pushes_[worker], [](double each) { return each == 0; });
  }

  /// How far the sum is from the mean gradient: the largest distance of a sample's coefficient from 1 / samples, times samples.
  double error(const std::vector<term>& sum) const {
    const std::size_t samples = pushes_.front().size();
    double worst = 0;
    for (std::size_t i = 0; i < samples; ++i) {
      double coefficient = 0;
      for (const term& part : sum)
        coefficient += part.weight * pushes_[part.tensor.value - 100][i];
      worst = std::max(worst, std::abs(coefficient * static_cast<double>(samples) - 1));
    }
    return worst;
  }

private:
  std::vector<std::vector<double>> pushes_;
};

/// The largest error of a first round over every set of at least n - s workers whose pushes come in it.
double worst_error(const plan& with, coded_options options) {
  const auto n = static_cast<std::uint32_t>(with.workers.size());
  const samples_of_a_round round{with, options, 0};
  double worst = 0;
  for (std::uint32_t present = 1; present < 1U << n; ++present) {
    if (static_cast<std::uint32_t>(std::popcount(present)) + options.stragglers < n)
      continue;
    round_rule rule = coded_rule(options);
    rule.on(with);
    std::vector<apply> made;
    for (std::uint32_t worker = 0; worker < n && made.empty(); ++worker)
      if ((present >> worker & 1) != 0) {
        push next = coded_push(worker);
        next.samples = round.empty(worker) ? 0 : 20;
        made = all<apply>(rule.on(next));
      }
    worst = std::max(worst, made.empty() ? HUGE_VAL : round.error(made.front().sum));
  }
  return worst;
}

TEST(Coded, EverySetOfStragglersLeavesTheMeanGradientOfTheWholeBatch) {
  for (std::uint32_t n = 1; n <= 6; ++n)
    for (std::uint32_t s = 0; s < n; ++s)
      EXPECT_LT(worst_error(plan_of_n(n), {.stragglers = s}), 1e-12) << n << " workers, s = " << s;
  for (const std::uint32_t s : {1u, 2u})
    EXPECT_LT(worst_error(plan_of_n(5), {.scheme = code_scheme::cyclic, .stragglers = s}), 1e-9) << "cyclic, s = " << s;
}

TEST(Coded, ShortBatchOfAFewSamplesIsDecodedToo) {
  // Four samples: of six workers some have empty cuts and push nothing.
  EXPECT_LT(worst_error(plan_of_n(6, 4), {}), 1e-12);
  EXPECT_LT(worst_error(plan_of_n(5, 4), {.scheme = code_scheme::cyclic}), 1e-9);
}

TEST(Coded, RoundUsesAllItsSamplesWhoeverPushed) {
  round_rule rule = coded_rule();
  rule.on(plan_of_n(4, 70));
  rule.on(coded_push(0));
  EXPECT_EQ(only<apply>(rule.on(coded_push(2))).samples, 40);
  rule.on(coded_push(0, 1));
  EXPECT_EQ(only<apply>(rule.on(coded_push(2, 1))).samples, 30) << "the epoch's end";
}

TEST(Coded, PushThatIsNotFiniteIsAStragglers) {
  round_rule rule = coded_rule();
  rule.on(plan_of_n(4));
  push wild = coded_push(0);
  wild.finite = false;
  rule.on(wild);
  EXPECT_EQ(count<apply>(rule.on(coded_push(2))), 0u) << "of the first half only worker 1's is left";
  EXPECT_EQ(only<apply>(rule.on(coded_push(1))).sum, (std::vector<term>{{t(101), 1}, {t(102), 1}}));
}

TEST(Coded, FullRoundThatCannotBeDecodedMakesAVersionWithoutAStep) {
  round_rule rule = coded_rule();
  rule.on(plan_of_n(4));
  for (const std::uint32_t worker : {0u, 1u}) {
    push wild = coded_push(worker);
    wild.finite = false;
    rule.on(wild);
  }
  rule.on(coded_push(2));
  const rule_effects closed = rule.on(coded_push(3));
  EXPECT_EQ(only<apply>(closed), (apply{.ver = v(1), .epoch = e(1), .workers = 4}));
  EXPECT_EQ(count<discard>(closed), 2u) << "what cannot be used";
}

TEST(Coded, WhatTheDecodingDoesNotNeedIsDiscarded) {
  round_rule rule = coded_rule();
  rule.on(plan_of_n(4));
  rule.on(coded_push(0));
  rule.on(coded_push(1));
  const rule_effects closed = rule.on(coded_push(3));
  EXPECT_EQ(only<apply>(closed).sum, (std::vector<term>{{t(100), 1}, {t(103), 1}}));
  EXPECT_EQ(only<discard>(closed).tensor, t(101));
}

TEST(Coded, ResidualIsReported) {
  round_rule rule = coded_rule({.scheme = code_scheme::cyclic, .stragglers = 2});
  rule.on(plan_of_n(5));
  rule.on(coded_push(0));
  rule.on(coded_push(1));
  const report made = only<report>(rule.on(coded_push(4)));
  EXPECT_GT(made.residual, 0);
  EXPECT_LT(made.residual, 1e-11);
}

TEST(Coded, AsManyDeathsAsStragglersLeaveTheRoundOpen) {
  round_rule rule = coded_rule();
  rule.on(plan_of_n(4));
  rule.on(coded_push(0));
  EXPECT_EQ(rule.on(worker_down{w(2), {}}), rule_effects{});
  EXPECT_EQ(only<apply>(rule.on(coded_push(3))).sum, (std::vector<term>{{t(100), 1}, {t(103), 1}}));
}

TEST(Coded, RoundThatDeathsMadeUndecodableBeginsAnewWithACodeForThoseLeft) {
  round_rule rule = coded_rule();
  rule.on(plan_of_n(4));
  rule.on(coded_push(0));
  rule.on(worker_down{w(2), {}});
  const rule_effects lost = rule.on(worker_down{w(3), {}});
  EXPECT_EQ(only<discard>(lost).tensor, t(100)) << "nobody holds the second half";
  EXPECT_EQ(count<apply>(lost), 0u);
  EXPECT_EQ(only<send_params>(rule.on(plan_of(2, {0, 1}))),
            (send_params{.to = {w(0)}, .ver = v(0), .epoch = e(2), .position = 0, .period = 1}));
  // Two workers and one straggler: each computes the whole batch.
  EXPECT_EQ(asked(1, plan_of(2, {0, 1})).parts, (std::vector<compute::part>{{0, 1}}));
  EXPECT_EQ(only<apply>(rule.on(coded_push(0, 0, 2))).sum, (std::vector<term>{{t(100), 1}}));
}

TEST(Coded, JoinerGetsACodeInTheNextRoundWithItsPlan) {
  round_rule rule = coded_rule();
  rule.on(plan_of(1, {0, 1}));
  rule.on(plan_of(2, {0, 1, 2, 3}));
  EXPECT_EQ(count<apply>(rule.on(coded_push(1))), 1u) << "by the code of two";
  rule.on(coded_push(1, 1, 2));
  EXPECT_EQ(count<apply>(rule.on(coded_push(0, 1, 2))), 0u) << "by the code of four both hold the first half";
  EXPECT_EQ(count<apply>(rule.on(coded_push(3, 1, 2))), 1u);
}

TEST(Coded, WhatCountsIsTheRankNotTheName) {
  const plan with = plan_of(1, {3, 4, 6, 9});
  round_rule rule = coded_rule();
  rule.on(with);
  rule.on(coded_push(3));
  EXPECT_EQ(count<apply>(rule.on(coded_push(4))), 0u) << "both hold the first half";
  EXPECT_EQ(only<apply>(rule.on(coded_push(6))).sum, (std::vector<term>{{t(103), 1}, {t(106), 1}}));
  EXPECT_EQ(asked(9, with).parts, (std::vector<compute::part>{{1, 0.5}}));
}

TEST(Coded, WorkerUsesTheCodeOfThePlanItsParametersBelongTo) {
  params_worker subject{{w(1), {}}, [](const protocol_spec&) { return std::make_unique<coded_task>(coded_options{}); }};
  subject.on(plan_of(1, {0, 1}));
  subject.on(plan_of(2, {0, 1, 2, 3}));
  EXPECT_EQ(only<compute>(subject.on(params{.epoch = e(1), .key = 1, .parameters = t(50)})).parts,
            (std::vector<compute::part>{{0, 1}}));
  subject.on(computed{.step = 1});
  EXPECT_EQ(only<compute>(subject.on(params{.epoch = e(2), .key = 2, .parameters = t(51)})).parts,
            (std::vector<compute::part>{{0, 0.5}}));
}

TEST(Coded, WithFewerWorkersThanItBearsItBearsFewer) {
  EXPECT_EQ(closed_by(1, 3, {0}), (weights{{0, 1}}));
  EXPECT_EQ(closed_by(3, 7, {2}), (weights{{2, 1}}));
}

TEST(Coded, CyclicCodeThatAMembershipConditionsTooBadlyGivesWayToGroups) {
  const coded_options cyclic{.scheme = code_scheme::cyclic, .stragglers = 3};
  ASSERT_FALSE(gradient_code::validate({.scheme = code_scheme::cyclic, .workers = 31, .stragglers = 3, .seed = 1}).empty());
  EXPECT_EQ(code_of(cyclic, plan_of_n(31)).amplification(), 1);
  EXPECT_GT(code_of(cyclic, plan_of_n(8)).amplification(), 1);
}

} // namespace
} // namespace troupe::protocols
