// SPDX-License-Identifier: BSD-3-Clause
// Untrusted bytes: each gives an error with a reason, at negligible cost.
#include <algorithm>
#include <bit>
#include <cstdlib>
#include <cstring>
#include <iostream>
#include <limits>
#include <random>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "tests/protocols/allocations.hpp"
#include "tests/protocols/wire_samples.hpp"

namespace troupe::protocols::wire {
namespace {

/// The words of a frame's head, for a test to spoil.
struct spoiled {
  explicit spoiled(const content& body) : payload(test::payload_for(body)) {
    const auto made = encode(body, std::as_bytes(std::span(payload)));
    table_words = payload.empty() ? 1 : 2;
    words.assign(made->head.begin() + static_cast<std::ptrdiff_t>(table_words), made->head.end());
    table.assign(made->head.begin(), made->head.begin() + static_cast<std::ptrdiff_t>(table_words));
  }
  std::span<const std::byte> head() const { return std::as_bytes(std::span(words)); }
  std::span<const std::byte> payload_bytes() const { return std::as_bytes(std::span(payload)); }
  result<decoded> decode() const { return decode_head(head(), payload.size() * 8); }

  std::vector<std::uint64_t> payload, words, table;
  std::size_t table_words = 1;
};

std::string reason(const auto& failed) {
  return failed ? "no fault" : failed.error().text;
}

std::vector<std::uint64_t> table_of(std::uint32_t more_segments, std::uint32_t head_words, std::uint32_t payload_words = 0) {
  return {more_segments | std::uint64_t{head_words} << 32U, payload_words};
}
std::string fault_of_table(const std::vector<std::uint64_t>& table, const frame_limits& limits = {}) {
  return reason(parse_table(std::as_bytes(std::span(table)), limits));
}

TEST(WireHostile, TableIsBoundedBeforeAnythingIsAllocated) {
  const std::size_t before = troupe::test::allocated_bytes();
  EXPECT_EQ(fault_of_table(table_of(0xffff'ffff, 4)), "frame of 4294967296 segments, a lane's has 1 or 2");
  EXPECT_EQ(fault_of_table(table_of(2, 4)), "frame of 3 segments, a lane's has 1 or 2");
  EXPECT_EQ(fault_of_table(table_of(0, 0xffff'ffff)), "head of 34359738360 bytes, must be 8 to 65536");
  EXPECT_EQ(fault_of_table(table_of(0, 8193)), "head of 65544 bytes, must be 8 to 65536");
  EXPECT_EQ(fault_of_table(table_of(0, 0)), "head of 0 bytes, must be 8 to 65536");
  EXPECT_EQ(fault_of_table(table_of(1, 4, 0xffff'ffff)), "payload of 34359738360 bytes, must be 8 to 268435456");
  EXPECT_EQ(fault_of_table(table_of(1, 4, 0)), "payload of 0 bytes, must be 8 to 268435456");
  EXPECT_EQ(fault_of_table(table_of(1, 4, 9), {.payload_bytes = 64}), "payload of 72 bytes, must be 8 to 64");
  EXPECT_LT(troupe::test::allocated_bytes() - before, 1U << 20U);
}

TEST(WireHostile, TablePaddingIsZero) {
  auto table = table_of(1, 4, 8);
  table[1] |= std::uint64_t{1} << 63U;
  EXPECT_EQ(fault_of_table(table), "segment table is not padded with zeros");
}

TEST(WireHostile, PartOfATableAsksForMore) {
  const auto table = table_of(1, 4, 8);
  const auto bytes = std::as_bytes(std::span(table));
  for (std::size_t length = 0; length < bytes.size(); ++length) {
    const auto parsed = parse_table(bytes.first(length), {});
    ASSERT_TRUE(parsed);
    EXPECT_FALSE(*parsed);
  }
  EXPECT_EQ(**parse_table(bytes, {}), (frame_layout{16, 32, 64}));
}

class Truncated : public testing::TestWithParam<test::sample> {};

TEST_P(Truncated, HeadIsRefusedAtEveryLength) {
  const spoiled whole(GetParam().body);
  for (std::size_t length = 0; length < whole.head().size(); ++length) {
    const auto cut = whole.head().first(length);
    const auto decoded = decode_head(cut, whole.payload.size() * 8);
    // What points at the payload stands last: without it the head is whole, and the payload is not in its place.
    EXPECT_FALSE(decoded && check_payload(cut, whole.payload_bytes())) << length << " of " << whole.head().size() << " bytes";
  }
}

INSTANTIATE_TEST_SUITE_P(Ordinary, Truncated, testing::ValuesIn(test::ordinary()),
                         [](const auto& info) { return info.param.name; });

TEST(WireHostile, PayloadHasTheSizeOfTheRange) {
  const spoiled part(message{push_part{{1}, {2}, {}, {0, 32}}});
  EXPECT_EQ(reason(decode_head(part.head(), 64)), "payload of 64 bytes, the message says 128");
  EXPECT_EQ(reason(decode_head(part.head(), 0)), "payload of 0 bytes, the message says 128");
  const spoiled none(message{addressed<drop_order>{}});
  EXPECT_EQ(reason(decode_head(none.head(), 64)), "payload of 64 bytes, the message says 0");
}

TEST(WireHostile, PayloadPointerCoversItsSegment) {
  const message msg = push_part{{1}, {2}, {}, {0, 32}};
  // The last two words of the head: a far pointer to segment 1, and the tag of a list of 128 bytes.
  const auto fault_with = [&](std::size_t from_end, std::uint64_t flip) {
    spoiled part{msg};
    part.words.at(part.words.size() - from_end) ^= flip;
    const auto decoded = part.decode();
    return decoded ? reason(check_payload(part.head(), part.payload_bytes())) : "not even decoded";
  };
  EXPECT_EQ(fault_with(1, 0), "no fault");
  const std::uint64_t half = (std::uint64_t{128} ^ 64U) << 35U;
  EXPECT_EQ(fault_with(1, half), "the payload pointer does not cover segment 1");
  EXPECT_NE(fault_with(1, std::uint64_t{256} << 35U).find("out-of-bounds"), std::string::npos);
  EXPECT_NE(fault_with(2, 8), "no fault");                       // begins a word later
  EXPECT_NE(fault_with(2, std::uint64_t{1} << 32U), "no fault"); // in segment 0
  EXPECT_NE(fault_with(2, std::uint64_t{2} << 32U), "no fault"); // in segment 3
}

TEST(WireHostile, GiantListsCostNothing) {
  close round;
  round.contributions.resize(1);
  round.send_to.resize(1);
  const spoiled good(message{addressed<close>{{1}, round}});
  ASSERT_TRUE(good.decode());
  std::size_t refused = 0, most = 0;
  const auto decode = [&](const spoiled& bad) {
    const std::size_t before = troupe::test::allocated_bytes();
    const auto decoded = bad.decode();
    most = std::max(most, troupe::test::allocated_bytes() - before);
    refused += !decoded;
    if (decoded) {
      EXPECT_LE(std::get<addressed<close>>(std::get<message>(decoded->body)).message.contributions.size(), max_listed_workers);
    }
  };
  // Every word that may be a list's pointer or tag claims as many elements as it can, of every size, zero included.
  for (std::size_t at = 0; at < good.words.size(); ++at)
    for (std::uint64_t size = 0; size < 8; ++size)
      for (const std::uint64_t count : {std::uint64_t{0x1fff'ffff}, std::uint64_t{0x0fff'ffff}, std::uint64_t{100'000}}) {
        spoiled bad = good;
        bad.words[at] = (bad.words[at] & 0xffff'ffffU) | size << 32U | count << 35U;
        decode(bad);
        // Elements of no size behind a tag.
        bad.words[at] = count << 2U;
        decode(bad);
      }
  EXPECT_GT(refused, good.words.size());
  EXPECT_LT(most, 1U << 20U);
}

TEST(WireHostile, ValuesOutOfRangeAreRefusedOnArrivalToo) {
  // A sender that checks nothing: the fields are spoiled after encoding.
  spoiled part(message{push_part{{1}, {2}, {}, {0, 16}}});
  for (std::uint64_t& each : part.words)
    if (each == 16)
      each = 24; // range 0..24
  EXPECT_EQ(reason(part.decode()), "range 0..24, must be 0 <= begin <= end, both multiples of 16");

  push p;
  p.samples = 0x1234'5678'9abc;
  spoiled end(message{push_end{{1}, p, 0}});
  for (std::uint64_t& each : end.words)
    if (each == 0x1234'5678'9abc)
      each = ~std::uint64_t{0};
  EXPECT_EQ(reason(end.decode()), "samples is -1, must be 0 or more");

  p.samples = 10;
  p.ignored = 2.5;
  for (const double ignored : {-1.0, 11.0, std::numeric_limits<double>::quiet_NaN()}) {
    spoiled some(message{push_end{{1}, p, 0}});
    std::ranges::replace(some.words, std::bit_cast<std::uint64_t>(2.5), std::bit_cast<std::uint64_t>(ignored));
    EXPECT_EQ(reason(some.decode()), fmt::format("ignored is {}, must be 0 or more and at most the 10 samples", ignored));
  }
}

TEST(WireHostile, UnknownMessageIsNamed) {
  spoiled order(message{addressed<drop_order>{}});
  for (const std::uint64_t unknown : {20U, 999U, 65535U}) {
    order.words[1] = (order.words[1] & ~std::uint64_t{0xffff}) | unknown; // the union's tag is the frame's first 16 bits
    EXPECT_EQ(reason(order.decode()), "unknown message " + std::to_string(unknown));
  }
}

TEST(WireHostile, HelloOfAnotherProtocolIsNamed) {
  spoiled first(hello{});
  for (std::uint64_t& each : first.words)
    if (each == 0x454e414c45505254)
      each = 0x0a0d'312e'312f'5054;
  EXPECT_NE(reason(first.decode()).find("not a lane"), std::string::npos);
}

// Flips bits of good frames: whatever comes out is an error with a reason, or a message that might as well have been sent.
TEST(WireHostile, FlippedBitsNeverDoHarm) {
  const char* given = std::getenv("TROUPE_TEST_SEED");
  const std::uint64_t seed = given != nullptr ? std::strtoull(given, nullptr, 10) : 20260;
  std::cout << "seed " << seed << " (TROUPE_TEST_SEED)\n";
  std::mt19937_64 random(seed);
  std::vector<spoiled> frames;
  for (const test::sample& each : test::ordinary())
    frames.emplace_back(each.body);
  std::size_t refused = 0, accepted = 0, most = 0;
  for (int round = 0; round < 40'000; ++round) {
    spoiled bad = frames[random() % frames.size()];
    for (std::uint64_t flips = 1 + random() % 4; flips > 0; --flips)
      bad.words[random() % bad.words.size()] ^= std::uint64_t{1} << random() % 64;
    const std::size_t before = troupe::test::allocated_bytes();
    const auto decoded = bad.decode();
    const bool good = decoded && check_payload(bad.head(), bad.payload_bytes());
    most = std::max(most, troupe::test::allocated_bytes() - before);
    if (good)
      ++accepted;
    else
      ++refused;
    if (!decoded) {
      ASSERT_FALSE(decoded.error().text.empty());
    } else if (good && decoded->lent_at != 0) { // nobody looks there
      const auto* const lent = reinterpret_cast<const std::byte*>(static_cast<std::uintptr_t>(decoded->lent_at));
      ASSERT_TRUE(encode_lent(decoded->body, {lent, payload_bytes(std::get<message>(decoded->body))})) << "round " << round;
    } else if (good) {
      ASSERT_TRUE(encode(decoded->body, bad.payload_bytes())) << "round " << round;
    }
  }
  // Most bits are values, which may be anything; the rest must be noticed.
  EXPECT_GT(refused, 4'000U);
  EXPECT_GT(accepted, 4'000U);
  EXPECT_LT(most, 1U << 20U);
}

} // namespace
} // namespace troupe::protocols::wire
