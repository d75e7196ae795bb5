// SPDX-License-Identifier: BSD-3-Clause
// The log of decisions: what a member of Raft has on its disk.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "protocols/ids.hpp"

namespace troupe::protocols::raft {

using member_id = strong_id<struct raft_member_tag, std::uint32_t>;
using term = strong_id<struct raft_term_tag, std::uint64_t>;       ///< 0: before the first election
using log_index = strong_id<struct raft_index_tag, std::uint64_t>; ///< of an entry; the first has 1
using payload = std::vector<std::uint64_t>;                        ///< means something to who proposed it, nothing here

/// The index after this one.
inline log_index next(log_index index) {
  return {index.value + 1};
}

struct entry {
  log_index index{};
  raft::term term{}; ///< of the leader that wrote it
  payload words{};   ///< empty: the first entry of a leader
  friend bool operator==(const entry&, const entry&) = default;
};
/// What came of all entries up to `index`, which need not be kept any more. Less than 1 MiB.
struct snapshot {
  log_index index{}; ///< 0: of none
  raft::term term{}; ///< of the last of them
  payload words{};
  friend bool operator==(const snapshot&, const snapshot&) = default;
};
/// What a member must not forget, and so has on a disk.
struct stored {
  raft::term term{};
  std::optional<member_id> vote{}; ///< in this term
  raft::snapshot snapshot{};
  std::vector<entry> log{}; ///< those after the snapshot

  log_index last() const { return {snapshot.index.value + log.size()}; } ///< the snapshot's where the log is empty
  raft::term last_term() const { return log.empty() ? snapshot.term : log.back().term; }
  /// Of the entry, or the snapshot's; nothing where neither is here.
  std::optional<raft::term> term_at(log_index index) const;
  /// The last one up to `index` that is of no later term, or the one before the snapshot: where two logs differ after `index`,
  /// they may be the same up to there.
  log_index last_not_after(log_index index, raft::term in) const;
  /// Those after `index`, which is here, up to `upto`.
  std::vector<entry> between(log_index index, log_index upto) const;
  /// In the place of what stands there and after it.
  void write(entry fresh);
  /// What follows the same entry stays in the log; another's is no continuation.
  void compact(raft::snapshot upto);
  friend bool operator==(const stored&, const stored&) = default;
};
/// Whether these entries may follow one at `previous`, of term `since`, in a log of term `in`: without a gap, and no term falls.
bool well_formed(const std::vector<entry>& log, log_index previous, term since, term in);
/// Whether the log may follow the snapshot.
bool sound(const stored& disk);

/// Write it to the disk. What comes later, of this call and of all that follow, waits until it is there.
struct persist {
  raft::term term{};
  std::optional<member_id> vote{};
  std::optional<raft::snapshot> snapshot{}; ///< this and `entries` are instead of all that was there
  std::vector<entry> entries{};             ///< the first one's place, and what stood after it, are theirs
  friend bool operator==(const persist&, const persist&) = default;
};
/// What is on the disk once `what` is there, too. Not necessarily sound, if `what` did not come from the same member.
void keep(stored& disk, const persist& news);

} // namespace troupe::protocols::raft
