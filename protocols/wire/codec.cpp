// SPDX-License-Identifier: BSD-3-Clause
// Frames by Cap'n Proto's own builder and reader, with segments of our own memory.
#include "protocols/wire/codec.hpp"

#include <algorithm>
#include <bit>
#include <cstring>
#include <stdexcept>

#include <capnp/message.h>
#include <capnp/orphan.h>
#include <fmt/format.h>

#include "protocols/wire/check.hpp"
#include "protocols/wire/schema.hpp"

namespace troupe::protocols::wire {
namespace {

static_assert(std::endian::native == std::endian::little, "payloads travel as they lie in memory");

constexpr std::size_t word = sizeof(capnp::word);

error bad(std::string why) {
  return {errc::bad_frame, std::move(why)};
}

std::uint32_t load_u32(const std::byte* bytes) {
  std::uint32_t value = 0;
  std::memcpy(&value, bytes, sizeof value);
  return value;
}

/// Builds segment 0 in the caller's memory; the payload is the only other segment.
class head_builder final : public capnp::MessageBuilder {
public:
  explicit head_builder(std::span<std::uint64_t> zeroed) : space_(zeroed) {}
  kj::ArrayPtr<capnp::word> allocateSegment(capnp::uint least) override {
    KJ_REQUIRE(least <= space_.size(), "head_words_bound is too small");
    return {reinterpret_cast<capnp::word*>(std::exchange(space_, {}).data()), size_};
  }

private:
  std::span<std::uint64_t> space_;
  std::size_t size_ = space_.size();
};

/// A frame in the caller's memory. Without a payload there is no segment 1, and a pointer to it is an error.
class head_reader final : public capnp::MessageReader {
public:
  head_reader(std::span<const std::byte> head, std::span<const std::byte> payload)
      // Every getter counts against the limit: twice the head allows for those that are called twice.
      : MessageReader({.traversalLimitInWords = (2 * head.size() + payload.size()) / word + 64, .nestingLimit = 8}),
        segments_{head, payload} {}
  kj::ArrayPtr<const capnp::word> getSegment(capnp::uint id) override {
    if (id > 1 || segments_[id].empty())
      return nullptr;
    return {reinterpret_cast<const capnp::word*>(segments_[id].data()), segments_[id].size() / word};
  }

private:
  std::span<const std::byte> segments_[2];
};

bool aligned(const void* data) {
  return reinterpret_cast<std::uintptr_t>(data) % word == 0;
}

std::optional<error> check_outgoing(const content& body, std::span<const std::byte> payload) {
  const auto wrong = [](std::string why) { return error{errc::bad_message, std::move(why)}; };
  const auto* msg = std::get_if<message>(&body);
  if (msg != nullptr)
    if (auto fault = find_fault(*msg))
      return wrong(std::move(*fault));
  const std::size_t expected = msg != nullptr ? payload_bytes(*msg) : 0;
  if (payload.size() != expected)
    return wrong(fmt::format("payload has {} bytes, the message says {}", payload.size(), expected));
  if (!aligned(payload.data()))
    return wrong("payload is not aligned to 8 bytes");
  return {};
}

/// `lent_at`: as in decoded; `payload` is that of the frame.
frame framed(const content& body, std::span<const std::byte> payload, std::uint64_t received, std::uint64_t lent_at) {
  frame made{.head = {}, .payload = payload};
  const std::size_t table_words = payload.empty() ? 1 : 2;
  made.head.resize(table_words + head_words_bound(body));
  head_builder builder(std::span(made.head).subspan(table_words));
  auto root = builder.initRoot<schema::Frame>();
  put(root, body);
  root.setReceived(received);
  root.setLentAt(lent_at);
  if (!payload.empty()) {
    const capnp::Data::Reader data(reinterpret_cast<const capnp::byte*>(payload.data()), payload.size());
    root.adoptPayload(builder.getOrphanage().referenceExternalData(data));
  }
  const auto segments = builder.getSegmentsForOutput();
  made.head.resize(table_words + segments[0].size());
  const std::uint32_t table[4] = {static_cast<std::uint32_t>(segments.size() - 1), static_cast<std::uint32_t>(segments[0].size()),
                                  static_cast<std::uint32_t>(payload.size() / word), 0};
  std::memcpy(made.head.data(), table, table_words * word);
  return made;
}

} // namespace

void throw_exception_from_error(const error& e, const boost::source_location&) {
  throw std::runtime_error(e.text);
}

std::size_t payload_bytes(const message& msg) {
  return std::visit(
      []<class Message>(const Message& m) -> std::size_t {
        if constexpr (std::is_same_v<Message, partial_part>)
          if (m.empty)
            return 0;
        if constexpr (requires { m.bytes; })
          if (kernels::says_bytes(m.as))
            return m.bytes;
        if constexpr (requires { m.as; })
          return kernels::encoded_bytes(m.as, m.where.elements());
        else if constexpr (requires { m.where; })
          return static_cast<std::size_t>(m.where.end - m.where.begin) * sizeof(float);
        return 0;
      },
      msg);
}

result<frame> encode(const content& body, std::span<const std::byte> payload, std::uint64_t received) {
  if (auto wrong = check_outgoing(body, payload))
    return *std::move(wrong);
  return framed(body, payload, received, 0);
}

result<frame> encode_lent(const content& body, std::span<const std::byte> payload, std::uint64_t received) {
  if (payload.empty())
    return error{errc::bad_message, "there is no payload to lend"};
  if (auto wrong = check_outgoing(body, payload))
    return *std::move(wrong);
  return framed(body, {}, received, reinterpret_cast<std::uintptr_t>(payload.data()));
}

result<std::optional<frame_layout>> parse_table(std::span<const std::byte> bytes, const frame_limits& limits) {
  if (bytes.size() < word)
    return std::optional<frame_layout>{};
  const std::uint32_t more_segments = load_u32(bytes.data());
  const std::size_t head = load_u32(bytes.data() + 4) * word;
  if (more_segments > 1)
    return bad(fmt::format("frame of {} segments, a lane's has 1 or 2", std::uint64_t{more_segments} + 1));
  if (head == 0 || head > limits.head_bytes)
    return bad(fmt::format("head of {} bytes, must be 8 to {}", head, limits.head_bytes));
  if (more_segments == 0)
    return std::optional(frame_layout{word, head, 0});
  if (bytes.size() < 2 * word)
    return std::optional<frame_layout>{};
  const std::size_t payload = load_u32(bytes.data() + 8) * word;
  if (payload == 0 || payload > limits.payload_bytes)
    return bad(fmt::format("payload of {} bytes, must be 8 to {}", payload, limits.payload_bytes));
  if (load_u32(bytes.data() + 12) != 0)
    return bad("segment table is not padded with zeros");
  return std::optional(frame_layout{2 * word, head, payload});
}

result<decoded> decode_head(std::span<const std::byte> head, std::size_t payload_size) try {
  if (!aligned(head.data()) || head.size() % word != 0)
    return bad("head is not made of aligned words");
  head_reader reader(head, {});
  const auto root = reader.getRoot<schema::Frame>();
  auto found = get(root);
  if (!found)
    return found.error();
  const auto* msg = std::get_if<message>(&*found);
  if (msg != nullptr)
    if (auto fault = find_fault(*msg))
      return bad(std::move(*fault));
  const std::uint64_t lent_at = root.getLentAt();
  const std::size_t all = msg != nullptr ? payload_bytes(*msg) : 0;
  if (lent_at % word != 0)
    return bad("what is lent does not lie at a word");
  if (lent_at != 0 && all == 0)
    return bad("a payload is lent with a message that has none");
  const std::size_t expected = lent_at != 0 ? 0 : all;
  if (payload_size != expected)
    return bad(fmt::format("payload of {} bytes, the message says {}", payload_size, expected));
  // Otherwise check_payload looks: a far pointer cannot even be tested for null before its segment is there.
  if (expected == 0 && root.hasPayload())
    return bad("payload in a message that has none");
  return decoded{*std::move(found), root.getReceived(), lent_at};
} catch (const kj::Exception& e) {
  return bad(fmt::format("malformed head: {}", e.getDescription().cStr()));
}

result<void> check_payload(std::span<const std::byte> head, std::span<const std::byte> payload) try {
  head_reader reader(head, payload);
  const capnp::Data::Reader data = reader.getRoot<schema::Frame>().getPayload();
  const bool covers = reinterpret_cast<const std::byte*>(data.begin()) == payload.data() && data.size() == payload.size();
  if (!payload.empty() && !covers)
    return bad("the payload pointer does not cover segment 1");
  return {};
} catch (const kj::Exception& e) {
  return bad(fmt::format("malformed payload pointer: {}", e.getDescription().cStr()));
}

} // namespace troupe::protocols::wire
