// SPDX-License-Identifier: BSD-3-Clause
// Codes of terms and of sums: what they lose is kept apart, and given back where a round comes to nothing.
#include "actors/roles/codec/chunk_encoder.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <random>
#include <span>
#include <vector>

#include <gtest/gtest.h>

#include "actors/roles/worker/common_replica.hpp"

namespace troupe::actors {
namespace {

using protocols::collective::cargo;

constexpr flat_range mine{0, 1024}, theirs{1024, 2048};

kernels::buffer block_of(std::size_t bytes) {
  auto block = std::make_shared<std::vector<float>>((bytes + 3) / sizeof(float));
  return {block, block->data(), bytes};
}

chunk_encoder chunks_of(const char* codec, std::uint32_t worker = 1) {
  job what;
  what.seed = 7;
  what.codec.push = codec;
  what.codec.error_feedback = true;
  return {what, {{worker}, {0}}, 2048, block_of};
}

protocols::peer_message chunk_of(std::uint64_t round, std::uint32_t epoch = 1) {
  return {.from = {{1}, {0}}, .round = round, .is = protocols::peer_message::kind::chunk, .epoch = {epoch}};
}

std::vector<float> drawn_half(std::uint32_t seed) {
  std::mt19937 dice(seed);
  std::vector<float> out(1024);
  for (float& each : out)
    each = static_cast<float>(dice() >> 8U) * 0x1p-23F - 1;
  return out;
}

/// As its receivers have it.
std::vector<float> sent(chunk_encoder& by, const protocols::peer_message& as, cargo what, flat_range where,
                        const std::vector<float>& values) {
  std::vector<float> out(values.size());
  chunk_encoder::decode(by.form(), where, by.encode(as, what, where, values), out);
  return out;
}

TEST(ChunkEncoder, WhatWasSentAndWhatIsKeptAddUpToAllTermsAndToAllSums) {
  for (const char* form : {"fp16", "bf16", "int8", "int4", "onebit"}) {
    auto by = chunks_of(form);
    std::mt19937 fate(1);
    std::vector<double> rest(2048);
    for (std::uint64_t round = 1, epoch = 1; round <= 40;) {
      const auto term = drawn_half(2 * static_cast<std::uint32_t>(round)),
                 sum = drawn_half(2 * static_cast<std::uint32_t>(round) + 1);
      const auto as = chunk_of(round, static_cast<std::uint32_t>(epoch));
      const auto of_term = sent(by, as, cargo::term, theirs, term), of_sum = sent(by, as, cargo::sum, mine, sum);
      switch (fate() % 3) {
      case 0:
        ++epoch; // a new plan: the round is computed anew
        continue;
      case 1:
        break; // it makes no version
      default:
        by.made({round});
        for (std::size_t i = 0; i < 1024; ++i) {
          rest[i] += sum[i] - of_sum[i];
          rest[1024 + i] += term[i] - of_term[i];
        }
      }
      ++round;
    }
    const auto kept = by.kept();
    ASSERT_EQ(kept.size(), 2U);
    EXPECT_EQ(kept[0].first, "codec.residual");
    EXPECT_EQ(kept[1].first, "sums.codec.residual");
    for (std::size_t i = 0; i < 1024; ++i) {
      ASSERT_NEAR(kept[1].second.as<const float>()[i], rest[i], 1e-5) << form << ", sum " << i;
      ASSERT_NEAR(kept[0].second.as<const float>()[1024 + i], rest[1024 + i], 1e-5) << form << ", term " << i;
    }
  }
}

TEST(ChunkEncoder, TheSameRangeOfARoundHasOneCode) {
  auto by = chunks_of("int4");
  const auto values = drawn_half(1);
  const auto first = by.encode(chunk_of(1), cargo::sum, mine, values);
  EXPECT_EQ(by.encode(chunk_of(1), cargo::sum, mine, drawn_half(2)).data(), first.data())
      << "another peer gets what the first got";
  EXPECT_NE(by.encode(chunk_of(1), cargo::term, mine, values).data(), first.data());
}

TEST(ChunkEncoder, ARoundThatIsComputedAnewIsSentAsIfForTheFirstTime) {
  auto by = chunks_of("onebit");
  const auto values = drawn_half(1);
  sent(by, chunk_of(1), cargo::term, theirs, values);
  by.made({1});
  const auto first = sent(by, chunk_of(2, 1), cargo::term, theirs, values);
  EXPECT_EQ(sent(by, chunk_of(2, 2), cargo::term, theirs, values), first);
  by.made({2}); // which a peer has given it, for the others had its term
  EXPECT_NE(sent(by, chunk_of(3, 3), cargo::term, theirs, values), first) << "what the second lost is in the third";
}

TEST(ChunkEncoder, TermsAndSumsAndWorkersDrawOtherNumbers) {
  const auto values = drawn_half(1);
  auto one = chunks_of("int8", 1), other = chunks_of("int8", 2);
  const auto term = sent(one, chunk_of(1), cargo::term, mine, values);
  EXPECT_NE(sent(one, chunk_of(1), cargo::sum, mine, values), term);
  EXPECT_NE(sent(other, chunk_of(1), cargo::term, mine, values), term);
}

TEST(ChunkEncoder, ItGoesOnWithWhatAnotherOneKept) {
  auto first = chunks_of("onebit"), next = chunks_of("onebit");
  const auto values = drawn_half(1);
  sent(first, chunk_of(1), cargo::term, theirs, values);
  sent(first, chunk_of(1), cargo::sum, mine, values);
  first.made({1});
  saved_state kept;
  kept.blocks = first.kept();
  next.resume(kept);
  for (const auto what : {cargo::term, cargo::sum}) {
    const auto where = what == cargo::sum ? mine : theirs;
    EXPECT_EQ(sent(next, chunk_of(2), what, where, values), sent(first, chunk_of(2), what, where, values));
  }
}

TEST(ChunkInbox, CodesOfAPeerAreDecodedWhereTheyLieAndUnsoundOnesRefused) {
  chunk_inbox inbox(block_of);
  auto by = chunks_of("int4");
  const auto values = drawn_half(1);
  const auto as = chunk_of(1);
  const flat_range first{1024, 1536}, rest{1536, 2048}, beyond{2048, 2560};
  const std::span half{values.data(), 512};
  const auto codes = by.encode(as, cargo::term, first, half);
  auto wrong = block_of(codes.bytes());
  std::ranges::copy(codes.span<const std::byte>(), wrong.span<std::byte>().begin());
  wrong.as<float>()[0] = std::numeric_limits<float>::quiet_NaN(); // the scale of a block
  const auto part = [&](flat_range where) { return protocols::wire::peer_part{{}, as, {where.begin, where.end}, by.form()}; };
  EXPECT_FALSE(inbox.add(part(first), theirs, wrong));
  EXPECT_FALSE(inbox.add(part(first), theirs, codes.slice(0, codes.bytes() - 8)));
  EXPECT_FALSE(inbox.add(part(beyond), theirs, codes));
  EXPECT_FALSE(inbox.take(as));
  EXPECT_TRUE(inbox.add(part(first), theirs, codes));
  EXPECT_FALSE(inbox.add(part(first), theirs, codes)) << "twice";
  EXPECT_TRUE(inbox.add(part(rest), theirs, by.encode(as, cargo::term, rest, half)));
  const auto whole = inbox.take(as);
  ASSERT_TRUE(whole);
  std::vector<float> expected(512);
  chunk_encoder::decode(by.form(), first, codes, expected);
  EXPECT_EQ(std::vector(whole->as<float>(), whole->as<float>() + 512), expected);
}

/// What a replica of 2,048 floats in one segment sends of this to a peer.
struct sent_chunk {
  protocols::wire::peer_part head;
  kernels::buffer data;
};
std::vector<sent_chunk> sent_of(common_replica& by, const kernels::buffer& of, cargo what, std::uint32_t to,
                                const copied_factors& factors = {}) {
  protocols::send_peer chunk{{to}, chunk_of(1), what};
  chunk.message.part = {0, 1, 1};
  std::vector<sent_chunk> out;
  by.each_part(chunk, of, factors, [&out](const auto& head, const auto& data) { out.push_back({head, data}); });
  return out;
}
common_replica replica_of(std::unique_ptr<chunk_encoder> sums) {
  common_replica out(kernels::open_backend({}), {}, 2048, 2048, {{.where = {0, 2048}}});
  if (sums)
    out.encode_by(std::move(sums));
  return out;
}
kernels::buffer drawn_block() {
  auto out = block_of(2048 * sizeof(float));
  for (const std::uint32_t half : {0U, 1U})
    std::ranges::copy(drawn_half(half + 5), out.as<float>() + 1024 * half);
  return out;
}

TEST(CommonReplica, ATermThatGoesToAllIsACopyForItsPlaceBecomesTheSum) {
  auto by = replica_of(nullptr);
  const auto term = drawn_block();
  const auto lent = sent_of(by, term, cargo::term, 0), copied = sent_of(by, term, cargo::copy, 0);
  ASSERT_EQ(lent.size(), 1U);
  ASSERT_EQ(copied.size(), 1U);
  EXPECT_TRUE(lent[0].data.shares_block_with(term));
  EXPECT_FALSE(copied[0].data.shares_block_with(term));
  EXPECT_TRUE(std::ranges::equal(copied[0].data.span<const float>(), term.span<const float>()));
}

/// Its sender goes on with what its peers make of it. What the first of them gets, all get.
TEST(CommonReplica, ATermThatGoesToAllBecomesWhatItsCodesSay) {
  auto by = replica_of(std::make_unique<chunk_encoder>(chunks_of("onebit")));
  const auto term = drawn_block();
  const auto first = sent_of(by, term, cargo::copy, 0);
  std::vector<float> told(2048);
  ASSERT_EQ(first.size(), 1U);
  EXPECT_EQ(first[0].head.as, kernels::form::onebit);
  chunk_encoder::decode(first[0].head.as, {0, 2048}, first[0].data, told);
  EXPECT_TRUE(std::ranges::equal(told, term.span<const float>()));
  term.as<float>()[7] = 100; // were it decoded again, that would be gone
  EXPECT_EQ(sent_of(by, term, cargo::copy, 2)[0].data.data(), first[0].data.data());
  EXPECT_EQ(term.as<float>()[7], 100);
}

TEST(CommonReplica, OfFactorsItsSenderHasTheProduct) {
  job what;
  what.codec.push = "factors";
  const factored_slots slots{{.where = {0, 1024}, .m = 32, .n = 32, .left = 0, .right = 64}};
  auto by = replica_of(std::make_unique<chunk_encoder>(what, protocols::member{{1}, {0}}, 2048, block_of, slots));
  const copied_factors factors{block_of(128 * sizeof(float)), 2};
  std::ranges::fill(factors.block.span<float>(), 0.5F);
  const auto term = drawn_block();
  const std::vector before(term.as<float>() + 1024, term.as<float>() + 2048);
  const auto sent = sent_of(by, term, cargo::copy, 0, factors);
  ASSERT_EQ(sent.size(), 2U);
  EXPECT_EQ(sent[0].head.as, kernels::form::factors);
  EXPECT_EQ(sent[0].head.bytes, 16U + 4 * 2 * (32 + 32));
  EXPECT_EQ(sent[0].head.where, (protocols::wire::range{0, 1024}));
  EXPECT_EQ(sent[1].head.as, kernels::form::fp32);
  EXPECT_EQ(sent[1].head.bytes, 0U);
  for (std::size_t i = 0; i < 1024; ++i)
    ASSERT_EQ(term.as<float>()[i], 0.5F);
  EXPECT_TRUE(std::equal(before.begin(), before.end(), term.as<float>() + 1024));
}

} // namespace
} // namespace troupe::actors
