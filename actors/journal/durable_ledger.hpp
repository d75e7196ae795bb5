// SPDX-License-Identifier: BSD-3-Clause
// The ledger of a cluster with one coordinator: Raft of one member, over a journal.
#pragma once

#include <optional>
#include <string>

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

/// Of one thread; it waits for the disk.
class durable_ledger {
public:
  /// Begins with all that was decided before: what is in the journal is committed, for nobody else has a say. Throws
  /// std::runtime_error where another process has the folder, the journal is damaged (with file and offset), or the disk fails.
  explicit durable_ledger(const std::string& folder);

  const protocols::ledger::state& state() const { return state_; }
  /// Returns once the entry is on the disk and applied; or else why it is not to be decided, and it never will be. Throws
  /// std::runtime_error where the disk fails, which is final: each further call throws, and the entry may still be there when
  /// the journal is read again.
  std::string decide(const protocols::ledger::entry& what);
  /// Of the bytes that a crash left of the last decision, which nobody was told of.
  std::uint64_t torn_bytes() const { return journal_.torn_bytes(); }

private:
  void carry_out(const protocols::raft::effects& effects);
  void install(const protocols::raft::snapshot& from);
  void apply(const protocols::raft::entry& decided);
  void compact();

  folder_lock lock_;
  std::string folder_;
  journal journal_;
  protocols::raft::member member_;
  protocols::ledger::state state_;
};

} // namespace troupe::actors
