// SPDX-License-Identifier: BSD-3-Clause
// A shard's part of a checkpoint: copies what the next steps will overwrite, and writes it while they run.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <caf/event_based_actor.hpp>

#include "actors/checkpoint/first_parameters.hpp"
#include "actors/messages/role.hpp"
#include "kernels/backend.hpp"
#include "protocols/lead.hpp"
#include "tensor/optimizer.hpp"

namespace troupe::actors {

/// Enqueues the copies to the optimizer's buffers; one that the checkpoint lacks stays at zero.
void restore(const shard_start& from, kernels::backend& queue, optimizer& to);

/// A version as it will be on the disk. Its blocks are in host memory once the queue has run what was enqueued at its making.
class shard_snapshot {
public:
  /// `parameters` are not written while somebody holds them; the optimizer's buffers are, by the next step.
  shard_snapshot(protocols::version ver, flat_range range, std::uint32_t shard, kernels::backend& queue,
                 const kernels::buffer& parameters, const optimizer& state);
  /// Of the lead's shard.
  void add(const protocols::lead_state& marked, protocols::nanoseconds trained);
  /// Blocks until it is on the disk, or cannot be.
  shard_saved write(const std::string& dir) const;

private:
  shard_head head_;
  std::vector<std::pair<std::string, kernels::buffer>> blocks_;
  shard_saved answer_;
};

/// Writes on a thread of its own, then calls `tell` there. What is being written outlives the shard.
void write_behind(caf::actor_system& system, std::shared_ptr<const shard_snapshot> what, std::string dir,
                  std::function<void(const shard_saved&)> tell);

} // namespace troupe::actors
