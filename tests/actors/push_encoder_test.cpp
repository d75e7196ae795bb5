// SPDX-License-Identifier: BSD-3-Clause
// What a worker's codes lose: kept, added to the next push, and given back where a push comes to nothing.
#include "actors/roles/codec/push_encoder.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <random>
#include <vector>

#include <gtest/gtest.h>

#include "kernels/codec.hpp"

namespace troupe::actors {
namespace {

constexpr std::int64_t floats = 2000;

kernels::buffer bytes_of(std::size_t bytes) {
  auto block = std::make_shared<std::vector<float>>((bytes + 3) / sizeof(float), std::numeric_limits<float>::quiet_NaN());
  return {block, block->data(), bytes};
}
job job_of(const std::string& codec, bool feedback) {
  job out;
  out.seed = 7;
  out.codec.push = codec;
  out.codec.error_feedback = feedback;
  out.codec.density = 0.05;
  out.codec.threshold = 0.0078125;
  return out;
}
push_encoder encoder_of(const std::string& codec, bool feedback, std::uint32_t worker = 1) {
  return {job_of(codec, feedback), {worker}, floats, bytes_of};
}
protocols::push push_of(std::uint64_t clock, bool finite = true) {
  return {.id = {{1}, {0}, {clock}}, .base = {100 + clock}, .finite = finite};
}
std::vector<float> drawn(std::uint32_t seed, float most = 1) {
  std::mt19937 dice(seed);
  std::vector<float> out(floats);
  for (float& each : out)
    each = most * (static_cast<float>(dice() >> 8U) * 0x1p-23F - 1);
  return out;
}
void encode_all(push_encoder& by, std::uint64_t clock, const std::vector<float>& values, std::int64_t partition = floats) {
  for (const auto part : cut_into_partitions({0, floats}, partition * 4))
    by.encode(push_of(clock), part,
              std::span{values}.subspan(static_cast<std::size_t>(part.begin), static_cast<std::size_t>(part.size())));
}
std::vector<float> sent_by(const push_encoder& by) {
  const auto all = by.decoded();
  return {all.as<float>(), all.as<float>() + floats};
}
std::vector<float> residual_of(const push_encoder& by) {
  return {by.residual().begin(), by.residual().end()};
}

/// Pushes that came to nothing took nothing along.
TEST(PushEncoder, WhatWasSentAndTheResidualAddUpToAllGradientsWhateverIsDropped) {
  for (const char* form : {"fp16", "bf16", "int8", "int4", "onebit", "topk", "threshold", "dgc"})
    for (std::uint32_t seed = 0; seed < 5; ++seed) {
      auto by = encoder_of(form, true);
      std::mt19937 dice(seed);
      std::vector<double> given(floats), sent(floats);
      for (std::uint64_t clock = 1; clock <= 60; ++clock) {
        const auto gradient = drawn(1000 * seed + static_cast<std::uint32_t>(clock), 0.01F);
        encode_all(by, clock, gradient, 512);
        const auto found = sent_by(by);
        const auto fate = dice() % 4;
        if (fate == 0)
          continue; // never sent
        by.settle(push_of(clock, fate != 1));
        for (std::size_t i = 0; fate != 1 && i < floats; ++i) {
          given[i] += gradient[i];
          sent[i] += found[i];
        }
      }
      encode_all(by, 61, drawn(1), 512); // the last one may not have been settled
      by.settle(push_of(61, false));
      for (std::size_t i = 0; i < floats; ++i)
        ASSERT_NEAR(sent[i] + by.residual()[i], given[i], 1e-5) << form << ", seed " << seed;
    }
}

/// A worker of job_of(): what it makes of a few elements alone, by hand.
TEST(PushEncoder, TopkSendsTheLargestOfWhatHasAddedUp) {
  auto what = job_of("topk", true);
  what.codec.density = 0.125; // two of sixteen
  push_encoder by(what, {1}, 16, bytes_of);
  std::vector<float> g(16);
  g[1] = 4, g[2] = -3, g[7] = 2;
  by.encode(push_of(1), {0, 16}, g);
  by.settle(push_of(1));
  EXPECT_EQ(by.residual()[7], 2) << "the third largest stays";
  EXPECT_EQ(by.residual()[1], 0);
  std::ranges::fill(g, 0.0F);
  g[7] = 1, g[3] = 0.5F, g[4] = -1;
  by.encode(push_of(2), {0, 16}, g);
  const auto sent = by.decoded();
  EXPECT_EQ(sent.as<float>()[7], 3) << "both together";
  EXPECT_EQ(sent.as<float>()[4], -1);
  EXPECT_EQ(sent.as<float>()[3], 0);
}

TEST(PushEncoder, OfABudgetABlockTravelsWholeInTurnAndOfTheOthersTheLargest) {
  constexpr std::int64_t block = 4096, many = 5 * block + 100; // the last one is short
  push_encoder by{job_of("topk", true), {1}, many, bytes_of};
  std::mt19937 dice(3);
  std::vector<float> values(many);
  for (float& each : values)
    each = std::ldexp(static_cast<float>(dice() % 255 + 1), -10); // bf16 has them
  const std::vector<float> none(many);
  for (std::uint64_t clock = 1; clock <= 4; ++clock) {
    const auto& gradient = clock == 1 ? values : none;
    const std::vector<float> before = clock == 1 ? values : std::vector<float>(by.residual().begin(), by.residual().end());
    by.allow({.share = 0.125, .turn = clock, .turns = 4});
    for (const flat_range part : {flat_range{0, 2 * block}, {2 * block, many}})
      by.encode(push_of(clock), part,
                std::span{gradient}.subspan(static_cast<std::size_t>(part.begin), static_cast<std::size_t>(part.size())));
    const auto sent = by.decoded();
    for (std::int64_t b = 0; b < 6; ++b) {
      const auto length = static_cast<std::size_t>(std::min(block, many - b * block));
      const auto of = [&](std::span<const float> all) { return all.subspan(static_cast<std::size_t>(b * block), length); };
      const auto now = of(sent.span<const float>());
      const bool whole = (static_cast<std::uint64_t>(b) + clock) % 4 == 0;
      EXPECT_EQ(std::ranges::equal(now, of(before)), whole || std::ranges::count(of(before), 0.0F) == std::ranges::ssize(now));
      if (clock == 1 && !whole) {
        EXPECT_EQ(std::ranges::count_if(now, [](float x) { return x != 0; }), std::llround(0.125 * static_cast<double>(length)));
        const float least = std::ranges::min(now, {}, [](float x) { return x == 0 ? 2 : x; });
        EXPECT_LE(std::ranges::max(of(by.residual())), least);
      }
    }
    by.settle(push_of(clock));
  }
  EXPECT_EQ(std::ranges::count(by.residual(), 0.0F), many) << "after so many pushes nothing waits";
}

TEST(PushEncoder, TellsTheBytesOfItsNewestPush) {
  auto by = encoder_of("topk", true);
  EXPECT_EQ(by.bytes(), 0U);
  const auto values = drawn(1);
  encode_all(by, 1, values, 512);
  std::uint64_t bytes = 0;
  for (const auto part : cut_into_partitions({0, floats}, 512 * 4))
    bytes += by.encode(push_of(1), part,
                       std::span{values}.subspan(static_cast<std::size_t>(part.begin), static_cast<std::size_t>(part.size())))
                 .bytes();
  EXPECT_EQ(by.bytes(), bytes);
}

TEST(PushEncoder, ThresholdSendsOneStepAtATime) {
  auto what = job_of("threshold", true);
  what.codec.threshold = 0.5;
  push_encoder by(what, {1}, 16, bytes_of);
  std::vector<float> g(16);
  g[0] = 1.25F, g[1] = -0.5F, g[2] = 0.375F;
  by.encode(push_of(1), {0, 16}, g);
  const auto sent = by.decoded();
  EXPECT_EQ(std::vector(sent.as<float>(), sent.as<float>() + 3), (std::vector{0.5F, -0.5F, 0.0F}));
  EXPECT_EQ(std::vector(by.residual().begin(), by.residual().begin() + 3), (std::vector{0.75F, 0.0F, 0.375F}));
}

/// Lin et al. 2018, algorithm 4, two steps of it: one of sixteen, momentum 1/2.
TEST(PushEncoder, DgcAddsUpVelocitiesAndStopsThoseThatAreSent) {
  auto what = job_of("dgc", true);
  what.codec.density = 1.0 / 16;
  what.optimizer.momentum = 0.5;
  push_encoder by(what, {1}, 16, bytes_of);
  std::vector<float> g(16);
  g[0] = 4, g[1] = 2;
  by.encode(push_of(1), {0, 16}, g); // u = v = (4, 2): 4 is sent
  by.settle(push_of(1));
  EXPECT_EQ(by.residual()[0], 0);
  EXPECT_EQ(by.residual()[1], 2);
  std::ranges::fill(g, 0.0F);
  by.encode(push_of(2), {0, 16}, g); // u = (0, 1), v = (0, 3)
  by.settle(push_of(2));
  auto sent = by.decoded();
  EXPECT_EQ(sent.as<float>()[0], 0) << "its velocity was stopped";
  EXPECT_EQ(sent.as<float>()[1], 3);
  g[2] = 1;
  by.encode(push_of(3), {0, 16}, g); // u = (0, 0, 1): the second was stopped, too
  sent = by.decoded();
  EXPECT_EQ(std::vector(sent.as<float>(), sent.as<float>() + 3), (std::vector{0.0F, 0.0F, 1.0F}));
}

/// Four workers: the norm of each gradient is at most 10 / 2.
TEST(PushEncoder, DgcClipsEachGradientByTheNumberOfWorkers) {
  auto what = job_of("dgc", true);
  what.codec.density = 1;
  what.codec.clip = 10;
  what.cluster.workers = 4;
  push_encoder by(what, {1}, 16, bytes_of);
  std::vector<float> g(16);
  g[3] = 30, g[5] = -40;
  ASSERT_TRUE(by.clips());
  by.measure(g);
  by.encode(push_of(1), {0, 16}, g);
  auto sent = by.decoded();
  EXPECT_EQ(sent.as<float>()[3], 3);
  EXPECT_EQ(sent.as<float>()[5], -4);
  g[3] = 3, g[5] = 0;
  by.measure(g);
  by.encode(push_of(2), {0, 16}, g);
  sent = by.decoded();
  EXPECT_EQ(sent.as<float>()[3], 3) << "a short one is as it was";
}

/// A matrix of 24 x 40 from place 16 on, and a bias behind it; three rows made its gradient.
struct product {
  product() {
    std::mt19937 dice(9);
    std::ranges::generate(copied.span<float>(), [&dice] { return static_cast<float>(dice() >> 8U) * 0x1p-23F - 1; });
    for (std::size_t row = 0; row < 24; ++row)
      for (std::size_t column = 0; column < 40; ++column)
        for (std::size_t i = 0; i < 3; ++i)
          gradient[16 + row * 40 + column] += copied.as<float>()[i * 24 + row] * copied.as<float>()[4 * 24 + i * 40 + column];
    std::ranges::fill(gradient.begin() + 16 + 960, gradient.end(), 0.25F);
  }
  push_encoder encoder() const { return {job_of("factors", false), {1}, 1040, bytes_of, slots}; }
  std::span<const float> at(flat_range part) const {
    return std::span{gradient}.subspan(static_cast<std::size_t>(part.begin), static_cast<std::size_t>(part.size()));
  }
  factored_slots slots{{.where = {16, 976}, .m = 24, .n = 40, .left = 0, .right = 4 * 24}}; // of four rows at most
  kernels::buffer copied = bytes_of(4 * (24 + 40) * sizeof(float));
  std::vector<float> gradient = std::vector<float>(1040);
};

TEST(PushEncoder, AMatrixTravelsAsItsFactorsAndTheRestAsItIs) {
  const product of;
  auto by = of.encoder();
  const auto head_at = [&by](flat_range part) {
    return by.head_of(protocols::wire::push_part{{0}, {1}, push_of(1).id, {part.begin, part.end}});
  };
  for (const flat_range part : {flat_range{0, 16}, {16, 976}, {976, 1040}})
    by.encode(push_of(1), part, of.at(part), {of.copied, 3});
  EXPECT_EQ(head_at({0, 16}).as, kernels::form::fp32);
  EXPECT_EQ(head_at({16, 976}).as, kernels::form::factors);
  EXPECT_EQ(head_at({16, 976}).bytes, 16U + 4 * 3 * (24 + 40));
  EXPECT_EQ(head_at({976, 1040}).bytes, 0U);
  const auto sent = by.decoded();
  for (std::size_t i = 0; i < of.gradient.size(); ++i)
    ASSERT_NEAR(sent.as<float>()[i], of.gradient[i], 1e-5) << i;
  EXPECT_EQ(sent.as<float>()[1000], 0.25F);
  by.settle(push_of(1));
  by.encode(push_of(2), {16, 976}, of.at({16, 976})); // of a step in several parts
  EXPECT_EQ(head_at({16, 976}).as, kernels::form::fp32);
  EXPECT_TRUE(std::ranges::equal(by.decoded().slice(64, 960 * 4).span<const float>(), of.at({16, 976})));
}

TEST(PushEncoder, WhatShardsCutOffAMatrixIsTheSameWhetherItsFactorsPayOrNot) {
  const product of;
  auto whole = of.encoder(), cut = of.encoder();
  whole.encode(push_of(1), {16, 976}, of.at({16, 976}), {of.copied, 3});
  std::size_t plain = 0;
  for (const flat_range part : {flat_range{16, 96}, {96, 112}, {112, 976}}) {
    cut.encode(push_of(1), part, of.at(part), {of.copied, 3});
    plain += cut.head_of(protocols::wire::push_part{{0}, {1}, push_of(1).id, {part.begin, part.end}}).as == kernels::form::fp32
                 ? 1
                 : 0;
  }
  EXPECT_EQ(plain, 2U) << "one row or two";
  EXPECT_TRUE(std::ranges::equal(whole.decoded().slice(64, 960 * 4).span<const float>(),
                                 cut.decoded().slice(64, 960 * 4).span<const float>()));
}

TEST(PushEncoder, TheDensityComesDownInStages) {
  codec_spec codec{.push = "dgc", .density = 0.01, .warmup_steps = 3};
  std::vector<double> found;
  for (const std::uint64_t version : {0, 2, 3, 6, 8, 9, 11, 12, 1'000'000})
    found.push_back(codec.density_at(version));
  EXPECT_EQ(found, (std::vector{0.25, 0.25, 0.0625, 0.015625, 0.015625, 0.01, 0.01, 0.01, 0.01})) << "0.004 is below it";
  codec.warmup_steps = 0;
  EXPECT_EQ(codec.density_at(0), 0.01);
}

TEST(PushEncoder, APushThatIsNotFiniteLeavesVelocitiesAsTheyWere) {
  auto what = job_of("dgc", true);
  what.optimizer.momentum = 0.9;
  push_encoder one(what, {1}, floats, bytes_of), other(what, {1}, floats, bytes_of);
  for (auto* each : {&one, &other}) {
    encode_all(*each, 1, drawn(1));
    each->settle(push_of(1));
  }
  auto bad = drawn(2);
  bad[1900] = std::numeric_limits<float>::infinity();
  encode_all(one, 2, bad, 512);
  one.settle(push_of(2, false));
  for (auto* each : {&one, &other})
    encode_all(*each, 3, drawn(3));
  EXPECT_EQ(sent_by(one), sent_by(other));
  EXPECT_EQ(residual_of(one), residual_of(other));
}

TEST(PushEncoder, APushThatIsNotFiniteLeavesAllResidualsAsTheyWere) {
  auto by = encoder_of("onebit", true);
  encode_all(by, 1, drawn(1));
  by.settle(push_of(1));
  const auto before = residual_of(by);
  auto bad = drawn(2);
  bad[1900] = std::numeric_limits<float>::quiet_NaN();
  encode_all(by, 2, bad, 512);
  EXPECT_NE(residual_of(by), before) << "a partition may leave before the bad one is known";
  by.settle(push_of(2, false));
  EXPECT_EQ(residual_of(by), before);
  encode_all(by, 3, drawn(3));
  EXPECT_TRUE(std::ranges::all_of(sent_by(by), [](float x) { return std::isfinite(x); }));
}

/// Its round has begun again under another plan, and nobody used the first one.
TEST(PushEncoder, APushWhoseVersionIsAnsweredAgainIsTakenBack) {
  for (const char* form : {"onebit", "topk", "dgc"}) {
    auto by = encoder_of(form, true);
    encode_all(by, 1, drawn(1));
    by.settle(push_of(1));
    const auto before = residual_of(by);
    const auto answer = [&by](std::uint64_t clock) {
      auto push = push_of(clock);
      push.base = {50};
      by.encode(push, {0, floats}, drawn(2));
      by.settle(push);
      return sent_by(by);
    };
    const auto sent = answer(2);
    const auto after = residual_of(by);
    ASSERT_NE(before, after);
    EXPECT_EQ(answer(3), sent) << form;
    EXPECT_EQ(residual_of(by), after) << form;
  }
}

TEST(PushEncoder, ARangeThatIsAskedForAgainIsTheSameCodes) {
  auto by = encoder_of("onebit", true);
  const auto values = drawn(4);
  const auto first = by.encode(push_of(1), {0, floats}, values);
  const auto residual = residual_of(by);
  EXPECT_EQ(by.encode(push_of(1), {0, floats}, values), first);
  EXPECT_EQ(residual_of(by), residual);
}

/// As with one shard or three, and partitions of any size.
TEST(PushEncoder, CutsBetweenBlocksChangeNoNumber) {
  for (const char* form : {"fp16", "bf16", "int8", "int4", "onebit", "threshold"}) {
    auto whole = encoder_of(form, true), cut = encoder_of(form, true);
    for (std::uint64_t clock = 1; clock <= 3; ++clock) {
      const auto values = drawn(static_cast<std::uint32_t>(clock));
      encode_all(whole, clock, values);
      encode_all(cut, clock, values, 512);
      EXPECT_EQ(sent_by(whole), sent_by(cut)) << form;
      for (auto* each : {&whole, &cut})
        each->settle(push_of(clock));
    }
    EXPECT_EQ(residual_of(whole), residual_of(cut)) << form;
  }
}

TEST(PushEncoder, EachWorkerAndPushRoundsByNumbersOfItsOwn) {
  auto one = encoder_of("int4", false, 1), again = encoder_of("int4", false, 1), other = encoder_of("int4", false, 2);
  const auto values = drawn(5);
  for (auto* each : {&one, &again, &other})
    encode_all(*each, 1, values);
  EXPECT_EQ(sent_by(one), sent_by(again));
  EXPECT_NE(sent_by(one), sent_by(other));
  encode_all(again, 2, values);
  EXPECT_NE(sent_by(one), sent_by(again));
}

/// A run that goes on from a checkpoint counts its pushes anew, but not its versions.
TEST(PushEncoder, ARunThatGoesOnRoundsByTheSameNumbers) {
  const auto values = drawn(6);
  auto unbroken = encoder_of("int8", false), resumed = encoder_of("int8", false);
  for (std::uint64_t clock = 1; clock <= 3; ++clock)
    encode_all(unbroken, clock, values);
  auto first = push_of(3);
  first.id.clock = {1};
  resumed.encode(first, {0, floats}, values);
  EXPECT_EQ(sent_by(resumed), sent_by(unbroken));
}

saved_state saved(named_buffers blocks) {
  return {.blocks = std::move(blocks)};
}

TEST(PushEncoder, OneThatGoesOnWithWhatAnotherKeptPushesTheSame) {
  for (const char* form : {"fp16", "bf16", "int8", "int4", "onebit", "topk", "threshold", "dgc"})
    for (const bool feedback : {true, false}) {
      auto unbroken = encoder_of(form, feedback), resumed = encoder_of(form, feedback);
      for (std::uint64_t clock = 1; clock <= 20; ++clock) {
        encode_all(unbroken, clock, drawn(static_cast<std::uint32_t>(clock), 0.01F), 512);
        unbroken.settle(push_of(clock));
      }
      resumed.resume(saved(unbroken.kept()));
      EXPECT_EQ(residual_of(resumed), residual_of(unbroken));
      for (std::uint64_t clock = 21; clock <= 25; ++clock) {
        for (auto* each : {&unbroken, &resumed}) {
          encode_all(*each, clock, drawn(static_cast<std::uint32_t>(clock), 0.01F), 512);
          each->settle(push_of(clock));
        }
        EXPECT_EQ(sent_by(resumed), sent_by(unbroken)) << form << ", push " << clock;
        EXPECT_EQ(residual_of(resumed), residual_of(unbroken)) << form << ", push " << clock;
      }
    }
}

TEST(PushEncoder, OfAPushThatIsNotSettledNothingIsKept) {
  for (const char* form : {"onebit", "dgc"}) {
    auto by = encoder_of(form, true), other = encoder_of(form, true);
    encode_all(by, 1, drawn(1));
    by.settle(push_of(1));
    const auto before = by.kept();
    const auto next = drawn(2);
    by.encode(push_of(2), {0, 512}, std::span{next}.first(512));
    const auto kept = by.kept();
    ASSERT_EQ(kept.size(), before.size());
    for (std::size_t i = 0; i < kept.size(); ++i) {
      EXPECT_EQ(kept[i].first, before[i].first);
      EXPECT_TRUE(std::ranges::equal(kept[i].second.span<const float>(), before[i].second.span<const float>())) << kept[i].first;
    }
    by.settle(push_of(2));
    other.resume(saved(by.kept()));
    EXPECT_EQ(residual_of(other), residual_of(by)) << "it is settled now";
  }
}

/// One whose job has other codes takes what it needs alone.
TEST(PushEncoder, WhatAnotherJobKeptMayBeMoreThanThisOneNeeds) {
  auto dgc = encoder_of("dgc", true);
  encode_all(dgc, 1, drawn(1));
  dgc.settle(push_of(1));
  auto onebit = encoder_of("onebit", true), rounded = encoder_of("int8", false);
  onebit.resume(saved(dgc.kept()));
  EXPECT_EQ(residual_of(onebit), residual_of(dgc));
  rounded.resume(saved(dgc.kept()));
  EXPECT_TRUE(rounded.kept().empty());
}

TEST(PushEncoder, WithoutFeedbackItKeepsNothing) {
  auto by = encoder_of("int8", false);
  encode_all(by, 1, drawn(1));
  EXPECT_TRUE(by.residual().empty());
  EXPECT_TRUE(by.kept().empty());
}

} // namespace
} // namespace troupe::actors
