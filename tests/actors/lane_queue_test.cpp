// SPDX-License-Identifier: BSD-3-Clause
// Frames leave by urgency, whole, and with nothing lost to partial writes.
#include "actors/net/send_queue.hpp"

#include <algorithm>
#include <random>

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
    found.push_back(test::clock_of(std::get<wire::message>(*head)));
  }
  return found;
}

TEST(SendQueue, LowerPriorityValueGoesFirstAndEqualsKeepTheirOrder) {
  send_queue queue;
  queue.push(2, frame_of(20));
  queue.push(1, frame_of(10));
  queue.push(2, frame_of(21));
  queue.push(1, frame_of(11));
  queue.push(-5, frame_of(1));
  EXPECT_EQ(clocks(queue.consume(size_of(queue.gather()))), (std::vector<std::uint64_t>{1, 10, 11, 20, 21}));
  EXPECT_EQ(queue.bytes(), 0U);
  EXPECT_TRUE(queue.gather().empty());
}

TEST(SendQueue, UrgentOvertakesWhatIsNotYetInABatch) {
  send_queue queue;
  queue.push(5, frame_of(1, 1U << 20U));
  queue.push(5, frame_of(2, 1U << 20U));
  const auto first = queue.gather(); // the first large frame fills a batch
  queue.push(0, frame_of(3));
  EXPECT_EQ(clocks(queue.consume(size_of(first))), (std::vector<std::uint64_t>{1}));
  EXPECT_EQ(clocks(queue.consume(size_of(queue.gather()))), (std::vector<std::uint64_t>{3, 2}));
}

TEST(SendQueue, UrgentWaitsForTheFrameThatIsPartlyWritten) {
  send_queue queue;
  queue.push(5, frame_of(1, 1U << 20U));
  queue.gather();
  EXPECT_TRUE(queue.consume(1000).empty());
  queue.push(0, frame_of(2));
  EXPECT_EQ(clocks(queue.consume(size_of(queue.gather()))), (std::vector<std::uint64_t>{1}));
  EXPECT_EQ(clocks(queue.consume(size_of(queue.gather()))), (std::vector<std::uint64_t>{2}));
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
  std::size_t done = 0;
  while (queue.bytes() > 0) {
    const auto parts = queue.gather();
    std::size_t take = std::min<std::size_t>(1 + random() % 100'000, size_of(parts));
    const std::size_t taken = take;
    for (const auto part : parts) {
      const std::size_t here = std::min(take, part.size());
      written.insert(written.end(), part.begin(), part.begin() + static_cast<std::ptrdiff_t>(here));
      take -= here;
    }
    done += queue.consume(taken).size();
  }
  EXPECT_EQ(done, std::size(sizes));
  EXPECT_EQ(written, expected);
}

} // namespace
} // namespace troupe::actors::net
