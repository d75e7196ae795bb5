// SPDX-License-Identifier: BSD-3-Clause
// Members of Raft in virtual time, with a network, disks, crashes and a client, all drawn from a seed; and what must hold.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "protocols/raft.hpp"

namespace troupe::protocols::raft::test {

/// What goes wrong while faults last. Times in nanoseconds.
struct schedule {
  std::uint64_t seed = 0;
  std::uint32_t members = 3;
  double loss = 0, repeat = 0, late = 0; ///< of a message; late ones take up to 2 s
  nanoseconds delay = 5'000'000;         ///< of the others, at most
  nanoseconds disk = 5'000'000;          ///< a write, at most
  bool crashes = false;                  ///< of any number of members; what is not written is lost, or a part of it
  bool cuts = false;                     ///< links, in one direction
  bool splits = false;                   ///< of the members into two parts
  bool pauses = false;                   ///< processes that stand still
  std::uint64_t compact_every = 0;       ///< entries; 0: never
  double hop = 0;                        ///< after a call, the member is replaced by one with its state
  /// What stays so once faults are over, of a minority: nothing, they are dead, they hear nothing, nobody hears them.
  enum class rest { whole, dead, deaf, mute } after = rest::whole;
};
schedule schedule_of(std::uint64_t seed);
std::string describe(const schedule& what);

struct outcome {
  std::vector<std::string> problems{};                                    ///< empty: sound
  std::vector<std::string> lines{};                                       ///< the last that happened
  std::uint64_t elections = 0, decided = 0, snapshots = 0, cut_short = 0; ///< snapshots that were installed; torn writes
};
/// Replaces what goes over the wire or to a disk, by what it is on the other side.
struct carrier {
  std::function<message(const message&)> wire = [](const message& as_is) { return as_is; };
  std::function<persist(const persist&)> disk = [](const persist& as_is) { return as_is; };
};
/// Checked: one leader a term, one vote a term, equal logs up to an equal entry, leaders that have all that is committed, one
/// history, each entry of it on a majority of the disks. Faults over, there is a leader within ten election timeouts, it
/// stays, all that the client proposed is decided, and every member that is reached has applied it.
outcome run(const schedule& what, const carrier& by = {});

/// Leaves out faults while it still fails.
schedule shrink(schedule what);

} // namespace troupe::protocols::raft::test
