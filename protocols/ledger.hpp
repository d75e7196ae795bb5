// SPDX-License-Identifier: BSD-3-Clause
// The ledger: what a cluster decides about its jobs, and must not decide twice.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <variant>
#include <vector>

#include "protocols/message.hpp"

/// Entries are applied in the order in which they were decided, and every copy of the ledger comes to the same. It has no clock
/// and asks nobody.
namespace troupe::protocols::ledger {

using job_number = std::uint64_t; ///< from 1 on, in the order of submission; none is given twice
using bytes = std::vector<std::byte>;

/// How a job ended.
enum class ending : std::uint8_t { done, failed, interrupted };

// -- entries

/// A job is in the queue. The bytes mean something to the cluster, nothing here.
struct submitted {
  job_number number = 0;
  bool detached = false; ///< it needs no client
  bytes submission{};
  std::uint32_t roles = 0; ///< its workers, holders and nodes, at the most
  friend bool operator==(const submitted&, const submitted&) = default;
};
/// It begins, or begins again.
struct started {
  job_number number = 0;
  std::uint32_t life = 0;           ///< 1: the first; each follows the one before
  std::vector<std::string> nodes{}; ///< on which it begins
  std::uint64_t key = 0;            ///< of its lanes, which tells this life's nodes from all others
  friend bool operator==(const started&, const started&) = default;
};
/// It is over, for good.
struct ended {
  job_number number = 0;
  ending how = ending::done;
  std::string reason{};
  bytes outcome{}; ///< for whoever asks later; means nothing here
  friend bool operator==(const ended&, const ended&) = default;
};
/// Nobody asks for it any more.
struct forgotten {
  job_number number = 0;
  friend bool operator==(const forgotten&, const forgotten&) = default;
};

// While it runs: what nobody may decide again, who leads next, but otherwise. None of these comes once a step. Each is of a life.

/// It goes on under this plan: who takes part, in which incarnation, and by which protocol.
struct planned {
  job_number number = 0;
  std::uint32_t life = 0;
  protocols::plan plan{};
  friend bool operator==(const planned&, const planned&) = default;
};
/// A process of a node, or a worker, is asked for that has this incarnation in the job; no other one ever has it.
struct incarnated {
  job_number number = 0;
  std::uint32_t life = 0;
  bool worker = false; ///< else a node, and all its workers
  std::uint32_t index = 0;
  std::uint32_t incarnation = 0;
  friend bool operator==(const incarnated&, const incarnated&) = default;
};
/// A backup is the shard from now on.
struct promoted {
  job_number number = 0;
  std::uint32_t life = 0;
  holder_id shard{}, by{};
  std::uint64_t view = 0; ///< as in takes_over
  friend bool operator==(const promoted&, const promoted&) = default;
};
/// A shard gets another backup, on this node of the job: that begins to copy it. No holder had its number before.
struct placed {
  job_number number = 0;
  std::uint32_t life = 0;
  holder_id copy{}, shard{};
  std::uint32_t node = 0;
  friend bool operator==(const placed&, const placed&) = default;
};
/// That backup has all of its shard, and may take its place.
struct copied {
  job_number number = 0;
  std::uint32_t life = 0;
  holder_id copy{};
  friend bool operator==(const copied&, const copied&) = default;
};
/// A holder that is no shard is out, for good.
struct holder_lost {
  job_number number = 0;
  std::uint32_t life = 0;
  holder_id holder{};
  friend bool operator==(const holder_lost&, const holder_lost&) = default;
};
/// A checkpoint has its manifest.
struct checkpointed {
  job_number number = 0;
  std::uint32_t life = 0;
  version ver{};
  friend bool operator==(const checkpointed&, const checkpointed&) = default;
};
using entry =
    std::variant<submitted, started, ended, forgotten, planned, incarnated, promoted, holder_lost, checkpointed, placed, copied>;

// -- what they came to

struct job_end {
  ending how = ending::done;
  std::string reason{};
  bytes outcome{};
  friend bool operator==(const job_end&, const job_end&) = default;
};
/// A backup that came later.
struct late_copy {
  holder_id shard{};
  std::uint32_t node = 0;
  bool whole = false;
  friend bool operator==(const late_copy&, const late_copy&) = default;
};
/// What was decided of a job in its newest life.
struct course {
  std::uint64_t key = 0;
  protocols::plan plan{};                                  ///< the newest; epoch 0: there is none yet
  std::map<std::uint32_t, protocols::incarnation> nodes{}; ///< the newest of each that has had more than its first
  std::map<worker_id, protocols::incarnation> workers{};   ///< likewise of those that were restarted by themselves
  std::map<holder_id, holder_id> acting{};                 ///< by shard: the backup that is in its place
  std::set<holder_id> gone{};                              ///< first holders that are out, or in a shard's place
  std::uint64_t view = 0;                                  ///< how often a backup has taken the lead
  std::vector<version> checkpoints{};                      ///< the newest, in their order
  std::map<holder_id, late_copy> copies{};                 ///< that are there, also in a shard's place
  holder_id first_copy{}, newest_copy{};                   ///< of all that ever came later; 0: none did
  bool is_late(holder_id who) const { return first_copy != holder_id{} && who >= first_copy; }
  bool acts(holder_id who) const {
    return std::ranges::any_of(acting, [who](const auto& each) { return each.second == who; });
  }
  friend bool operator==(const course&, const course&) = default;
};
struct job {
  bool detached = false;
  bytes submission{};
  std::uint32_t life = 0; ///< 0: it has not begun
  std::vector<std::string> nodes{};
  std::optional<job_end> end{};
  std::uint32_t roles = 0;
  ledger::course course{};
  friend bool operator==(const job&, const job&) = default;
};
struct state {
  job_number last = 0; ///< that was given
  std::map<job_number, job> jobs{};
  friend bool operator==(const state&, const state&) = default;
};

/// What the jobs of a ledger may take together, so that a snapshot of it is less than 1 MiB.
inline constexpr std::size_t most_bytes = 640U << 10U;
/// Kept free for what each job still comes to: its nodes, and how it ends; the protocol of a plan, and each role's part in it.
inline constexpr std::size_t most_of_nodes = 1024, most_of_end = 1536, most_of_protocol = 512, most_of_role = 56;
/// How many of a job's checkpoints are remembered.
inline constexpr std::size_t most_checkpoints = 16;

/// Of the jobs, with what is kept free for them.
std::size_t size_of(const state& of);
/// Why the entry is not to be decided, where the ledger has no room for it: what is full, and what would be right. Empty: there
/// is room. A job that was submitted has room for what follows, up to the limits above; a plan may be beyond them.
std::string no_room_for(const state& in, const entry& entry);
/// Whether it changed something. An entry that is repeated, late or malformed does not: a job whose number was given, a life that
/// does not follow, a second end, an unknown job, one that is forgotten before its end; of a job that runs, whatever is of
/// another life, a plan or an incarnation that is not newer, a backup that is out or not whole, a view that does not follow, a
/// copy whose number was given.
bool apply(state& to, const entry& entry);
/// Whether entries can have come to this.
bool sound(const state& of);

} // namespace troupe::protocols::ledger
