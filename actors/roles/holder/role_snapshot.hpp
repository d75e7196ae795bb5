// SPDX-License-Identifier: BSD-3-Clause
// A role's part of a checkpoint: copies what the next steps will overwrite, and writes it while they run.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <caf/event_based_actor.hpp>

#include "actors/checkpoint/saved_state.hpp"
#include "actors/messages/role.hpp"
#include "kernels/backend.hpp"
#include "protocols/lead.hpp"
#include "tensor/optimizer.hpp"

namespace troupe::actors {

/// What a role keeps, as it will be on the disk. Its blocks are in host memory once the queue has run what was enqueued at its
/// making.
class role_snapshot {
public:
  /// `about`: whose it is, and of which version. `range`: that every block has a float of each element of.
  role_snapshot(file_saved about, flat_range range, kernels::backend& queue);
  /// Memory that nobody writes while somebody holds it.
  void share(const std::string& name, const kernels::buffer& block);
  /// Likewise, in host memory.
  void add(const std::string& name, const kernels::buffer& block) { blocks_.emplace_back(name, block); }
  /// Memory that the next step writes.
  void copy(const std::string& name, const kernels::buffer& block);
  void copy(const named_buffers& blocks);
  void number(const std::string& name, std::int64_t value);
  /// Of the lead's shard.
  void add(const protocols::lead_state& marked, protocols::nanoseconds trained);
  /// Blocks until it is on the disk, or cannot be.
  file_saved write(const std::string& dir) const;

private:
  kernels::backend& queue_; ///< used while it is made alone
  shard_head head_;
  named_buffers blocks_;
  file_saved answer_;
};

/// Has the queue keep host memory for blocks of so many bytes, on a thread of its own: else the first snapshot waits while the
/// system finds it, seconds for a gigabyte. Where there is not so much, that snapshot is what says so.
void make_room(caf::actor_system& system, std::shared_ptr<kernels::backend> queue, std::vector<std::size_t> sizes);

/// Writes on a thread of its own, then calls `tell` there. What is being written outlives the role.
void write_behind(caf::actor_system& system, std::shared_ptr<const role_snapshot> snapshot, std::string dir,
                  std::function<void(const file_saved&)> tell);

} // namespace troupe::actors
