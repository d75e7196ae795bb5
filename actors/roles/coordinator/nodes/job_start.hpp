// SPDX-License-Identifier: BSD-3-Clause
// How a job's nodes get from nothing to running roles, all at the beginning and one that comes back.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "actors/roles/coordinator/coordinator_setup.hpp"

namespace troupe::actors {

/// Each node prepares the job, which loads its data, and then starts its roles. In between its data are compared with those of
/// the first node: nobody could say what a job was trained on whose nodes have different files. So are the folders into which
/// shards write checkpoints.
///
/// Part of the coordinator, and used on its thread alone. It calls back at most once for each node that it was asked for.
class job_start {
public:
  /// How long a node may take to load the data, and then to make the parameters, spawn its roles and connect its lanes. Much, for
  /// a large model on a busy machine needs minutes; a process that is gone is noticed at once.
  static constexpr std::chrono::seconds deadline{300};

  /// A node did not do a step, "prepare" or "start"; or its data or its folder for checkpoints will not do, as `text` says.
  using failed_fn = std::function<void(std::uint32_t node, std::string_view step, const caf::error& why)>;
  using differs_fn = std::function<void(std::uint32_t node, const std::string& text)>;

  job_start(measured_pointer<coordinator_control> self, const coordinator_setup& setup, job_places& places, failed_fn failed,
            differs_fn differs);

  /// All nodes at once. `prepared`: all have loaded their data, and begin to start.
  void begin(std::function<void()> prepared, std::function<void()> started);
  /// A node, as setup and places have it now: a new process, or the same with a higher incarnation. If another process takes its
  /// place meanwhile, what this one answers is ignored. The nodes that are `here` let go of their old lanes to it before it
  /// starts.
  void begin_again(std::uint32_t node, const std::vector<node_actor>& here, std::function<void()> started);

  /// The job runs: what a node had prepared, which has the parameters' places if it is the `first` to be compared with.
  void was_prepared(std::uint32_t node, const node_prepared& by, bool first);

  /// Nodes that have not answered yet.
  const std::set<std::uint32_t>& awaited() const { return awaited_; }
  /// What the first node has loaded, once it has prepared.
  const node_prepared& first() const { return prepared_[with_]; }

private:
  void prepare(std::uint32_t node, std::function<void()> prepared);
  void start(std::uint32_t node, std::function<void()> started);
  std::string fault_of(std::uint32_t node) const;
  bool writes_checkpoints(std::uint32_t node) const;
  /// `step` for every node that is there; `done` when all have done it.
  void everywhere(void (job_start::*step)(std::uint32_t, std::function<void()>), std::function<void()> done);

  measured_pointer<coordinator_control> self_;
  const coordinator_setup& setup_;
  job_places& places_;
  failed_fn failed_;
  differs_fn differs_;
  std::set<std::uint32_t> awaited_;
  std::vector<node_prepared> prepared_; ///< by node
  std::uint32_t with_ = 0;              ///< the node with whose data those of the others are compared
};

} // namespace troupe::actors
