// SPDX-License-Identifier: BSD-3-Clause
// Frames that wait to be written, most urgent first. Uses no socket and no lock.
#pragma once

#include <cstddef>
#include <deque>
#include <map>
#include <span>
#include <vector>

#include "kernels/buffer.hpp"
#include "protocols/wire/codec.hpp"

namespace troupe::actors::net {

/// A frame and what keeps its payload alive.
struct outgoing {
  protocols::wire::frame frame;
  kernels::buffer payload;
  std::size_t bytes() const { return frame.head_bytes().size() + frame.payload.size(); }
};

/// Lower priorities first; within one, first in first out.
///
/// A gathered batch is committed: frames pushed later go after it, even urgent ones. So batches are kept small.
class send_queue {
public:
  /// A batch is closed once it has this many bytes (its last frame may exceed them) or frames.
  static constexpr std::size_t batch_bytes = 256U << 10U, batch_frames = 32;

  void push(int priority, outgoing frame);

  /// What to write next: the rest of the batch or a new one; empty if nothing waits. The spans stay valid until the `consume`
  /// that finishes them; `push` does not move them.
  std::span<const std::span<const std::byte>> gather();

  /// The first `bytes` of the gathered spans were written. Returns the finished frames, for the caller to release.
  std::vector<outgoing> consume(std::size_t bytes);

  /// Bytes that are not written yet.
  std::size_t bytes() const { return bytes_; }

private:
  std::map<int, std::deque<outgoing>> waiting_; // no empty deques
  std::deque<outgoing> batch_;
  std::size_t written_ = 0; // of the batch's first frame
  std::size_t bytes_ = 0;
  std::vector<std::span<const std::byte>> spans_;
};

} // namespace troupe::actors::net
