// SPDX-License-Identifier: BSD-3-Clause
// Incremental parsing of lane frames.
#include "actors/net/frame_reader.hpp"

#include <algorithm>
#include <cstring>
#include <utility>

#include <fmt/format.h>

#include "kernels/assert.hpp"
#include "kernels/codec.hpp"
#include "protocols/overloaded.hpp"

namespace troupe::actors::net {
namespace {

namespace wire = protocols::wire;

constexpr std::size_t table_bytes = 16;
// The first bytes of a TLS connection.
constexpr std::array tls_record{std::byte{0x16}, std::byte{0x03}};
// How much is read beyond a payload. In a stream of large frames, each head and at most this much of the next payload is copied.
constexpr std::size_t read_ahead_bytes = 8U << 10U;

/// What is wrong with the bytes of a push or a sum; parameters are looked at by who has the image they build on.
std::optional<std::string> fault_of(const wire::message& head, std::span<const std::byte> payload) {
  const auto check = [&](const auto& part) -> std::optional<std::string> {
    if (kernels::is_sound(part.as, part.where.elements(), payload))
      return {};
    const auto wrong = [&part](const char* name, const char* as_it_should_be) {
      return fmt::format("{} of elements encoded as {} is not {}", name, kernels::name_of(part.as), as_it_should_be);
    };
    if (part.as == kernels::form::factors)
      return wrong("the number", "that of their bytes");
    return kernels::is_sparse(part.as) ? wrong("a place", "in their range") : wrong("a scale", "finite");
  };
  return std::visit(overloaded{[&](const wire::push_part& part) { return check(part); },
                               [&](const wire::partial_part& part) { return check(part); },
                               [](const auto&) -> std::optional<std::string> { return {}; }},
                    head);
}

} // namespace

frame_reader::frame_reader(const wire::frame_limits& limits)
    : limits_(limits), bytes_((limits.head_bytes + table_bytes) / sizeof(std::uint64_t)) {}

void frame_reader::raise_limits(const wire::frame_limits& limits) {
  limits_ = limits;
  bytes_.resize(std::max(bytes_.size(), (limits.head_bytes + table_bytes) / sizeof(std::uint64_t)));
}

std::array<std::span<std::byte>, 2> frame_reader::room() {
  if (!message_)
    return {bytes().subspan(end_), {}};
  return {payload_.span<std::byte>().subspan(payload_end_), bytes().first(std::min(read_ahead_bytes, bytes().size()))};
}

std::optional<std::string> frame_reader::advance(std::size_t count, sink& to) {
  if (message_) {
    const std::size_t into_payload = std::min(count, payload_.bytes() - payload_end_);
    payload_end_ += into_payload;
    count -= into_payload;
  }
  end_ += count;
  TROUPE_ASSERT(end_ <= bytes().size());
  step next = step::again;
  while (next == step::again)
    next = message_ ? finish_payload(to) : parse_frame(to);
  if (next == step::stop)
    return fault_.empty() ? std::nullopt : std::optional(fmt::format("{} (frame at byte {})", fault_, position_));
  // Makes room for the rest of the frame.
  std::memmove(bytes().data(), bytes().data() + begin_, end_ - begin_);
  end_ -= std::exchange(begin_, 0);
  return {};
}

frame_reader::step frame_reader::parse_frame(sink& to) {
  const auto fail = [&](std::string why) {
    fault_ = std::move(why);
    return step::stop;
  };
  const std::span<const std::byte> come = bytes().subspan(begin_, end_ - begin_);
  const auto table = wire::parse_table(come, limits_);
  if (!table && position_ == 0 && come.size() > 1 && come[0] == tls_record[0] && come[1] == tls_record[1])
    return fail("it speaks TLS, and this node has no certificate");
  if (!table)
    return fail(table.error().text);
  if (!*table || come.size() < (*table)->table_bytes + (*table)->head_bytes)
    return step::need_more;
  const wire::frame_layout layout = **table;
  const auto head = come.subspan(layout.table_bytes, layout.head_bytes);
  auto decoded = wire::decode_head(head, layout.payload_bytes);
  if (!decoded)
    return fail(decoded.error().text);
  if (!to.begins(*decoded))
    return step::stop;
  auto& body = decoded->body;
  const bool lent = decoded->lent_at != 0;
  frame_bytes_ = layout.table_bytes + layout.head_bytes + layout.payload_bytes;
  begin_ += layout.table_bytes + layout.head_bytes;
  if (layout.payload_bytes == 0 && !lent) {
    position_ += frame_bytes_;
    return to.accept(std::move(body), {}) ? step::again : step::stop;
  }
  message_ = std::get<wire::message>(std::move(body));
  const std::size_t payload_bytes = lent ? wire::payload_bytes(*message_) : layout.payload_bytes;
  if (payload_bytes > limits_.payload_bytes)
    return fail(fmt::format("{} bytes are lent, must be at most {}", payload_bytes, limits_.payload_bytes));
  payload_ = to.place(*message_, payload_bytes);
  payload_end_ = 0;
  TROUPE_ASSERT(payload_.bytes() == payload_bytes);
  if (lent)
    return to.borrow(decoded->lent_at, payload_) ? deliver(to) : step::stop;
  if (const auto covers = wire::check_payload(head, payload_.span<const std::byte>()); !covers)
    return fail(covers.error().text);
  return step::again;
}

frame_reader::step frame_reader::finish_payload(sink& to) {
  // Part of the payload may have come with its head.
  const std::size_t here = std::min(payload_.bytes() - payload_end_, end_ - begin_);
  std::memcpy(payload_.data() + payload_end_, bytes().data() + begin_, here);
  payload_end_ += here;
  begin_ += here;
  return payload_end_ < payload_.bytes() ? step::need_more : deliver(to);
}

/// The message and its payload, which has come.
frame_reader::step frame_reader::deliver(sink& to) {
  if (auto fault = fault_of(*message_, payload_.span<const std::byte>())) {
    fault_ = *std::move(fault);
    return step::stop;
  }
  position_ += frame_bytes_;
  wire::content body = *std::move(message_);
  message_.reset();
  return to.accept(std::move(body), std::exchange(payload_, {})) ? step::again : step::stop;
}

} // namespace troupe::actors::net
