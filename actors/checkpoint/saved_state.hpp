// SPDX-License-Identifier: BSD-3-Clause
// What a role goes on with besides the parameters.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "kernels/backend.hpp"
#include "protocols/collective/facts.hpp"
#include "protocols/ids.hpp"

namespace troupe::actors {

using named_buffers = std::vector<std::pair<std::string, kernels::buffer>>;

/// Of a shard, or of a worker: all blocks of its range but the parameters, in host memory.
struct saved_state {
  protocols::version ver{};
  std::int64_t optimizer_steps = 0;
  protocols::nanoseconds trained = 0; ///< of a shard: before it goes on
  named_buffers blocks{};
  /// Of a worker with parameters of its own: the weight of these, and its place in the data.
  double weight = 0;
  std::uint64_t position = 0;
  protocols::collective::facts open{}; ///< likewise: of its steps that are in no version yet
  /// Of a shard whose parameters travel by codes: what its workers had of them, and of which version that is.
  kernels::buffer image{};
  protocols::version image_ver{};

  /// Null: there is none of this name.
  const kernels::buffer* find(const std::string& name) const {
    const auto found = std::ranges::find(blocks, name, &named_buffers::value_type::first);
    return found == blocks.end() ? nullptr : &found->second;
  }
};

/// Enqueues the copies to buffers of the same names; one that was not saved stays as it is.
inline void restore(const saved_state& from, kernels::backend& queue, const named_buffers& to) {
  for (const auto& [name, buffer] : to)
    if (const auto* values = from.find(name))
      queue.copy_from_host(buffer.data(), values->data(), buffer.bytes());
}

} // namespace troupe::actors
