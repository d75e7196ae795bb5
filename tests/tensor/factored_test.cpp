// SPDX-License-Identifier: BSD-3-Clause
// Gradients that are products of two factors: which ones, what a step copies, and where a push is cut.
#include "tensor/factored.hpp"

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "kernels/codec.hpp"
#include "tensor/plan.hpp"
#include "tests/tensor/example_models.hpp"
#include "tests/tensor/rig.hpp"

namespace troupe {
namespace {

using testing::rig;

std::vector<std::string> names_of(const factored_slots& slots, const parameter_layout& layout) {
  std::vector<std::string> out;
  for (const auto& each : slots)
    for (const auto& slot : layout.slots)
      if (slot.offset == each.where.begin)
        out.push_back(slot.name);
  return out;
}

/// What a step of `rows` rows has copied makes the gradients that it has computed.
void expect_factors_of_gradients(rig& r, const factored_slots& slots, std::int64_t max_rows, std::int64_t rows) {
  const auto floats = static_cast<std::size_t>(factor_floats(slots, max_rows));
  const copied_factors copied{r.queue->allocate_host(floats * sizeof(float)), rows};
  auto args = r.args(rows);
  args.factors = copied.block.as<float>();
  std::vector<int> early;
  args.gradient_ready = [&](int slot) { // as a push does, while the step still runs
    for (const auto& each : slots)
      if (r.source.layout().slots[static_cast<std::size_t>(slot)].offset == each.where.begin) {
        early.push_back(slot);
        std::vector<std::byte> codes(each.bytes(each.where, rows));
        kernels::encode_factors(each.in(copied), each.at(each.where), codes);
        std::vector<float> product(static_cast<std::size_t>(each.where.size()));
        kernels::decode(kernels::form::factors, {0, each.where.size()}, codes, product);
        const auto* gradient = r.gradients.as<float>() + each.where.begin;
        const float largest = std::abs(*std::max_element(gradient, gradient + each.where.size(),
                                                         [](float a, float b) { return std::abs(a) < std::abs(b); }));
        for (std::size_t i = 0; i < static_cast<std::size_t>(each.m * each.n); ++i)
          ASSERT_NEAR(product[i], gradient[i], 2e-5F * largest) << r.source.layout().slots[static_cast<std::size_t>(slot)].name;
      }
  };
  r.compiled->enqueue_step(args);
  r.queue->synchronize();
  EXPECT_EQ(early.size(), slots.size());
}

class FactoredModels : public ::testing::TestWithParam<testing::example_model> {};

TEST_P(FactoredModels, CopyWhatTheirGradientsAreProductsOf) {
  const auto& of = GetParam();
  const auto built = model::build(of.spec, of.data);
  ASSERT_TRUE(built) << built.error().message;
  for (const std::int64_t max_rows : {2, 5}) {
    rig r{*built, {.max_rows = max_rows, .factors = true}};
    const auto slots = find_factored(*built, max_rows);
    for (const std::int64_t rows : {max_rows, std::int64_t{2}})
      expect_factors_of_gradients(r, slots, max_rows, rows);
    rig plain{*built, {.max_rows = max_rows}};
    plain.step(max_rows);
    r.step(max_rows);
    EXPECT_EQ(r.flat_gradients(), plain.flat_gradients()) << "a step that copies nothing, or no factors, is the same";
  }
}
INSTANTIATE_TEST_SUITE_P(All, FactoredModels, ::testing::ValuesIn(testing::example_models()),
                         [](const auto& info) { return info.param.name; });

TEST(Factored, AreMatricesThatFewRowsMake) {
  const auto mlp = model::build({.layers = {"flatten", "linear 64 relu", "linear 4"}}, {.sample = {1, 10, 10}, .classes = 4});
  ASSERT_TRUE(mlp) << mlp.error().message;
  EXPECT_EQ(names_of(find_factored(*mlp, 8), mlp->layout()), std::vector<std::string>{"linear1.weight"})
      << "8 (64 + 4) floats are more than 64 x 4";
  EXPECT_EQ(names_of(find_factored(*mlp, 2), mlp->layout()), (std::vector<std::string>{"linear1.weight", "linear2.weight"}));
  EXPECT_TRUE(find_factored(*mlp, 64).empty()) << "64 (100 + 64) floats are more than 100 x 64";
  const auto slots = find_factored(*mlp, 8);
  EXPECT_EQ(slots[0].m * slots[0].n, 6400);
  EXPECT_EQ(factor_floats(slots, 8), 8 * (100 + 64));
}

/// Where a matrix is used twice, its gradient is a sum of two products; a place of a sequence is a row.
TEST(Factored, ATiedHeadHasNone) {
  const auto gpt = model::build({.layers = {"embedding 48", "attention 4 causal", "head tied"}}, testing::text(2, 60));
  ASSERT_TRUE(gpt) << gpt.error().message;
  const auto found = names_of(find_factored(*gpt, 3), gpt->layout());
  EXPECT_FALSE(found.empty());
  EXPECT_EQ(std::ranges::count(found, gpt->layout().slots[0].name), 0) << "the embedding";
  for (const auto& each : find_factored(*gpt, 3))
    EXPECT_EQ(each.positions, 2);
}

TEST(Factored, APushIsCutWhereTheyBeginAndEnd) {
  const factored_slots slots{{.where = {32, 160}, .m = 8, .n = 16}, {.where = {160, 224}, .m = 4, .n = 15}};
  EXPECT_EQ(cut_into_partitions({0, 320}, 64 * 4, slots),
            (std::vector<flat_range>{{0, 32}, {32, 160}, {160, 224}, {224, 288}, {288, 320}}));
  EXPECT_EQ(cut_into_partitions({48, 176}, 64 * 4, slots), (std::vector<flat_range>{{48, 160}, {160, 176}}));
  EXPECT_EQ(cut_into_partitions({224, 320}, 64 * 4, slots), cut_into_partitions({224, 320}, 64 * 4));
  EXPECT_EQ(cut_into_partitions({0, 0}, 64 * 4, slots), std::vector<flat_range>{});
  EXPECT_EQ(slot_of(slots, {48, 160}), &slots[0]);
  EXPECT_EQ(slot_of(slots, {48, 176}), nullptr);
  EXPECT_EQ(slot_of(slots, {224, 320}), nullptr);
  const auto part = slots[1].at({208, 224});
  EXPECT_EQ(part.first, 48);
  EXPECT_EQ(part.count, 12) << "without the gap behind it";
  EXPECT_EQ(factored_bytes(slots, {{32, 160}, {224, 240}}, 2), 16U + 4 * 2 * (8 + 16) + 64);
  EXPECT_EQ(factored_bytes(slots, {{208, 224}}, 2), 64U) << "as it is, for one row and 15 columns are more";
}

} // namespace
} // namespace troupe
