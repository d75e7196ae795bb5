// SPDX-License-Identifier: BSD-3-Clause
// Who has been silent for too long.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <vector>

#include "protocols/ids.hpp"

namespace troupe::protocols {

struct failure_detector_options {
  nanoseconds interval = 100'000'000;                            ///< between ticks; peers speak as often
  nanoseconds shortest = 1'000'000'000, longest = 5'000'000'000; ///< deadlines are between these
  nanoseconds tolerated_delay = 200'000'000;                     ///< of a tick
};

/// Suspects a peer that has said nothing for longer than its deadline: clamp(median + 8 MAD of its last 64 gaps, shortest,
/// longest). A gap is the time between two pieces of news, to the next tick.
///
/// Who was late himself accuses nobody: if a tick comes later than tolerated, everybody gets as much time more. So a process
/// that was stopped, or has no processor, does not take its peers for dead when it goes on.
///
/// A suspicion is repeated, a deadline later each time, until the peer is heard or forgotten. Times are of one monotonic clock.
class failure_detector {
public:
  using peer_id = std::uint32_t;
  struct suspicion {
    peer_id peer = 0;
    nanoseconds silent = 0; ///< since it was heard last, without the time that was granted
    friend bool operator==(const suspicion&, const suspicion&) = default;
  };

  explicit failure_detector(const failure_detector_options& options = {}) : options_(options) {}

  /// Counts as news of it. A peer that is watched already begins anew.
  void watch(peer_id peer, nanoseconds now);
  void forget(peer_id peer) { peers_.erase(peer); }
  /// Ignored for peers that are not watched, and for news older than the newest.
  void heard(peer_id peer, nanoseconds at);
  /// To be called every `interval`, after what was heard since the last call. By ascending peer.
  std::vector<suspicion> tick(nanoseconds now);
  /// How long the peer may be silent; `shortest` if it is not watched.
  nanoseconds deadline(peer_id peer) const;

private:
  static constexpr std::size_t most_gaps = 64;
  struct watched {
    nanoseconds heard = 0;                     // last; moved on by what was granted
    nanoseconds before = 0;                    // the news before the newest gap
    nanoseconds suspected_at = 0;              // silent for so long when suspected last; 0: it is not
    std::array<nanoseconds, most_gaps> gaps{}; // a ring
    std::size_t seen = 0;                      // gaps, ever
  };
  nanoseconds deadline_of(const watched& peer) const;

  failure_detector_options options_;
  std::map<peer_id, watched> peers_;
  nanoseconds last_tick_ = 0; // 0: none yet
};

} // namespace troupe::protocols
