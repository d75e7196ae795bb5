// SPDX-License-Identifier: BSD-3-Clause
// What is encoded is what is decoded, and what must not travel does not.
#include "protocols/wire/codec.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <map>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "tests/protocols/wire_samples.hpp"

namespace troupe::protocols::wire {
namespace {

class Codec : public testing::TestWithParam<test::sample> {};

std::string name_of(const testing::TestParamInfo<test::sample>& info) {
  return info.param.name;
}

TEST_P(Codec, RoundTripGivesTheSameMessage) {
  const auto payload = test::payload_for(GetParam().body);
  const auto bytes = std::as_bytes(std::span(payload));
  const std::uint64_t received = 0x0123'4567'89ab'cdef;
  const auto frame = encode(GetParam().body, bytes, received);
  ASSERT_TRUE(frame) << frame.error().text;

  const auto table = parse_table(frame->head_bytes(), {});
  ASSERT_TRUE(table) << table.error().text;
  ASSERT_TRUE(*table);
  EXPECT_EQ((*table)->table_bytes + (*table)->head_bytes, frame->head_bytes().size());
  EXPECT_EQ((*table)->payload_bytes, bytes.size());

  const auto head = frame->head_bytes().subspan((*table)->table_bytes);
  const auto decoded = decode_head(head, bytes.size());
  ASSERT_TRUE(decoded) << decoded.error().text;
  EXPECT_EQ(decoded->body, GetParam().body);
  EXPECT_EQ(decoded->received, received);
  EXPECT_TRUE(check_payload(head, bytes));
}

TEST_P(Codec, PayloadIsReferencedNotCopied) {
  const auto payload = test::payload_for(GetParam().body);
  const auto frame = encode(GetParam().body, std::as_bytes(std::span(payload)));
  ASSERT_TRUE(frame);
  EXPECT_EQ(static_cast<const void*>(frame->payload.data()), static_cast<const void*>(payload.data()));
  EXPECT_LE(frame->head_bytes().size(), max_head_bytes + 16);
}

INSTANTIATE_TEST_SUITE_P(Ordinary, Codec, testing::ValuesIn(test::ordinary()), name_of);
INSTANTIATE_TEST_SUITE_P(Extreme, Codec, testing::ValuesIn(test::extreme()), name_of);

TEST(CodecRules, NotANumberLossTravels) {
  push lost = test::whole_push();
  lost.loss = std::numeric_limits<double>::quiet_NaN();
  const auto frame = encode(message{push_end{{1}, lost, 0}});
  ASSERT_TRUE(frame);
  const auto decoded = decode_head(frame->head_bytes().subspan(8), 0);
  ASSERT_TRUE(decoded);
  EXPECT_TRUE(std::isnan(std::get<push_end>(std::get<message>(decoded->body)).push.loss));
}

TEST(CodecRules, TicketsStayAtHome) {
  push with_ticket = test::whole_push();
  with_ticket.gradient = ticket{99};
  const auto frame = encode(message{push_end{{1}, with_ticket, 0}});
  ASSERT_TRUE(frame);
  const auto decoded = decode_head(frame->head_bytes().subspan(8), 0);
  ASSERT_TRUE(decoded);
  EXPECT_EQ(std::get<push_end>(std::get<message>(decoded->body)).push, test::whole_push());
}

TEST(CodecRules, ReasonsAreCutAndMadePrintable) {
  const auto frame = encode(bye{"\x1b[2Jgone\n" + std::string(2 * max_reason_bytes, 'x'), true});
  ASSERT_TRUE(frame);
  const auto decoded = decode_head(frame->head_bytes().subspan(8), 0);
  ASSERT_TRUE(decoded);
  const std::string& reason = std::get<bye>(decoded->body).reason;
  EXPECT_EQ(reason.substr(0, 10), "?[2Jgone?x");
  EXPECT_EQ(reason.size(), max_reason_bytes);
}

// What a sender is told about a message that it must not send.
std::string fault_of(const content& body, std::span<const std::byte> payload = {}) {
  const auto frame = encode(body, payload);
  if (frame)
    return "no fault";
  EXPECT_EQ(frame.error().code, errc::bad_message);
  return frame.error().text;
}

TEST(CodecRules, RangesAreOrderedAndMultiplesOf16) {
  for (const range where : {range{32, 16}, range{-16, 16}, range{0, 17}, range{8, 16}})
    EXPECT_NE(fault_of(message{push_part{{0}, {0}, {}, where}}).find("multiples of 16"), std::string::npos);
}

TEST(CodecRules, PayloadHasTheSizeOfTheRange) {
  alignas(8) const std::byte bytes[192]{};
  const message part = push_part{{0}, {0}, {}, {0, 32}};
  EXPECT_EQ(fault_of(part, std::span(bytes).first(64)), "payload has 64 bytes, the message says 128");
  EXPECT_EQ(fault_of(part), "payload has 0 bytes, the message says 128");
  EXPECT_EQ(fault_of(message{addressed<drop_order>{}}, std::span(bytes).first(64)), "payload has 64 bytes, the message says 0");
  EXPECT_EQ(fault_of(part, std::span(bytes).subspan(4, 128)), "payload is not aligned to 8 bytes");
}

// What is lent: the address stands for the payload, and nothing else changes.
TEST(CodecRules, APayloadThatIsLentStaysWhereItIs) {
  alignas(8) const std::byte bytes[128]{};
  const message part = push_part{{1}, {2}, test::some_push(), {0, 32}};
  const auto frame = encode_lent(part, bytes, 7);
  ASSERT_TRUE(frame);
  EXPECT_TRUE(frame->payload.empty());
  const auto decoded = decode_head(frame->head_bytes().subspan(8), 0);
  ASSERT_TRUE(decoded);
  EXPECT_EQ(std::get<message>(decoded->body), part);
  EXPECT_EQ(decoded->received, 7U);
  EXPECT_EQ(decoded->lent_at, reinterpret_cast<std::uintptr_t>(&bytes));
  EXPECT_EQ(decode_head(frame->head_bytes().subspan(8), 128).error().text, "payload of 128 bytes, the message says 0");
}

TEST(CodecRules, OnlyAWholePayloadIsLent) {
  alignas(8) const std::byte bytes[192]{};
  const message part = push_part{{0}, {0}, {}, {0, 32}}, small = addressed<drop_order>{};
  EXPECT_EQ(encode_lent(part, std::span(bytes).first(64)).error().text, "payload has 64 bytes, the message says 128");
  EXPECT_EQ(encode_lent(part, std::span(bytes).subspan(4, 128)).error().text, "payload is not aligned to 8 bytes");
  EXPECT_EQ(encode_lent(small, {}).error().text, "there is no payload to lend");
  EXPECT_EQ(encode_lent(beat{}, {}).error().text, "there is no payload to lend");
}

/// Decodes what is lent at another address, or what lends what another message has.
std::string fault_of_lent(const message& in_its_place, std::uint64_t at) {
  auto head = *encode(in_its_place, {}, 0x5eed'5eed'5eed'5eed);
  // `received` is followed by `lentAt`.
  const auto found = std::ranges::find(head.head, 0x5eed'5eed'5eed'5eed);
  *(found + 1) = at;
  const auto decoded = decode_head(head.head_bytes().subspan(8), 0);
  return decoded ? "no fault" : decoded.error().text;
}

TEST(CodecRules, NothingIsLentWithAMessageThatHasNoPayload) {
  const message small = addressed<drop_order>{};
  EXPECT_EQ(fault_of_lent(small, 0), "no fault");
  EXPECT_EQ(fault_of_lent(small, 8), "a payload is lent with a message that has none");
  EXPECT_EQ(fault_of_lent(small, 12), "what is lent does not lie at a word");
}

TEST(CodecRules, ASecretIsNotNothing) {
  EXPECT_EQ(decode_head(encode(lending{1, 64, {}})->head_bytes().subspan(8), 0).error().text,
            "a process lends its memory without a secret");
  EXPECT_TRUE(decode_head(encode(lending{1, 64, {0, 1}})->head_bytes().subspan(8), 0));
}

TEST(CodecRules, AnEncodedPayloadHasTheSizeOfItsForm) {
  alignas(8) const std::byte bytes[1024]{};
  using kernels::form;
  const std::map<form, std::size_t> wanted{{form::fp32, 1024}, {form::fp16, 512}, {form::bf16, 512},
                                           {form::int8, 264},  {form::int4, 136}, {form::onebit, 40}};
  for (const auto& [as, size] : wanted) {
    const message part = push_part{{0}, {0}, {}, {512, 768}, as};
    EXPECT_EQ(payload_bytes(part), size) << kernels::name_of(as);
    EXPECT_TRUE(encode(part, std::span(bytes).first(size)));
    EXPECT_EQ(fault_of(part, std::span(bytes).first(size - 8)),
              fmt::format("payload has {} bytes, the message says {}", size - 8, size));
  }
  EXPECT_EQ(fault_of(message{push_part{{0}, {0}, {}, {0, 32}, form{10}}}), "elements of the unknown form 10; there are 10");
}

TEST(CodecRules, ASparsePayloadSaysItsSizeAndIsNoLargerThanAsItIs) {
  alignas(8) const std::byte bytes[1024]{};
  using kernels::form;
  for (const form as : {form::sparse_fp32, form::sparse_bf16, form::sparse_sign, form::factors})
    for (const std::uint32_t size : {8U, 1024U}) {
      const message part = push_part{{0}, {0}, {}, {512, 768}, as, size};
      EXPECT_EQ(payload_bytes(part), size);
      EXPECT_TRUE(encode(part, std::span(bytes).first(size)));
    }
  const auto refused = [](std::uint32_t size, form as) {
    return fault_of(message{push_part{{0}, {0}, {}, {512, 768}, as, size}});
  };
  for (const std::uint32_t size : {4U, 12U, 1032U, 0xfffffff8U})
    EXPECT_NE(refused(size, form::sparse_bf16).find("which take a multiple of 8"), std::string::npos) << size;
  EXPECT_NE(refused(1032, form::factors).find("as factors, which take a multiple of 8"), std::string::npos);
  EXPECT_NE(refused(8, form::int8).find("8 bytes of elements 512..768 as int8"), std::string::npos) << "its size is known";
  EXPECT_EQ(fault_of(message{partial_part{{0}, {1}, {2}, {0, 32}, false, 0, form::int8}}),
            "a sum in the form 3, which loses some of it");
}

TEST(CodecRules, NumbersThatSteerTheSumAreFinite) {
  close round = test::small_close();
  round.contributions[1].weight = std::numeric_limits<double>::quiet_NaN();
  EXPECT_EQ(fault_of(message{addressed<close>{{1}, round}}), "a contribution's weight is nan, must be finite");
  round = test::small_close();
  round.step.lr_scale = std::numeric_limits<double>::infinity();
  EXPECT_EQ(fault_of(message{addressed<close>{{1}, round}}), "learning-rate scale is inf, must be finite");
}

TEST(CodecRules, TermsOfAPerPushRuleStayAtHome) {
  for (auto change : {+[](close& c) { c.compensate.lambda = 0.1; }, +[](close& c) { c.compensate.adaptive = true; },
                      +[](close& c) { c.compensate.backup = ticket{4}; }}) {
    close round = test::small_close();
    change(round);
    EXPECT_EQ(fault_of(message{addressed<close>{{1}, round}}),
              "terms of a rule that applies each push alone, which has no lane to its holder");
  }
}

TEST(CodecRules, CountsAreInRange) {
  push wrong = test::whole_push();
  wrong.samples = -1;
  EXPECT_EQ(fault_of(message{push_end{{1}, wrong, 0}}), "samples is -1, must be 0 or more");
  EXPECT_EQ(fault_of(message{addressed<arrival>{{1}, {{0}, wrong}}}), "samples is -1, must be 0 or more");
  send_order order;
  order.period = 0;
  EXPECT_EQ(fault_of(message{addressed<send_order>{{1}, order}}), "period is 0, must be 1 or more");
  order = {};
  order.to.resize(max_listed_workers + 1);
  EXPECT_EQ(fault_of(message{addressed<send_order>{{1}, order}}), "2049 workers to send to, at most 2048 fit into a frame");
}

} // namespace
} // namespace troupe::protocols::wire
