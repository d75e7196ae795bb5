// SPDX-License-Identifier: BSD-3-Clause
// Scratch memory between the kernels of an operation.
#pragma once

#include <algorithm>
#include <array>
#include <functional>
#include <memory>
#include <vector>

#include "kernels/cuda/memory.hpp"

namespace troupe::kernels::cuda {

/// One growing block for each use. Safe because one stream runs everything that touches it, in order; blocks that have become too
/// small are kept, since work that is under way, or a recorded program, may still use them.
class scratch {
public:
  enum use { reduction, carry, left, right, result, bias, columns, rows, steps, library, use_count };

  explicit scratch(std::shared_ptr<block_pool> pool) : pool_(std::move(pool)) {}

  /// At least `floats` floats, until the next call for the same use.
  float* get(use purpose, std::int64_t floats) {
    const auto bytes = static_cast<std::size_t>(floats) * sizeof(float);
    auto& block = blocks_[purpose];
    if (block.bytes() < bytes) {
      outgrown_.push_back(block);
      block = pool_->allocate(block_pool::size_class(bytes));
    }
    return block.as<float>();
  }

  /// Whether an address lies in one of the blocks: its contents change without notice.
  bool owns(const void* address) const {
    const auto* place = static_cast<const std::byte*>(address);
    return std::any_of(blocks_.begin(), blocks_.end(), [place](const buffer& block) {
      return !std::less<>{}(place, block.data()) && std::less<>{}(place, block.data() + block.bytes());
    });
  }

private:
  std::shared_ptr<block_pool> pool_;
  std::array<buffer, use_count> blocks_;
  std::vector<buffer> outgrown_;
};

} // namespace troupe::kernels::cuda
