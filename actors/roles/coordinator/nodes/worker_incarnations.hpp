// SPDX-License-Identifier: BSD-3-Clause
// Which incarnation of each worker takes part in a job.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>

#include "actors/messages/node.hpp"

namespace troupe::actors {

/// A worker's first incarnation is 0. No two are the same, though the answer to the order that begins one is still to come.
class worker_incarnations {
public:
  /// The one that takes part, or did last.
  std::uint32_t current(std::uint32_t worker) const { return in(current_, worker); }
  std::uint32_t next(std::uint32_t worker) const { return std::max(current(worker), in(ordered_, worker)) + 1; }
  /// Of a node's next process: later than those of all its workers.
  std::uint32_t next_of(const job_places& places, std::uint32_t node) const {
    auto out = places.nodes[node].incarnation + 1;
    for (const auto& worker : places.workers)
      if (worker.node == node)
        out = std::max(out, next(worker.index));
    return out;
  }
  /// The operator wants the next one, whatever becomes of it.
  std::uint32_t order(std::uint32_t worker) { return ordered_[worker] = next(worker); }
  void begin(std::uint32_t worker, std::uint32_t incarnation) { current_[worker] = incarnation; }
  /// Another coordinator has given this one.
  void was_given(std::uint32_t worker, std::uint32_t incarnation) {
    ordered_[worker] = std::max(in(ordered_, worker), incarnation);
  }

private:
  using by_worker = std::map<std::uint32_t, std::uint32_t>;
  static std::uint32_t in(const by_worker& all, std::uint32_t worker) {
    const auto found = all.find(worker);
    return found == all.end() ? 0 : found->second;
  }
  by_worker current_, ordered_;
};

} // namespace troupe::actors
