// SPDX-License-Identifier: BSD-3-Clause
// What a worker's codes lose: kept, added to the next push, and given back where a push comes to nothing.
#include "actors/roles/codec/push_encoder.hpp"

#include <algorithm>
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
push_encoder encoder_of(const std::string& form, bool feedback, std::uint32_t worker = 1) {
  return {codec_spec{form, feedback}, {worker}, 7, floats, bytes_of};
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
  for (const char* form : {"fp16", "bf16", "int8", "int4", "onebit"})
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
  for (const char* form : {"fp16", "bf16", "int8", "int4", "onebit"}) {
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

TEST(PushEncoder, WithoutFeedbackItKeepsNothing) {
  auto by = encoder_of("int8", false);
  encode_all(by, 1, drawn(1));
  EXPECT_TRUE(by.residual().empty());
}

} // namespace
} // namespace troupe::actors
