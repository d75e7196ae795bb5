// SPDX-License-Identifier: BSD-3-Clause
// Footers and manifests carry every field; bytes that are none are refused.
#include "protocols/wire/checkpoint.hpp"

#include <limits>

#include <gtest/gtest.h>

#include "protocols/random_stream.hpp"

namespace troupe::protocols::wire {
namespace {

shard_footer full_footer() {
  return {.shard = 3,
          .ver = {std::numeric_limits<std::uint64_t>::max()},
          .where = {16, 48},
          .numbers = {{"optimizer.steps", 7}, {"", 0}},
          .blocks = {{"parameters", 4096, 32}, {"velocity", 8192, 32}},
          .pieces = {0, 0xffff'ffff}};
}

manifest full_manifest() {
  return {.job = "digits",
          .facts = {{"optimizer.name", "sgd"}, {"", ""}},
          .ver = {40},
          .samples = 2'560,
          .training = -1,
          .floats = 32,
          .lead = {1, 2},
          .coordinator = {3},
          .files = {{"shard-0.ckpt", 12'345, 0xffff'ffff}},
          .tensors = {{"linear1.weight", {3, 4}, 16}, {"scale", {}, 0}},
          .data = {{"data/digits.bin", "e3b0c442"}}};
}

TEST(CheckpointBytes, CarryEveryField) {
  EXPECT_EQ(decode_footer(encode(full_footer())).value(), full_footer());
  EXPECT_EQ(decode_manifest(encode(full_manifest())).value(), full_manifest());
  EXPECT_EQ(decode_footer(encode(shard_footer{})).value(), shard_footer{});
  EXPECT_EQ(decode_manifest(encode(manifest{})).value(), manifest{});
}

TEST(CheckpointBytes, CutShortAreRefused) {
  const auto footer = encode(full_footer()), whole = encode(full_manifest());
  for (std::size_t words = 0; words < footer.size(); ++words)
    EXPECT_FALSE(decode_footer({footer.data(), words})) << words;
  for (std::size_t words = 0; words < whole.size(); ++words) {
    const auto cut = decode_manifest({whole.data(), words});
    ASSERT_FALSE(cut) << words;
    EXPECT_TRUE(cut.error().text.starts_with("the manifest of a checkpoint cannot be read: "));
  }
}

TEST(CheckpointBytes, DamagedOnesAreRefusedOrReadButNeverBelieved) {
  const auto whole = encode(full_manifest());
  random_stream draw{5};
  std::size_t refused = 0;
  for (int round = 0; round < 1'000; ++round) {
    auto bad = whole;
    for (std::uint64_t flips = 1 + draw.below(3); flips > 0; --flips)
      bad[draw.below(bad.size())] ^= std::uint64_t{1} << draw.below(64);
    refused += decode_manifest(bad) ? 0 : 1;
    static_cast<void>(decode_footer(bad));
  }
  EXPECT_GT(refused, 100U);
}

} // namespace
} // namespace troupe::protocols::wire
