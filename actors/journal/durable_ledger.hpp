// SPDX-License-Identifier: BSD-3-Clause
// The ledger of a cluster: a member of Raft over a journal.
#pragma once

#include <string>
#include <vector>

#include "actors/journal/journal.hpp"
#include "protocols/ledger.hpp"
#include "protocols/raft.hpp"

namespace troupe::actors {

/// A folder that one process has at a time: it keeps a lock on the file `lock` there, which goes with the process.
class folder_lock {
public:
  /// Makes the folder where it is missing. Throws std::runtime_error where another process has it, or it cannot be written.
  explicit folder_lock(const std::string& folder);
  ~folder_lock();
  folder_lock(const folder_lock&) = delete;
  folder_lock& operator=(const folder_lock&) = delete;

private:
  int descriptor_;
};

/// One of several that decide together; alone it decides at once. Of one thread; it waits for the disk. A disk that fails is
/// final: std::runtime_error, from each further call, too.
class durable_ledger {
public:
  /// Begins with all that was decided before: what is in the journal is committed, for nobody else has a say. Throws
  /// std::runtime_error where another process has the folder, the journal is damaged (with file and offset), or the disk fails.
  explicit durable_ledger(const std::string& folder);
  /// One of several: `names` are those of all of them, in the order of their numbers, and the same at all. They are kept in the
  /// folder, and others are refused: with another majority, what was decided could be lost. `now` is of a monotonic clock.
  durable_ledger(const std::string& folder, const protocols::raft::options& as, const std::vector<std::string>& names,
                 protocols::nanoseconds now);

  const protocols::ledger::state& state() const { return state_; }
  /// Alone: returns once the entry is on the disk and applied; or else why it is not to be decided, and it never will be. Where
  /// the disk fails, the entry may still be there when the journal is read again.
  std::string decide(const protocols::ledger::entry& entry);
  /// Of the bytes that a crash left of the last decision, which nobody was told of.
  std::uint64_t torn_bytes() const { return journal_.torn_bytes(); }

  // Of several: what is to be sent, once what it rests on is on the disk.
  using messages = std::vector<protocols::raft::message>;
  messages on(const protocols::raft::message& msg, protocols::nanoseconds now);
  messages on(const protocols::raft::tick& msg, protocols::nanoseconds now);
  /// It is decided once `commit` has come to `last`, as it is after this call, while this member leads; nobody knows if it ceases
  /// to.
  messages propose(const protocols::ledger::entry& entry, protocols::nanoseconds now);
  const protocols::raft::state& member() const { return member_.state(); }

private:
  messages carry_out(const protocols::raft::effects& effects);
  void install(const protocols::raft::snapshot& from);
  void apply(const protocols::raft::entry& decided);
  void compact_if_long();

  folder_lock lock_;
  std::string folder_;
  journal journal_;
  protocols::raft::member member_;
  protocols::ledger::state state_;
};

} // namespace troupe::actors
