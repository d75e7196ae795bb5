// SPDX-License-Identifier: BSD-3-Clause
// The cost of inspecting a cluster: a snapshot of many actors, and the slowdown of a job.
#pragma once

#include <cstddef>
#include <cstdint>

namespace troupe::actors {

struct inspect_bench_options {
  std::uint32_t nodes = 4; ///< beside the coordinator's
  std::size_t actors_per_node = 25'000;
  int snapshots = 5;
  int turns = 15;     ///< with inspection and without
  double seconds = 2; ///< of each
};

struct inspect_figures {
  double spawn_per_s = 0;   ///< all nodes together
  std::uint64_t actors = 0; ///< that a snapshot shows
  double snapshot_ms = 0;   ///< until a console has them all
  double steps_per_s = 0;   ///< of the job without inspection
  double overhead = 0;      ///< share of them that is lost with a snapshot every second
};

/// A cluster of processes on loopback, a console connected to its coordinator as any other, first with a job of a worker on each
/// node, then with idle actors. Figures are medians; runs with and without inspection take turns. It forks, so call it before any
/// thread has started, and after init_message_types(). Throws std::runtime_error.
inspect_figures bench_inspection(const inspect_bench_options& options);

} // namespace troupe::actors
