// SPDX-License-Identifier: BSD-3-Clause
// Frames leave by urgency, whole, and with nothing lost to partial writes.
#include "actors/net/send_queue.hpp"

#include <algorithm>
#include <random>

#include "actors/net/delivery_rate.hpp"
#include "tests/actors/lane_harness.hpp"

namespace troupe::actors::net {
namespace {

namespace wire = protocols::wire;

outgoing frame_of(std::uint64_t clock, std::size_t bytes = 0) {
  auto payload = bytes == 0 ? kernels::buffer{} : test::make_buffer(bytes, static_cast<std::uint32_t>(clock));
  auto made = wire::encode(bytes == 0 ? test::order(clock) : test::part(clock, bytes), payload.span<const std::byte>());
  return {*std::move(made), std::move(payload)};
}

std::size_t size_of(std::span<const std::span<const std::byte>> parts) {
  std::size_t bytes = 0;
  for (const auto part : parts)
    bytes += part.size();
  return bytes;
}

std::vector<std::uint64_t> clocks(const std::vector<outgoing>& done) {
  std::vector<std::uint64_t> found;
  for (const outgoing& each : done) {
    const auto table = **wire::parse_table(each.frame.head_bytes(), {});
    const auto head = wire::decode_head(each.frame.head_bytes().subspan(table.table_bytes), table.payload_bytes);
    found.push_back(test::clock_of(std::get<wire::message>(head->body)));
  }
  return found;
}

/// Writes what was gathered, and has the peer count `frames` more; `counted` of them before.
std::vector<std::uint64_t> pass(send_queue& queue, std::span<const std::span<const std::byte>> parts, std::uint64_t counted,
                                std::uint64_t frames) {
  EXPECT_TRUE(queue.consume(size_of(parts)).empty());
  return clocks(*queue.acknowledge(counted + frames));
}

TEST(SendQueue, LowerPriorityValueGoesFirstAndEqualsKeepTheirOrder) {
  send_queue queue;
  queue.push(2, frame_of(20));
  queue.push(1, frame_of(10));
  queue.push(2, frame_of(21));
  queue.push(1, frame_of(11));
  queue.push(-5, frame_of(1));
  EXPECT_EQ(pass(queue, queue.gather(), 0, 5), (std::vector<std::uint64_t>{1, 10, 11, 20, 21}));
  EXPECT_EQ(queue.bytes(), 0U);
  EXPECT_TRUE(queue.gather().empty());
}

TEST(SendQueue, UrgentOvertakesWhatIsNotYetInABatch) {
  send_queue queue;
  queue.push(5, frame_of(1, 1U << 20U));
  queue.push(5, frame_of(2, 1U << 20U));
  const auto first = queue.gather(); // the first large frame fills a batch
  queue.push(0, frame_of(3));
  EXPECT_EQ(pass(queue, first, 0, 1), (std::vector<std::uint64_t>{1}));
  EXPECT_EQ(pass(queue, queue.gather(), 1, 2), (std::vector<std::uint64_t>{3, 2}));
}

TEST(SendQueue, UrgentWaitsForTheFrameThatIsPartlyWritten) {
  send_queue queue;
  queue.push(5, frame_of(1, 1U << 20U));
  queue.gather();
  EXPECT_TRUE(queue.consume(1000).empty());
  queue.push(0, frame_of(2));
  EXPECT_EQ(pass(queue, queue.gather(), 0, 1), (std::vector<std::uint64_t>{1}));
  EXPECT_EQ(pass(queue, queue.gather(), 1, 1), (std::vector<std::uint64_t>{2}));
}

TEST(SendQueue, SmallFramesShareABatch) {
  send_queue queue;
  for (std::uint64_t i = 0; i < 100; ++i)
    queue.push(0, frame_of(i));
  EXPECT_EQ(queue.gather().size(), send_queue::batch_frames);
}

TEST(SendQueue, AnyPartialWritesGiveTheSameBytes) {
  std::mt19937 random(7);
  send_queue queue;
  std::vector<std::byte> expected, written;
  const std::size_t sizes[] = {0, 64, 4096, 300U << 10U, 0, 0, 128, 1U << 20U, 64};
  for (std::uint64_t i = 0; i < std::size(sizes); ++i) {
    const outgoing each = frame_of(i, sizes[i]);
    expected.insert(expected.end(), each.frame.head_bytes().begin(), each.frame.head_bytes().end());
    expected.insert(expected.end(), each.frame.payload.begin(), each.frame.payload.end());
    queue.push(0, frame_of(i, sizes[i]));
  }
  EXPECT_EQ(queue.bytes(), expected.size());
  while (queue.bytes() > 0) {
    const auto parts = queue.gather();
    std::size_t take = std::min<std::size_t>(1 + random() % 100'000, size_of(parts));
    const std::size_t taken = take;
    for (const auto part : parts) {
      const std::size_t here = std::min(take, part.size());
      written.insert(written.end(), part.begin(), part.begin() + static_cast<std::ptrdiff_t>(here));
      take -= here;
    }
    EXPECT_TRUE(queue.consume(taken).empty());
  }
  EXPECT_EQ(queue.acknowledge(std::size(sizes))->size(), std::size(sizes));
  EXPECT_EQ(written, expected);
}

TEST(SendQueue, KeepsWhatThePeerHasNotCounted) {
  send_queue queue;
  for (std::uint64_t i = 0; i < 3; ++i)
    queue.push(0, frame_of(i));
  EXPECT_TRUE(queue.consume(size_of(queue.gather())).empty());
  EXPECT_EQ(clocks(*queue.acknowledge(2)), (std::vector<std::uint64_t>{0, 1}));
  EXPECT_TRUE(queue.acknowledge(1)->empty()); // what came late says nothing new
  EXPECT_FALSE(queue.acknowledge(4));         // only three were ever written
  queue.rewind();
  EXPECT_GT(queue.bytes(), 0U);
  queue.push(0, frame_of(3));
  queue.consume(size_of(queue.gather()));
  EXPECT_EQ(clocks(*queue.acknowledge(4)), (std::vector<std::uint64_t>{2, 3}));
}

TEST(SendQueue, BeatsAreNeitherCountedNorSaidAgain) {
  send_queue queue;
  outgoing beat = frame_of(100);
  beat.counted = false;
  queue.push(0, frame_of(0));
  queue.push(0, std::move(beat));
  queue.push(0, frame_of(1));
  queue.gather();
  queue.rewind();
  const auto all = size_of(queue.gather());
  EXPECT_EQ(all, queue.bytes());
  EXPECT_TRUE(queue.consume(all).empty());
  EXPECT_EQ(clocks(*queue.acknowledge(2)), (std::vector<std::uint64_t>{0, 1}));
}

/// The partitions of what was gathered: where each lies in its tensor, and the bytes that it brings.
std::vector<std::pair<wire::range, std::span<const std::byte>>> partitions(std::span<const std::span<const std::byte>> parts) {
  std::vector<std::pair<wire::range, std::span<const std::byte>>> out;
  for (std::size_t i = 0; i < parts.size(); ++i) { // each begins with a head
    const auto table = **wire::parse_table(parts[i], {});
    const auto head = wire::decode_head(parts[i].subspan(table.table_bytes), table.payload_bytes);
    if (const auto* part = std::get_if<wire::push_part>(&std::get<wire::message>(head->body)))
      out.emplace_back(part->where, parts[++i]);
  }
  return out;
}

TEST(SendQueue, WhatIsEncodedIsNotCut) {
  send_queue queue(64U << 10U);
  queue.cut_at(64U << 10U);
  const wire::message head = wire::push_part{{0}, {1}, {{0}, {0}, {1}}, {0, 1 << 18}, kernels::form::int8};
  auto payload = test::make_buffer(wire::payload_bytes(head));
  std::ranges::fill(payload.span<std::byte>(), std::byte{0});
  queue.push(0, {*wire::encode(head, payload.span<const std::byte>()), payload});
  const auto pieces = partitions(queue.gather());
  ASSERT_EQ(pieces.size(), 1U);
  EXPECT_EQ(pieces.front().first, (wire::range{0, 1 << 18}));
}

TEST(SendQueue, AnUrgentFrameWaitsForOnePieceOfAPartition) {
  send_queue queue(64U << 10U);
  queue.cut_at(64U << 10U);
  const outgoing whole = frame_of(1, (1U << 20U) + 64);
  queue.push(5, {whole.frame, whole.payload});
  std::vector<std::pair<wire::range, std::span<const std::byte>>> pieces;
  for (std::uint64_t turn = 0; queue.bytes() > 0; ++turn) {
    const auto parts = queue.gather();
    for (const auto& piece : partitions(parts))
      pieces.push_back(piece);
    if (turn == 3)
      queue.push(0, frame_of(2));
    EXPECT_EQ(parts.size(), turn == 4 ? 3U : 2U) << "a head and a piece, and the urgent one has overtaken the rest";
    EXPECT_TRUE(queue.consume(size_of(parts)).empty());
  }
  ASSERT_EQ(pieces.size(), 17U) << "16 pieces, and 64 bytes";
  std::int64_t next = 0;
  for (const auto& [where, bytes] : pieces) {
    EXPECT_EQ(where.begin, next);
    EXPECT_EQ(bytes.data(), whole.frame.payload.data() + where.begin * 4) << "nothing is copied";
    EXPECT_EQ(static_cast<std::int64_t>(bytes.size()), (where.end - where.begin) * 4);
    next = where.end;
  }
  EXPECT_EQ(next, ((1 << 20) + 64) / 4);
  EXPECT_EQ(queue.acknowledge(18)->size(), 18U);
}

TEST(SendQueue, WhatHasANumberIsNotCutAgain) {
  send_queue queue;
  queue.push(0, frame_of(1, 128U << 10U));
  EXPECT_EQ(partitions(queue.gather()).size(), 1U);
  queue.cut_at(64);
  queue.rewind();
  EXPECT_EQ(partitions(queue.gather()).size(), 1U);
}

TEST(SendQueue, OnlyPartitionsAreCut) {
  send_queue queue;
  queue.cut_at(64);
  const auto payload = test::make_buffer(1024, 1);
  const wire::message record = wire::decision_part{{0}, {0, 256}, 1};
  queue.push(0, {*wire::encode(record, payload.span<const std::byte>()), payload});
  EXPECT_EQ(queue.gather().size(), 2U) << "head and payload";
}

TEST(DeliveryRate, IsThatOfBytesWhileOthersWait) {
  using namespace std::chrono_literals;
  delivery_rate rate;
  const delivery_rate::clock::time_point start{};
  EXPECT_FALSE(rate.in(2ms));
  rate.took(1'000'000, true, start); // it went into an empty socket
  rate.took(50'000, true, start + 2ms);
  rate.took(50'000, true, start + 5ms);
  EXPECT_EQ(rate.in(1ms), 20'000U);
  rate.took(7, false, start + 6ms);
  EXPECT_FALSE(rate.measures());
  rate.took(1'000'000, true, start + 10s); // nothing waited for ten seconds
  rate.took(10'000, true, start + 10s + 10ms);
  EXPECT_EQ(rate.in(1ms), 1'000U);
}

outgoing lent_frame(std::uint64_t clock, std::size_t bytes) {
  auto payload = test::make_buffer(bytes, static_cast<std::uint32_t>(clock));
  auto made = wire::encode_lent(test::part(clock, bytes), payload.span<const std::byte>());
  return {*std::move(made), std::move(payload), true, true};
}

TEST(SendQueue, NoMoreIsLentThanThePeerMayHaveToRead) {
  send_queue queue;
  constexpr std::size_t half = send_queue::most_lent / 2;
  for (std::uint64_t clock = 1; clock <= 3; ++clock)
    queue.push(5, lent_frame(clock, half));
  queue.push(5, lent_frame(4, 2 * send_queue::most_lent));
  EXPECT_EQ(queue.lent().waiting, 7 * half);
  EXPECT_TRUE(queue.consume(size_of(queue.gather())).empty());
  EXPECT_EQ(queue.lent().open, 2 * half);
  EXPECT_TRUE(queue.gather().empty()); // the third waits
  EXPECT_GT(queue.bytes(), 0U);
  queue.push(0, frame_of(10)); // and who is urgent does not
  EXPECT_TRUE(queue.consume(size_of(queue.gather())).empty());
  EXPECT_EQ(clocks(*queue.acknowledge(1)), (std::vector<std::uint64_t>{1}));
  EXPECT_TRUE(queue.consume(size_of(queue.gather())).empty());
  EXPECT_EQ(queue.lent().open, 2 * half);
  EXPECT_EQ(clocks(*queue.acknowledge(4)), (std::vector<std::uint64_t>{2, 10, 3}));
  EXPECT_EQ(queue.lent().open, 0U);
  EXPECT_GT(size_of(queue.gather()), 0U); // one that is longer goes alone
  EXPECT_EQ(queue.lent().open, 4 * half);
  EXPECT_EQ(queue.lent().waiting, 0U);
  EXPECT_EQ(queue.lent().ever, 7 * half);
}

TEST(SendQueue, WhatWasLentOverALostConnectionIsSent) {
  send_queue queue;
  for (std::uint64_t clock = 1; clock <= 3; ++clock)
    queue.push(5, lent_frame(clock, 4096));
  const std::size_t heads = queue.bytes();
  EXPECT_TRUE(queue.consume(size_of(queue.gather()) - 1).empty()); // the third is not written wholly
  queue.push(5, lent_frame(4, 4096));
  ASSERT_TRUE(queue.acknowledge(1));
  queue.rewind();
  EXPECT_EQ(queue.lent().open + queue.lent().waiting, 0U);
  EXPECT_GT(queue.bytes(), heads + 2 * 4096);
  const auto parts = queue.gather();
  EXPECT_EQ(size_of(parts), queue.bytes());
  ASSERT_EQ(parts.size(), 6U); // three heads, each with its payload
  for (std::size_t i = 0; i < 3; ++i) {
    const auto table = **wire::parse_table(parts[2 * i], {});
    const auto head = wire::decode_head(parts[2 * i].subspan(table.table_bytes), table.payload_bytes);
    ASSERT_TRUE(head);
    EXPECT_EQ(head->lent_at, 0U);
    EXPECT_EQ(test::clock_of(std::get<wire::message>(head->body)), i + 2);
    const auto payload = test::make_buffer(4096, static_cast<std::uint32_t>(i + 2));
    EXPECT_TRUE(std::ranges::equal(parts[2 * i + 1], payload.span<const std::byte>()));
  }
  EXPECT_TRUE(queue.consume(size_of(parts)).empty());
  EXPECT_EQ(queue.bytes(), 0U);
}

/// What of a stream a peer takes: whole frames, in order.
struct peer {
  void hear(std::span<const std::byte> bytes) {
    come.insert(come.end(), bytes.begin(), bytes.end());
    for (;;) {
      const auto table = wire::parse_table(come, {});
      if (!*table || come.size() < (*table)->table_bytes + (*table)->head_bytes + (*table)->payload_bytes)
        return;
      const auto head =
          wire::decode_head(std::span(come).subspan((*table)->table_bytes, (*table)->head_bytes), (*table)->payload_bytes);
      if (const auto* message = std::get_if<wire::message>(&head->body)) {
        taken.push_back(test::clock_of(*message));
        ++count;
      }
      come.erase(come.begin(),
                 come.begin()
                     + static_cast<std::ptrdiff_t>((*table)->table_bytes + (*table)->head_bytes + (*table)->payload_bytes));
    }
  }
  std::vector<std::byte> come;
  std::vector<std::uint64_t> taken;
  std::uint64_t count = 0;
};

// Connections break after any byte; some of what was written is lost, and what the peer has counted is known late.
TEST(SendQueue, WhereverConnectionsBreakEachFrameIsTakenOnceAndInOrder) {
  for (std::uint32_t seed = 0; seed < 200; ++seed) {
    std::mt19937 random(seed);
    send_queue queue;
    peer to;
    std::uint64_t pushed = 0;
    const std::uint64_t messages = 60;
    while (to.count < messages) {
      for (auto more = random() % 4; more > 0 && pushed < messages; --more, ++pushed)
        queue.push(0, frame_of(pushed, random() % 3 == 0 ? 64 * (1 + random() % 20'000) : 0));
      if (random() % 8 == 0) {
        outgoing beat = {*wire::encode(wire::beat{}), {}, false};
        queue.push(-1, std::move(beat));
      }
      const auto parts = queue.gather();
      const std::size_t written = size_of(parts) == 0 ? 0 : random() % (size_of(parts) + 1);
      // A break loses the end of what was written.
      const bool breaks = random() % 5 == 0;
      std::size_t heard = breaks && written > 0 ? random() % (written + 1) : written;
      for (const auto part : parts) {
        to.hear(part.first(std::min(heard, part.size())));
        heard -= std::min(heard, part.size());
      }
      if (random() % 2 == 0) { // the peer's answer may come before the writer has taken note
        ASSERT_TRUE(queue.acknowledge(to.count));
      }
      if (breaks && random() % 2 == 0) {
        to.come.clear();
        ASSERT_TRUE(queue.acknowledge(to.count));
        queue.rewind();
        continue;
      }
      queue.consume(written);
      if (breaks) {
        to.come.clear();
        ASSERT_TRUE(queue.acknowledge(to.count));
        queue.rewind();
      }
    }
    ASSERT_EQ(to.taken.size(), messages) << "seed " << seed;
    for (std::uint64_t i = 0; i < messages; ++i)
      ASSERT_EQ(to.taken[i], i) << "seed " << seed;
    ASSERT_TRUE(queue.acknowledge(messages));
    ASSERT_FALSE(queue.acknowledge(messages + 1)) << "seed " << seed;
  }
}

} // namespace
} // namespace troupe::actors::net
