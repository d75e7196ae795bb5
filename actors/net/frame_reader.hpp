// SPDX-License-Identifier: BSD-3-Clause
// From a stream of bytes to frames, with payloads read directly to where they will be used. Uses no socket.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "kernels/buffer.hpp"
#include "protocols/wire/codec.hpp"

namespace troupe::actors::net {

/// `room` says where to read the next bytes, `advance` that they have come.
///
/// Invariant: outside of a payload, `bytes_` holds what has come of at most one frame's table and head, and it is large enough
/// for the largest that the limits allow. While a payload is being read `bytes_` is empty.
class frame_reader {
public:
  class sink {
  public:
    virtual ~sink() = default;
    /// A frame has begun. Before `place` and `accept`; false ends the reading.
    virtual bool begins(const protocols::wire::decoded& head) = 0;
    /// Memory of exactly `bytes` bytes for the payload of `head`.
    virtual kernels::buffer place(const protocols::wire::message& head, std::size_t bytes) = 0;
    /// Fills `into` with the payload that is lent at this address of the sender; false ends the reading.
    virtual bool borrow(std::uint64_t address, const kernels::buffer& into) = 0;
    /// A complete frame; false ends the reading.
    virtual bool accept(protocols::wire::content body, kernels::buffer payload) = 0;
  };

  explicit frame_reader(const protocols::wire::frame_limits& limits);

  /// For the frames that follow; limits never shrink. May be called from within `accept`.
  void raise_limits(const protocols::wire::frame_limits& limits);

  /// Two places to be filled in this order; the second may be empty.
  std::array<std::span<std::byte>, 2> room();

  /// `bytes` bytes have been read into `room`. Returns an error if they are not a valid frame, with its position in the stream.
  std::optional<std::string> advance(std::size_t bytes, sink& to);

  /// Whether the stream may end here.
  bool between_frames() const { return !message_ && begin_ == end_; }
  /// Bytes of complete frames so far.
  std::uint64_t position() const { return position_; }

private:
  enum class step : std::uint8_t { again, need_more, stop };

  step parse_frame(sink& to);
  step finish_payload(sink& to);
  step deliver(sink& to);
  std::span<std::byte> bytes() { return std::as_writable_bytes(std::span(bytes_)); }

  protocols::wire::frame_limits limits_;
  std::vector<std::uint64_t> bytes_;                // words, so that a head is aligned
  std::size_t begin_ = 0, end_ = 0;                 // what has come and is not parsed yet
  std::uint64_t position_ = 0;                      // of the frame that is being read
  std::size_t frame_bytes_ = 0;                     // of the frame whose payload is being read
  std::optional<protocols::wire::message> message_; // whose payload is being read
  kernels::buffer payload_;
  std::size_t payload_end_ = 0;
  std::string fault_;
};

} // namespace troupe::actors::net
