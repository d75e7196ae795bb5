// SPDX-License-Identifier: BSD-3-Clause
// A version that is made in parts, as sums of them come: the bits of one step, and nothing of it if it is undone.
#include <algorithm>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "actors/roles/worker/common_replica.hpp"
#include "protocols/random_stream.hpp"

namespace troupe::actors {
namespace {

using testing::ElementsAre;

constexpr std::int64_t floats = 1024;
constexpr std::uint32_t partitions = 4;

kernels::buffer numbers(std::uint64_t seed) {
  auto block = std::make_shared<std::vector<float>>(floats);
  auto draw = protocols::random_stream::keyed(seed, 31, 0);
  for (float& each : *block)
    each = static_cast<float>(draw.below(2001)) / 1000 - 1;
  return {block, block->data(), floats * sizeof(float)};
}

std::vector<float> contents(const kernels::buffer& of) {
  const auto all = of.span<const float>();
  return {all.begin(), all.end()};
}

/// Parameters that are stepped in three ways, a statistic, and a matrix that is in two partitions.
common_replica stepped_by(const optimizer_spec& how) {
  const bool own_rate = how.name == "lars";
  return {kernels::open_backend({}),
          how,
          floats,
          100,
          {{.where = {0, 128}},
           {.where = {128, 640}, .own_rate = own_rate},
           {.where = {640, 704}, .kind = slot_kind::frozen},
           {.where = {704, 768}, .kind = slot_kind::statistic},
           {.where = {768, 1024}, .decay = false, .lr_scale = 0.5}}};
}

/// The step to this version in these partitions.
protocols::take_step step_in(std::uint64_t ver, std::uint32_t first, std::uint32_t last, bool ends, double weight = 1) {
  return {{.ver = {ver}, .samples_before = 10 * ver, .workers = 2}, {{}, weight}, {first, last, partitions}, ends};
}

/// Three whole steps.
std::vector<float> in_whole_steps(const optimizer_spec& how) {
  auto out = stepped_by(how);
  out.begin(numbers(1));
  for (std::uint64_t ver = 1; ver <= 3; ++ver)
    out.take_step(step_in(ver, 0, partitions, true), numbers(10 + ver));
  return contents(out.state());
}

class CommonReplicaInParts : public testing::TestWithParam<optimizer_spec> {};

TEST_P(CommonReplicaInParts, InAnyOrderTheyMakeTheBitsOfOneStep) {
  auto by = stepped_by(GetParam());
  by.begin(numbers(1));
  std::vector<std::uint32_t> order{0, 1, 2, 3};
  for (std::uint64_t ver = 1; ver <= 3; ++ver) {
    const auto before = contents(by.parameters());
    for (const std::uint32_t part : order) {
      EXPECT_EQ(contents(by.parameters()), before) << "until it is made";
      by.take_step(step_in(ver, part, part + 1, part == order.back()), numbers(10 + ver));
    }
    std::ranges::next_permutation(order);
    std::ranges::rotate(order, order.begin() + 2);
  }
  EXPECT_EQ(contents(by.state()), in_whole_steps(GetParam()));
}

TEST_P(CommonReplicaInParts, OneThatIsUndoneLeavesNothing) {
  auto by = stepped_by(GetParam());
  by.begin(numbers(1));
  for (std::uint64_t ver = 1; ver <= 3; ++ver) {
    const auto before = contents(by.state());
    by.take_step(step_in(ver, 0, 1, false), numbers(77));
    by.take_step(step_in(ver, 2, 4, false), numbers(77));
    by.undo_steps();
    EXPECT_EQ(contents(by.state()), before);
    EXPECT_TRUE(by.coming().there.empty());
    by.take_step(step_in(ver, 1, 2, false), numbers(10 + ver));
    by.take_step(step_in(ver, 2, 4, false), numbers(10 + ver));
    by.take_step(step_in(ver, 0, 1, true), numbers(10 + ver));
  }
  EXPECT_EQ(contents(by.state()), in_whole_steps(GetParam()));
}

std::string said_of(const testing::TestParamInfo<optimizer_spec>& of) {
  std::string out = of.param.name;
  if (of.param.momentum > 0)
    out += of.param.nesterov ? "_nesterov" : "_momentum";
  return out + (of.param.clip_norm > 0 ? "_clipped" : "");
}

INSTANTIATE_TEST_SUITE_P(
    All, CommonReplicaInParts,
    testing::Values(optimizer_spec{.lr = 0.1, .weight_decay = 0.01},
                    optimizer_spec{.lr = 0.1, .momentum = 0.9, .weight_decay = 0.01},
                    optimizer_spec{.lr = 0.1, .momentum = 0.9, .nesterov = true, .schedule = "cosine", .total_epochs = 1},
                    optimizer_spec{.name = "adamw", .lr = 0.1, .weight_decay = 0.01},
                    optimizer_spec{.name = "lars", .lr = 0.1, .momentum = 0.9},
                    optimizer_spec{.lr = 0.1, .momentum = 0.9, .clip_norm = 0.5}),
    said_of);

TEST(CommonReplica, WhatIsMadeOfAVersionIsThereAsItsPartsAre) {
  auto by = stepped_by({.lr = 0.1});
  by.begin(numbers(1));
  EXPECT_TRUE(by.coming().flat.empty());
  by.take_step(step_in(1, 0, 1, false), numbers(11));
  by.take_step(step_in(1, 2, 3, false), numbers(11));
  EXPECT_THAT(by.coming().there, ElementsAre(flat_range{0, 256}, flat_range{512, 768}));
  by.take_step(step_in(1, 1, 2, false), numbers(11));
  EXPECT_THAT(by.coming().there, ElementsAre(flat_range{0, 768}));
  const auto coming = by.coming().flat;
  by.take_step(step_in(1, 3, 4, true), numbers(11));
  EXPECT_EQ(by.parameters(), coming) << "nothing is computed twice that was computed with these";
  EXPECT_TRUE(by.coming().flat.empty());
}

// A norm is of the whole gradient.
TEST(CommonReplica, WhereAStepNeedsAllOfAGradientNothingIsThereBefore) {
  for (const optimizer_spec& how : {optimizer_spec{.clip_norm = 0.5}, optimizer_spec{.name = "lars"}}) {
    auto by = stepped_by(how);
    by.begin(numbers(1));
    by.take_step(step_in(1, 0, 3, false), numbers(11));
    EXPECT_TRUE(by.coming().flat.empty());
  }
}

TEST(CommonReplica, AStepInPartsWeighsItsSum) {
  auto parts = stepped_by({.lr = 0.1, .momentum = 0.9}), whole = stepped_by({.lr = 0.1, .momentum = 0.9});
  parts.begin(numbers(1));
  whole.begin(numbers(1));
  parts.take_step(step_in(1, 0, 3, false, 1.25), numbers(11));
  parts.take_step(step_in(1, 3, 4, true, 1.25), numbers(11));
  whole.take_step(step_in(1, 0, 4, true, 1.25), numbers(11));
  EXPECT_EQ(contents(parts.state()), contents(whole.state()));
}

} // namespace
} // namespace troupe::actors
