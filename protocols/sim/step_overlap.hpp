// SPDX-License-Identifier: BSD-3-Clause
// What of its communication a worker's computing hides: with which parameters a step could begin.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <vector>

#include "protocols/sim/message.hpp"
#include "protocols/sim/options.hpp"

namespace troupe::protocols::sim {

inline nanoseconds share_of(nanoseconds duration, double share) {
  return static_cast<nanoseconds>(share * static_cast<double>(duration));
}

/// What a shard has of all that is before this place: a share of its own range.
inline double share_in(double place, std::size_t shard, std::size_t shards) {
  return std::clamp(place * static_cast<double>(shards) - static_cast<double>(shard), 0.0, 1.0);
}

/// What a gradient is cut into, by plan.
class step_cuts {
public:
  /// It keeps the reference.
  explicit step_cuts(const options& job) : job_(job) {}

  const step_cut& of(const plan& under) { return of(under.partition_kib); }
  const step_cut& of(std::uint32_t partition_kib) {
    const auto [at, fresh] = known_.try_emplace(partition_kib);
    if (fresh)
      at->second = job_.cut_under ? job_.cut_under(partition_kib) : step_cut{job_.partitions, job_.overlap};
    return at->second;
  }

private:
  const options& job_;
  std::map<std::uint32_t, step_cut> known_{};
};

/// When each partition of the parameters that a worker computes with was there. Without partitions it hides nothing.
class step_overlap {
public:
  explicit step_overlap(std::vector<partition_times> of = {}) : of_(std::move(of)), there_(of_.size()) {}

  const std::vector<partition_times>& partitions() const { return of_; }

  /// The parameters of all shards, in their order; of each shard's its partitions come one after the other.
  void came(std::span<const params_envelope> parts) {
    std::ranges::fill(there_, 0);
    double begin = 0;
    for (std::size_t i = 0; i < of_.size(); begin = of_[i++].end)
      for (std::size_t shard = 0; shard < parts.size(); ++shard) {
        const params_envelope& part = parts[shard];
        const double last = share_in(of_[i].end, shard, parts.size());
        if (share_in(begin, shard, parts.size()) < last)
          there_[i] = std::max(there_[i], part.since < 0 ? part.until : part.since + share_of(part.until - part.since, last));
      }
  }

  /// Where workers take the steps: each partition is there with its own.
  void came(const segment_range& part, nanoseconds now) {
    for (std::size_t i = part.first; i < std::min<std::size_t>(part.last, there_.size()); ++i)
      there_[i] = now;
  }

  /// When a step that takes so long has begun, with the parameters that came first: not before the worker was idle. The last ones
  /// have come now, else it waited for something else.
  nanoseconds begun(nanoseconds compute, nanoseconds idle_since, nanoseconds now) const {
    if (there_.empty() || std::ranges::max(there_) < now)
      return now;
    nanoseconds begun = idle_since;
    for (std::size_t i = 0; i < of_.size(); ++i)
      begun = std::max(begun, there_[i] - share_of(compute, of_[i].needed));
    return std::min(begun, now);
  }

private:
  std::vector<partition_times> of_;
  std::vector<nanoseconds> there_;
};

} // namespace troupe::protocols::sim
