// SPDX-License-Identifier: BSD-3-Clause
// However a stream is cut into reads, the same frames come out of it.
#include "actors/net/frame_reader.hpp"

#include <algorithm>
#include <cstring>
#include <functional>
#include <limits>
#include <random>

#include "kernels/factors.hpp"
#include "kernels/sparse.hpp"
#include "tests/actors/lane_harness.hpp"

namespace troupe::actors::net {
namespace {

namespace wire = protocols::wire;

class collector : public frame_reader::sink {
public:
  bool begins(const wire::decoded&) override { return true; }
  kernels::buffer place(const wire::message&, std::size_t bytes) override { return test::make_buffer(bytes, 0xdead); }
  bool borrow(std::uint64_t address, const kernels::buffer& into) override {
    std::memcpy(into.data(), reinterpret_cast<const void*>(static_cast<std::uintptr_t>(address)), into.bytes());
    return lends;
  }
  bool accept(wire::content body, kernels::buffer payload) override {
    clocks.push_back(test::clock_of(std::get<wire::message>(body)));
    intact = intact && test::same_bytes(payload, test::make_buffer(payload.bytes(), static_cast<std::uint32_t>(clocks.back())));
    return clocks.size() != stop_after;
  }
  std::vector<std::uint64_t> clocks;
  bool intact = true, lends = true;
  std::size_t stop_after = 0;
};

const std::vector<std::size_t> sizes{64, 0, 4096, 0, 0, 100'032, 128, 64, 20'480, 0};

std::vector<std::byte> stream() {
  std::vector<std::byte> bytes;
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    const auto payload = sizes[i] == 0 ? kernels::buffer{} : test::make_buffer(sizes[i], static_cast<std::uint32_t>(i));
    const auto frame = wire::encode(sizes[i] == 0 ? test::order(i) : test::part(i, sizes[i]), payload.span<const std::byte>());
    bytes.insert(bytes.end(), frame->head_bytes().begin(), frame->head_bytes().end());
    bytes.insert(bytes.end(), frame->payload.begin(), frame->payload.end());
  }
  return bytes;
}

/// Feeds `bytes` in reads of at most `next()` bytes.
std::optional<std::string> feed(frame_reader& reader, frame_reader::sink& to, std::span<const std::byte> bytes,
                                const std::function<std::size_t()>& next) {
  while (!bytes.empty()) {
    const std::size_t most = std::min(next(), bytes.size());
    std::size_t read = 0;
    for (const auto place : reader.room()) {
      const auto here = bytes.subspan(read, std::min(most - read, place.size()));
      std::ranges::copy(here, place.begin());
      read += here.size();
    }
    EXPECT_GT(read, 0U) << "no room";
    bytes = bytes.subspan(read);
    if (auto fault = reader.advance(read, to))
      return fault;
  }
  return {};
}

class Reads : public testing::TestWithParam<std::size_t> {};

TEST_P(Reads, GiveTheSameFrames) {
  const auto bytes = stream();
  frame_reader reader({});
  collector got;
  EXPECT_EQ(feed(reader, got, bytes, [] { return GetParam(); }), std::nullopt);
  EXPECT_EQ(got.clocks, (std::vector<std::uint64_t>{0, 1, 2, 3, 4, 5, 6, 7, 8, 9}));
  EXPECT_TRUE(got.intact);
  EXPECT_TRUE(reader.between_frames());
  EXPECT_EQ(reader.position(), bytes.size());
}

INSTANTIATE_TEST_SUITE_P(Sizes, Reads, testing::Values(1, 7, 8, 100, 4096, 1U << 20U));

/// One frame, in reads of a hundred bytes.
std::optional<std::string> read_one(const wire::message& head, const kernels::buffer& payload, collector& to) {
  const auto frame = wire::encode(head, payload.span<const std::byte>());
  std::vector<std::byte> stream(frame->head_bytes().begin(), frame->head_bytes().end());
  stream.insert(stream.end(), frame->payload.begin(), frame->payload.end());
  frame_reader reader({});
  return feed(reader, to, stream, [] { return std::size_t{100}; });
}

/// Likewise, if the payload is lent.
std::optional<std::string> read_lent(const wire::message& head, const kernels::buffer& payload, frame_reader& reader,
                                     collector& to) {
  const auto frame = wire::encode_lent(head, payload.span<const std::byte>());
  return feed(reader, to, frame->head_bytes(), [] { return std::size_t{100}; });
}

TEST(FrameReader, WhatIsLentComesWithItsHead) {
  frame_reader reader({});
  collector got;
  for (const std::uint32_t clock : {3U, 4U}) {
    EXPECT_EQ(read_lent(test::part(clock, 4096), test::make_buffer(4096, clock), reader, got), std::nullopt);
    EXPECT_TRUE(reader.between_frames());
  }
  EXPECT_EQ(got.clocks, (std::vector<std::uint64_t>{3, 4}));
  EXPECT_TRUE(got.intact);
  got.lends = false;
  EXPECT_EQ(read_lent(test::part(5, 4096), test::make_buffer(4096, 5), reader, got), std::nullopt); // who reads it says why not
  EXPECT_EQ(got.clocks.size(), 2U);
}

TEST(FrameReader, MoreIsNotLentThanMayBeSent) {
  for (const std::size_t most : {4096U, 4032U}) {
    frame_reader reader({.payload_bytes = most});
    collector got;
    const auto fault = read_lent(test::part(3, 4096), test::make_buffer(4096, 3), reader, got);
    EXPECT_EQ(fault.value_or("no fault"),
              most == 4096 ? "no fault" : "4096 bytes are lent, must be at most 4032 (frame at byte 0)");
  }
}

TEST(FrameReader, WhatIsLentIsLookedAtAsWhatIsSent) {
  const wire::message head = wire::push_part{{0}, {1}, {{0}, {0}, {7}}, {0, 512}, kernels::form::int8};
  auto payload = test::make_buffer(wire::payload_bytes(head));
  payload.as<float>()[0] = std::numeric_limits<float>::infinity();
  frame_reader reader({});
  collector got;
  EXPECT_EQ(read_lent(head, payload, reader, got), "a scale of elements encoded as int8 is not finite (frame at byte 0)");
  EXPECT_TRUE(got.clocks.empty());
}

TEST(FrameReader, AScaleThatIsNoNumberEndsTheReading) {
  const wire::message head = wire::push_part{{0}, {1}, {{0}, {0}, {7}}, {0, 512}, kernels::form::int8};
  const std::size_t scales = 2 * sizeof(float), bytes = wire::payload_bytes(head);
  for (const bool bad : {false, true}) {
    auto payload = test::make_buffer(bytes); // any elements are good
    std::fill_n(payload.as<float>(), scales / sizeof(float), 0.5F);
    if (bad)
      payload.as<float>()[1] = std::numeric_limits<float>::quiet_NaN();
    collector got;
    const auto fault = read_one(head, payload, got);
    EXPECT_EQ(fault.value_or("no fault"),
              bad ? "a scale of elements encoded as int8 is not finite (frame at byte 0)" : "no fault");
    EXPECT_EQ(got.clocks.size(), bad ? 0U : 1U);
  }
}

TEST(FrameReader, APlaceOutsideItsRangeEndsTheReading) {
  const std::vector<float> values(512, 0.5F);
  for (const auto& [place, sum] : {std::pair{3U, false}, {511U, false}, {511U, true}}) {
    const std::vector<std::uint32_t> places{place};
    const auto as = sum ? kernels::form::sparse_fp32 : kernels::form::sparse_bf16;
    const auto bytes = static_cast<std::uint32_t>(kernels::sparse_bytes(as, {0, 512}, places));
    auto payload = test::make_buffer(bytes);
    kernels::encode_sparse(as, {0, 512}, places, values, payload.span<std::byte>());
    const wire::range where{0, place == 3 ? 512 : 256}; // of the others the bytes are of more than the head says
    const wire::message head = sum ? wire::message{wire::partial_part{{0}, {1}, {7}, where, false, 0, as, bytes}}
                                   : wire::message{wire::push_part{{0}, {1}, {{0}, {0}, {7}}, where, as, bytes}};
    collector got;
    const auto fault = read_one(head, payload, got);
    EXPECT_EQ(fault.value_or("no fault"),
              place == 3 ? "no fault"
              : sum      ? "a place of elements encoded as sparse_fp32 is not in their range (frame at byte 0)"
                         : "a place of elements encoded as sparse_bf16 is not in their range (frame at byte 0)");
  }
}

TEST(FrameReader, FactorsThatAreNotOfTheirBytesEndTheReading) {
  const std::vector<float> left(2 * 24, 0.5F), right(2 * 16, 2.0F);
  const kernels::matrix_part part{0, 24 * 16};
  const auto bytes = static_cast<std::uint32_t>(kernels::factors_bytes(2, 16, part));
  for (const bool bad : {false, true}) {
    auto payload = test::make_buffer(bytes);
    kernels::encode_factors({2, 24, 16, left.data(), right.data()}, part, payload.span<std::byte>());
    if (bad)
      payload.as<std::uint32_t>()[0] = 3;
    collector got;
    const auto fault =
        read_one(wire::push_part{{0}, {1}, {{0}, {0}, {7}}, {0, 384}, kernels::form::factors, bytes}, payload, got);
    EXPECT_EQ(fault.value_or("no fault"),
              bad ? "the number of elements encoded as factors is not that of their bytes (frame at byte 0)" : "no fault");
    EXPECT_EQ(got.clocks.size(), bad ? 0U : 1U);
  }
}

TEST(FrameReader, RandomReadsGiveTheSameFrames) {
  const auto bytes = stream();
  for (std::uint32_t seed = 0; seed < 50; ++seed) {
    std::mt19937 random(seed);
    frame_reader reader({});
    collector got;
    EXPECT_EQ(feed(reader, got, bytes, [&] { return 1 + random() % 9000; }), std::nullopt) << "seed " << seed;
    EXPECT_EQ(got.clocks.size(), sizes.size()) << "seed " << seed;
    EXPECT_TRUE(got.intact) << "seed " << seed;
  }
}

TEST(FrameReader, FaultSaysWhereItsFrameBegan) {
  auto bytes = stream();
  const std::size_t good = bytes.size();
  bytes.resize(good + 64, std::byte{0xff});
  frame_reader reader({});
  collector got;
  const auto fault = feed(reader, got, bytes, [] { return std::size_t{1000}; });
  ASSERT_TRUE(fault);
  EXPECT_NE(fault->find("(frame at byte " + std::to_string(good) + ")"), std::string::npos) << *fault;
  EXPECT_EQ(got.clocks.size(), sizes.size());
}

TEST(FrameReader, StopsWhenTheReceiverSaysSo) {
  frame_reader reader({});
  collector got;
  got.stop_after = 2;
  const auto bytes = stream();
  const auto room = reader.room()[0];
  std::memcpy(room.data(), bytes.data(), 10'000);
  EXPECT_EQ(reader.advance(10'000, got), std::nullopt);
  EXPECT_EQ(got.clocks.size(), 2U);
}

TEST(FrameReader, LimitsHoldUntilTheyAreRaised) {
  const auto bytes = stream();
  frame_reader reader({.head_bytes = 4080, .payload_bytes = 0});
  collector got;
  const auto fault = feed(reader, got, bytes, [] { return std::size_t{100}; });
  ASSERT_TRUE(fault);
  EXPECT_NE(fault->find("payload of 64 bytes, must be 8 to 0"), std::string::npos) << *fault;

  frame_reader raised({.head_bytes = 4080, .payload_bytes = 0});
  raised.raise_limits({});
  EXPECT_EQ(feed(raised, got, bytes, [] { return std::size_t{100'000}; }), std::nullopt);
}

} // namespace
} // namespace troupe::actors::net
