// SPDX-License-Identifier: BSD-3-Clause
// A push is complete at its trailer and its last part, whichever comes last, and counts once.
#include "actors/roles/holder/push_inbox.hpp"

#include <algorithm>
#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <vector>

#include <gtest/gtest.h>

namespace troupe::actors {
namespace {

namespace wire = protocols::wire;
using protocols::push_id;

constexpr flat_range whole{0, 64}, left{0, 32}, right{32, 64};

kernels::buffer floats(std::size_t bytes) {
  auto block = std::make_shared<std::vector<float>>(bytes / sizeof(float));
  return {block, block->data(), bytes};
}

kernels::buffer zeros(std::size_t bytes) {
  return floats(bytes);
}

push_id id(std::uint32_t worker, std::uint64_t clock, std::uint32_t incarnation = 0) {
  return {{worker}, {incarnation}, {clock}};
}

class PushInbox : public testing::Test {
protected:
  std::shared_ptr<push_assembler> parts = std::make_shared<push_assembler>(whole, floats);
  push_inbox inbox{parts};

  std::optional<complete<protocols::push>> part(const push_id& of, flat_range where) {
    auto payload = floats(static_cast<std::size_t>(where.size()) * sizeof(float));
    payload.as<float>()[0] = static_cast<float>(of.clock.value);
    return inbox.add(wire::push_part{{}, {1}, of, {where.begin, where.end}}, payload);
  }
  std::optional<complete<protocols::push>> trailer(const push_id& of, std::uint32_t count = 2, std::int64_t samples = 16) {
    return inbox.add(wire::push_end{{}, {.epoch = {1}, .id = of, .samples = samples}, count});
  }
  std::optional<complete<protocols::push>> whole_push(const push_id& of) {
    part(of, left);
    part(of, right);
    return trailer(of);
  }
  /// Whether anything of this push takes memory.
  bool holds(const push_id& of) const { return parts->parts(of) > 0; }
};

TEST_F(PushInbox, APushIsCompleteAtItsTrailer) {
  EXPECT_FALSE(part(id(3, 1), left));
  EXPECT_FALSE(part(id(3, 1), right));
  auto done = trailer(id(3, 1));
  ASSERT_TRUE(done);
  EXPECT_EQ(done->message.id, id(3, 1));
  EXPECT_EQ(done->message.samples, 16);
  EXPECT_EQ(done->bytes(), 64 * sizeof(float));
  EXPECT_FALSE(holds(id(3, 1)));
}

TEST_F(PushInbox, AnEncodedPartIsDecodedToItsPlace) {
  const std::vector<float> values{1, -2, 3, -4, 0.5F};
  std::vector<float> all(32, 0.25F);
  std::ranges::copy(values, all.begin());
  for (const auto form : {kernels::form::fp16, kernels::form::int8, kernels::form::onebit}) {
    const auto of = id(3, 1 + static_cast<std::uint64_t>(form));
    wire::push_part head{{}, {1}, of, {right.begin, right.end}, form};
    auto codes = floats(kernels::encoded_bytes(form, head.where.elements()));
    kernels::encode(form, head.where.elements(), {.seed = 5}, all, codes.span<std::byte>());
    std::vector<float> wanted(32);
    kernels::decode(form, head.where.elements(), codes.span<const std::byte>(), wanted);
    part(of, left);
    EXPECT_FALSE(inbox.add(head, codes));
    const auto done = trailer(of);
    ASSERT_TRUE(done);
    EXPECT_EQ(std::vector<float>(done->tensor->as<float>() + 32, done->tensor->as<float>() + 64), wanted);
  }
}

TEST_F(PushInbox, ACodedPushHasTheBytesThatWereSent) {
  wire::push_part head{{}, {1}, id(3, 1), {whole.begin, whole.end}, kernels::form::int8};
  EXPECT_FALSE(inbox.add(head, zeros(kernels::encoded_bytes(head.as, head.where.elements()))));
  const auto done = trailer(id(3, 1), 1);
  ASSERT_TRUE(done);
  EXPECT_EQ(done->bytes(), 72U) << "a scale, 64 elements, and up to a multiple of 8";
  EXPECT_EQ(done->tensor->bytes(), 64 * sizeof(float));
}

TEST_F(PushInbox, OfBytesThatAreNotOfTheirFormNothingIsDecoded) {
  wire::push_part head{{}, {1}, id(3, 1), {whole.begin, whole.end}, kernels::form::onebit};
  auto codes = zeros(kernels::encoded_bytes(head.as, head.where.elements()));
  codes.as<float>()[1] = std::numeric_limits<float>::infinity();
  EXPECT_FALSE(inbox.add(head, codes));
  EXPECT_FALSE(inbox.add(head, zeros(codes.bytes() - 8)));
  EXPECT_FALSE(holds(id(3, 1)));
  EXPECT_FALSE(trailer(id(3, 1), 1));
}

TEST_F(PushInbox, ATrailerThatOvertookItsPartsWaitsForThem) {
  EXPECT_FALSE(trailer(id(3, 1)));
  EXPECT_FALSE(part(id(3, 1), right));
  auto done = part(id(3, 1), left);
  ASSERT_TRUE(done);
  EXPECT_EQ(done->message.samples, 16) << "what the trailer said";
}

TEST_F(PushInbox, APushWithoutSamplesIsItsTrailer) {
  auto done = trailer(id(3, 1), 0, 0);
  ASSERT_TRUE(done);
  EXPECT_FALSE(done->tensor);
}

TEST_F(PushInbox, PushesOfSeveralWorkersComeTogether) {
  for (std::uint32_t worker : {2U, 0U, 1U})
    part(id(worker, 5), left);
  for (std::uint32_t worker : {1U, 2U, 0U})
    EXPECT_FALSE(trailer(id(worker, 5)));
  for (std::uint32_t worker : {0U, 1U, 2U}) {
    auto done = part(id(worker, 5), right);
    ASSERT_TRUE(done);
    EXPECT_EQ(done->message.id.worker.value, worker);
  }
}

TEST_F(PushInbox, ARepeatedPushIsRefusedAndTakesNoMemory) {
  ASSERT_TRUE(whole_push(id(3, 7)));
  EXPECT_FALSE(whole_push(id(3, 7)));
  EXPECT_FALSE(whole_push(id(3, 6))) << "an older one";
  EXPECT_FALSE(holds(id(3, 7)));
  EXPECT_FALSE(holds(id(3, 6)));
  EXPECT_TRUE(whole_push(id(3, 8)));
}

TEST_F(PushInbox, WhatALaneReadForARepeatedPushIsLetGo) {
  ASSERT_TRUE(whole_push(id(3, 7)));
  auto here = parts->place(id(3, 7), left); // a lane does not know what the inbox has
  ASSERT_EQ(here.use_count(), 2);           // ours, and the entry's
  EXPECT_FALSE(inbox.add(wire::push_part{{}, {1}, id(3, 7), {left.begin, left.end}}, here));
  EXPECT_EQ(here.use_count(), 1);
}

TEST_F(PushInbox, ANewLifeCountsItsClockAnew) {
  ASSERT_TRUE(whole_push(id(3, 7, 0)));
  EXPECT_TRUE(whole_push(id(3, 1, 1)));
  EXPECT_FALSE(whole_push(id(3, 8, 0))) << "the incarnation before";
}

TEST_F(PushInbox, WhatADeadWorkerHadBegunIsDropped) {
  part(id(3, 1), left);
  trailer(id(3, 1));
  part(id(4, 1), left);
  trailer(id(4, 1));
  inbox.drop({3}, {0});
  EXPECT_FALSE(holds(id(3, 1)));
  EXPECT_TRUE(part(id(4, 1), right)) << "the others go on";
}

TEST_F(PushInbox, WhatComesOfADeadWorkerAfterwardsTakesNoMemory) {
  trailer(id(3, 1));
  part(id(3, 1), left);
  inbox.drop({3}, {0});
  EXPECT_FALSE(part(id(3, 1), right)) << "it was still in a lane";
  EXPECT_FALSE(part(id(3, 2), left));
  EXPECT_FALSE(trailer(id(3, 2), 0, 0));
  EXPECT_FALSE(holds(id(3, 1)));
  EXPECT_FALSE(holds(id(3, 2)));
}

TEST_F(PushInbox, ALifeAfterTheDeadOneIsHeard) {
  inbox.drop({3}, {0});
  part(id(3, 1, 2), left);
  inbox.drop({3}, {1}); // said late
  EXPECT_FALSE(part(id(3, 1, 2), right));
  EXPECT_TRUE(trailer(id(3, 1, 2)));
}

TEST_F(PushInbox, ADeathThatIsSaidLateForgetsNoNewerPush) {
  ASSERT_TRUE(whole_push(id(3, 5, 1)));
  inbox.drop({3}, {0});
  EXPECT_FALSE(whole_push(id(3, 5, 1))) << "still counted";
}

} // namespace
} // namespace troupe::actors
