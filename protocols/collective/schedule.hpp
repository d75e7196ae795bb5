// SPDX-License-Identifier: BSD-3-Clause
// Who sends what to whom in an allreduce: schedules as pure functions of the ranks there are.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "protocols/runs.hpp"

namespace troupe::protocols::collective {

/// How the sum of a range of S bytes comes to all of P ranks.
///
/// | | stages | sent by a rank | a segment's sum |
/// | --- | --- | --- | --- |
/// | direct | 2 | 2 (P - 1) / P S | in rank order, by its owner: as a shard sums |
/// | ring (Patarasuk and Yuan 2009) | 2 (P - 1) | 2 (P - 1) / P S | around the ring, from the rank of its number |
/// | halving (Rabenseifner 2004, binary blocks) | 2 lg b + 2 (blocks - 1) | at most 2 S; by all 2 (P - 1) S | a fixed tree |
/// | broadcast (Xie et al. 2016) | 1 | (P - 1) S | in rank order, by every rank: as a shard sums |
/// | tree (Sanders, Speck, Traeff 2009) | at most 2 ceil(lg P) | at most 2 S; by all 2 (P - 1) S | a fixed tree |
///
/// The blocks of `halving` are the powers of two that add up to P, the largest first; b is the largest.
enum class algorithm : std::uint8_t { direct, ring, halving, tree, broadcast };

std::string_view name_of(algorithm which);
/// Nothing if there is none of this name.
std::optional<algorithm> algorithm_named(std::string_view name);
/// For `auto`: by a fixed table, so that a run repeats. `direct` is done in two stages, but then every rank sends to every other
/// at once; beyond 8 ranks `halving` for what takes less time than its stages, and `ring` for what takes more.
algorithm algorithm_for(std::uint32_t ranks, std::uint64_t bytes);

/// The ranks that make a sum. In groups, the first of each adds the others' terms to its own, takes part in the algorithm for all
/// of them, and gives them the sum: where a group is what shares a host, a host sends and receives as one rank would.
struct topology {
  std::uint32_t ranks = 1;
  std::vector<std::uint32_t> groups{}; ///< their sizes, in the order of ranks; empty: every rank for itself

  topology(std::uint32_t alone) : ranks(alone) {}
  /// Of ranks in a row for which `key` is the same.
  template <class Key>
  topology(std::uint32_t count, Key key) : ranks(count), groups(sizes_of_runs(count, key)) {
    if (groups.size() == count)
      groups.clear();
  }
  /// Those that take part in the algorithm.
  std::uint32_t parties() const { return groups.empty() ? ranks : static_cast<std::uint32_t>(groups.size()); }
};

/// What a stage moves. Of an algorithm in which each segment has an owner, who sums it from the terms themselves: terms on their
/// way to the owner, or sums on their way from there. Copy: a term on its way to all; its place becomes the sum before they have
/// read it. Plain: anything else, and what stays within a group.
enum class cargo : std::uint8_t { plain, term, sum, copy };
cargo cargo_of(algorithm which, const topology& among, std::uint32_t stage);

/// Whether who sums has the terms themselves, in rank order.
bool sums_terms(algorithm which);

/// In how many segments a range is cut: as evenly as it goes, the same at every rank.
std::uint32_t segments(algorithm which, const topology& among);

/// What a rank does with the segments [first, last).
///
/// `send`: what it has of them goes to `peer`. `take`: what comes from `peer` replaces what it has. `add`: what comes is a term
/// of a sum that replaces what it has; the terms are those of all `add`s of a stage and segment, in their order, and what the
/// rank itself had is the one whose peer is the rank.
struct step {
  enum class kind : std::uint8_t { send, add, take } does = kind::send;
  std::uint32_t stage = 0; ///< with it, sender, receiver and `first` name a message
  std::uint32_t peer = 0;
  std::uint32_t first = 0, last = 0;
  friend bool operator==(const step&, const step&) = default;
};

/// The steps of one rank. A step waits for those before it in the list that share a segment with it, and for nothing else but
/// what comes from its peer. In the end every rank has the same sum of every segment, bit for bit.
///
/// What is sent, but for a `cargo::copy`, may be sent by reference: a rank overwrites a segment only with what depends on each
/// receiver of it having read it. Empty for one rank; `rank` is below `among.ranks`.
std::vector<step> schedule(algorithm which, const topology& among, std::uint32_t rank);

} // namespace troupe::protocols::collective
