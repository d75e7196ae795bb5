// SPDX-License-Identifier: BSD-3-Clause
// Frames that the peer may lack: those that wait to be written, most urgent first, and those that it has not counted yet. Uses no
// socket and no lock.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <span>
#include <vector>

#include "kernels/buffer.hpp"
#include "protocols/wire/codec.hpp"

namespace troupe::actors::net {

/// A frame and what keeps its payload alive.
struct outgoing {
  protocols::wire::frame frame;
  kernels::buffer payload;
  bool counted = true; ///< false: a beat or its like, which is not kept and never said again
  bool lent = false;   ///< the peer reads the payload where it lies; it is no part of the frame
  std::size_t bytes() const { return frame.head_bytes().size() + frame.payload.size(); }
  std::size_t lent_bytes() const { return lent ? payload.bytes() : 0; }
};

/// Lower priorities first; within one, first in first out.
///
/// A gathered batch is committed: frames pushed later go after it, even urgent ones. So batches are kept small, and a partition
/// of a tensor that is longer than a piece is cut when its turn comes: the rest waits on, under the same key. The order in which
/// frames are committed is their number in the session: 0, 1, 2, ... What is written stays here until the peer has counted it.
class send_queue {
public:
  /// A batch is closed once it has `batch_bytes` (its last frame may exceed them) or this many frames.
  static constexpr std::size_t batch_frames = 32;
  /// No more is written once the peer has so much to read, so that what is urgent waits for no more (one that is longer goes
  /// alone).
  static constexpr std::size_t most_lent = 8U << 20U;

  explicit send_queue(std::size_t batch_bytes = 256U << 10U) : batch_bytes_(batch_bytes) {}

  /// What is gathered from now on has payloads of at most so many bytes, if they are partitions of tensors. At least 64.
  void cut_at(std::size_t bytes) { piece_bytes_ = bytes; }

  void push(int priority, outgoing frame);

  /// What to write next: the rest of the batch or a new one; empty if nothing waits. The spans stay valid until the `consume`
  /// that finishes them, or `rewind`; `push` does not move them.
  std::span<const std::span<const std::byte>> gather();

  /// The first `bytes` of the gathered spans were written. Returns the frames that nobody needs any more, for the caller to
  /// release.
  std::vector<outgoing> consume(std::size_t bytes);

  /// The peer has counted the first `count` frames, those that `consume` has not heard of among them. Returns those that nobody
  /// needs any more; nothing if so many were never written.
  std::optional<std::vector<outgoing>> acknowledge(std::uint64_t count);

  /// The connection is lost: what the peer has not counted will be written again, in the same order, before anything else.
  /// Nothing of it is lent: the peer may have been unable to read it.
  void rewind();

  /// Bytes that are not written yet.
  std::size_t bytes() const { return bytes_; }
  /// Payloads that are lent: those that wait, those that the peer has not counted, and all that were ever written, in bytes.
  struct lending {
    std::size_t waiting = 0, open = 0;
    std::uint64_t ever = 0;
  };
  const lending& lent() const { return lent_; }

private:
  bool holds_back(const outgoing& next) const;
  outgoing take(std::deque<outgoing>& from);
  void send_what_is_lent(std::deque<outgoing>& frames);

  std::size_t batch_bytes_, piece_bytes_ = SIZE_MAX;
  std::map<int, std::deque<outgoing>> waiting_; // no empty deques
  std::deque<outgoing> again_;                  // numbered, to be written again
  std::deque<outgoing> batch_;
  std::deque<outgoing> written_; // wholly, and not acknowledged
  std::uint64_t first_ = 0;      // number of the first in written_, or of what follows
  std::uint64_t acknowledged_ = 0;
  std::size_t partly_ = 0; // bytes of the batch's first frame that are written
  std::size_t bytes_ = 0;
  lending lent_; // open: of those in batch_ and written_
  std::vector<std::span<const std::byte>> spans_;
};

} // namespace troupe::actors::net
