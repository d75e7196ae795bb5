// SPDX-License-Identifier: BSD-3-Clause
// Lane frames: from messages to buffers for a gathered write, and back from untrusted bytes.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include <boost/system/result.hpp>

#include "protocols/wire/message.hpp"

namespace troupe::protocols::wire {

// lane.capnp says what these mean.
inline constexpr std::uint16_t protocol_version = 12;
inline constexpr std::size_t max_head_bytes = 64U << 10U;
inline constexpr std::size_t max_hello_bytes = 510 * 8;
inline constexpr std::size_t max_listed_workers = 2048;
inline constexpr std::size_t max_reason_bytes = 512;
/// The most that a frame may carry, whatever its receiver allows: Cap'n Proto itself refuses 512 MiB.
inline constexpr std::size_t max_payload_bytes = 256U << 20U;

enum class errc : int {
  bad_message = 1, ///< a message that must not be sent: breaks a rule of lane.capnp
  bad_frame,       ///< bytes that are not a frame, or a frame that breaks a rule
};
struct error {
  errc code;
  std::string text; ///< what was wrong and what would be right
};
[[noreturn]] void throw_exception_from_error(const error& e, const boost::source_location& where);
template <class T>
using result = boost::system::result<T, error>;

/// The frames that open and close a connection; see lane.capnp.
struct hello {
  enum class role : std::uint16_t { dials, accepts } as = role::dials;
  std::uint64_t job_key = 0;
  std::uint32_t node = 0;
  std::uint16_t version = protocol_version;
  std::uint32_t life = 0;
  std::uint64_t session = 0;
  friend bool operator==(const hello&, const hello&) = default;
};
struct bye {
  std::string reason; ///< longer ones are cut when encoded; control characters become '?' when decoded
  bool retry = false;
  friend bool operator==(const bye&, const bye&) = default;
};
/// Carries only how many messages have come.
struct beat {
  friend bool operator==(const beat&, const beat&) = default;
};
/// Where a secret lies in the memory of the sender, which would lend payloads.
struct lending {
  std::uint32_t process = 0;
  std::uint64_t secret_at = 0;
  std::array<std::uint64_t, 2> secret{}; ///< not both 0
  friend bool operator==(const lending&, const lending&) = default;
};
/// The sender can read what is lent.
struct borrowing {
  friend bool operator==(const borrowing&, const borrowing&) = default;
};
using content = std::variant<hello, bye, beat, lending, borrowing, message>;

/// What a head says.
struct decoded {
  content body;
  std::uint64_t received = 0; ///< messages of the session that the sender of the frame has taken
  std::uint64_t lent_at = 0;  ///< where the message's payload lies in the memory of its sender; 0: it is not lent
  friend bool operator==(const decoded&, const decoded&) = default;
};

/// Bytes of the payload that goes with a message: those of its range, in its form, or 0.
std::size_t payload_bytes(const message& msg);

/// A frame ready for a gathered write: `head`, then `payload`.
struct frame {
  std::vector<std::uint64_t> head;    ///< segment table and segment 0
  std::span<const std::byte> payload; ///< segment 1: the caller's own memory, which must outlive the frame
  std::span<const std::byte> head_bytes() const { return std::as_bytes(std::span(head)); }
};

/// Never copies the payload, which must be 8-byte aligned and exactly payload_bytes(message) long. Fails on anything that a
/// receiver would refuse, so that a mistake shows where it is made.
/// `received`: as in decoded.
result<frame> encode(const content& body, std::span<const std::byte> payload = {}, std::uint64_t received = 0);
/// Likewise for a payload that is lent: it is no part of the frame.
result<frame> encode_lent(const content& body, std::span<const std::byte> payload, std::uint64_t received = 0);

/// What a segment table says; all are multiples of 8.
struct frame_layout {
  std::size_t table_bytes = 0, head_bytes = 0, payload_bytes = 0;
  friend bool operator==(const frame_layout&, const frame_layout&) = default;
};
struct frame_limits {
  std::size_t head_bytes = max_head_bytes;
  std::size_t payload_bytes = max_payload_bytes;
};

// Decoding has steps, so that the payload can be read directly to where it will be used: the table, which bounds everything; the
// head, which says what the payload is; and, once memory for the payload is there, a check that it is in its place. No step
// allocates more than a few times the bytes that it is given, and none throws, except bad_alloc.

/// Reads the segment table at the start of `bytes`; nothing if more bytes are needed.
result<std::optional<frame_layout>> parse_table(std::span<const std::byte> bytes, const frame_limits& limits);

/// Decodes segment 0 (8-byte aligned) of a frame whose table announced `payload_bytes`, and checks every value.
result<decoded> decode_head(std::span<const std::byte> head, std::size_t payload_bytes);

/// Whether the head's pointer covers all of segment 1 and nothing else. Never looks at the payload's values unless
/// the frame is bad, so it may be asked before they have come.
result<void> check_payload(std::span<const std::byte> head, std::span<const std::byte> payload);

} // namespace troupe::protocols::wire
