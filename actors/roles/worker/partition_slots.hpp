// SPDX-License-Identifier: BSD-3-Clause
// Which parameters each partition of a push waits for.
#pragma once

#include <cstddef>
#include <utility>
#include <vector>

#include "protocols/ids.hpp"
#include "tensor/layout.hpp"

namespace troupe::actors {

/// One holder that takes a worker's pushes: its number and the partitions that it takes.
struct push_target {
  protocols::holder_id holder;
  std::vector<flat_range> partitions;
};

/// A partition is complete once backward has completed every slot that has elements in it.
class partition_slots {
public:
  /// How many slots each partition of each target has.
  using counts = std::vector<std::vector<int>>;

  void find(const parameter_layout& layout, const std::vector<push_target>& targets) {
    counts_.clear();
    of_slot_.assign(layout.slots.size(), {});
    for (std::size_t t = 0; t < targets.size(); ++t) {
      const auto& partitions = targets[t].partitions;
      auto& slots = counts_.emplace_back(partitions.size(), 0);
      for (std::size_t p = 0; p < partitions.size(); ++p)
        for (std::size_t s = 0; s < layout.slots.size(); ++s) {
          const auto& slot = layout.slots[s];
          if (partitions[p].begin < slot.offset + slot.elements() && slot.offset < partitions[p].end) {
            ++slots[p];
            of_slot_[s].emplace_back(t, p);
          }
        }
    }
  }
  const counts& all() const { return counts_; }
  /// (target, partition) of those that have elements of it.
  const std::vector<std::pair<std::size_t, std::size_t>>& of(int slot) const { return of_slot_[static_cast<std::size_t>(slot)]; }

private:
  counts counts_;
  std::vector<std::vector<std::pair<std::size_t, std::size_t>>> of_slot_;
};

} // namespace troupe::actors
