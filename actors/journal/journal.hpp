// SPDX-License-Identifier: BSD-3-Clause
// The journal: what a member of Raft has on its disk, and cannot lose by a crash.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "protocols/raft_log.hpp"

namespace troupe::actors {

/// The newest format that this program writes and reads.
inline constexpr std::uint32_t journal_format = 1;

/// A folder with one file, `journal-N`, a segment of frames. A frame is one `persist`: all of it is read again, or nothing.
/// What replaces all that was there (a snapshot, with the entries after it) begins segment N + 1, which takes the place of
/// segment N once it is whole on the disk. So a journal is as long as what came since the last snapshot.
///
/// segment, all numbers little-endian:
///     byte 0   "TROUPEJL"; UInt32 format; UInt32 CRC32C of the 12 bytes before
///     byte 16  frames: UInt32 length of the body in bytes, a multiple of 8; UInt32 CRC32C of the length and the body; the body,
///              a message of raft.capnp's Persist
///
/// A bad last frame is what a crash leaves of a write whose fsync never came back: nobody was told of it, and it is cut off. The
/// first frame cannot be that, for a segment gets its name when it is on the disk. A bad frame that a good one follows cannot,
/// either: it is damage. Damage of the last frame cannot be told from a torn write.
///
/// Of one thread; it waits for the disk. Its folder belongs to it alone, which it does not check.
class journal {
public:
  /// Opens the folder, which is made if it is missing, and reads what is there; a new journal is empty, and durable. Removes what
  /// a crash left behind. Throws std::runtime_error with file and offset where the journal is damaged, and changes nothing then;
  /// or where the disk fails.
  explicit journal(const std::string& folder);
  ~journal();
  journal(const journal&) = delete;
  journal& operator=(const journal&) = delete;

  /// What was on the disk when it was opened, and what was written since. Sound.
  const protocols::raft::stored& contents() const { return contents_; }
  /// Returns once it is on the disk. What fails throws std::runtime_error and is final: after an error of fsync the kernel has
  /// dropped what it could not write. So nothing is written after it, and each further call throws. Begin again with what
  /// the disk has, in a new process.
  void write(const protocols::raft::persist& persisted);

  /// Of the bytes that a crash left of the last frame, and that were cut off.
  std::uint64_t torn_bytes() const { return torn_bytes_; }
  const std::string& segment() const { return path_; } ///< the file that is written to

private:
  void recover(std::uint64_t number);
  void begin_segment(std::uint64_t number, const protocols::raft::persist& first);
  void append(std::span<const std::byte> frame);
  void open_to_write();

  std::string folder_, path_; ///< of the segment
  std::uint64_t number_ = 0, end_ = 0, torn_bytes_ = 0;
  int descriptor_ = -1;
  bool failed_ = false;
  protocols::raft::stored contents_;
};

} // namespace troupe::actors
