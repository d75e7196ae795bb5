// SPDX-License-Identifier: BSD-3-Clause
// The ledger: what a cluster decides about its jobs, and must not decide twice.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <variant>
#include <vector>

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
  friend bool operator==(const submitted&, const submitted&) = default;
};
/// It begins, or begins again.
struct started {
  job_number number = 0;
  std::uint32_t life = 0;           ///< 1: the first; each follows the one before
  std::vector<std::string> nodes{}; ///< on which it begins
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
using entry = std::variant<submitted, started, ended, forgotten>;

// -- what they came to

struct job_end {
  ending how = ending::done;
  std::string reason{};
  bytes outcome{};
  friend bool operator==(const job_end&, const job_end&) = default;
};
struct job {
  bool detached = false;
  bytes submission{};
  std::uint32_t life = 0; ///< 0: it has not begun
  std::vector<std::string> nodes{};
  std::optional<job_end> end{};
  friend bool operator==(const job&, const job&) = default;
};
struct state {
  job_number last = 0; ///< that was given
  std::map<job_number, job> jobs{};
  friend bool operator==(const state&, const state&) = default;
};

/// What the jobs of a ledger may take together, so that a snapshot of it is less than 1 MiB.
inline constexpr std::size_t most_bytes = 640U << 10U;
/// Kept free for what each job still comes to: its nodes, and how it ends.
inline constexpr std::size_t most_of_nodes = 1024, most_of_end = 1536;

/// Of the jobs, with what is kept free for them.
std::size_t size_of(const state& of);
/// Why the entry is not to be decided, where the ledger has no room for it: what is full, and what would be right. Empty: there
/// is room. A job that was submitted has room for what follows, up to the limits above.
std::string no_room_for(const state& in, const entry& what);
/// Whether it changed something. An entry that is repeated, late or malformed does not: a job whose number was given, a life that
/// does not follow, a second end, an unknown job, one that is forgotten before its end.
bool apply(state& to, const entry& what);
/// Whether entries can have come to this.
bool sound(const state& what);

} // namespace troupe::protocols::ledger
