// SPDX-License-Identifier: BSD-3-Clause
// Copies of operands in bfloat16.
#include "kernels/cuda/shadows.hpp"

#include <algorithm>

#include "kernels/cuda/kernels.hpp"

namespace troupe::kernels::cuda {

const std::uint16_t* shadows::shadow_of(const float* x, std::int64_t count) {
  const key where{reinterpret_cast<const std::byte*>(x), count};
  auto found = all_.find(where);
  if (found == all_.end()) {
    if (scratch_.owns(x) || !pool_->owns(x))
      return nullptr;
    found =
        all_.emplace(where, shadow{pool_->allocate(block_pool::size_class(static_cast<std::size_t>(count) * 2)), false}).first;
    longest_ = std::max(longest_, static_cast<std::size_t>(count) * sizeof(float));
  }
  auto& [memory, valid] = found->second;
  auto* rounded = memory.as<std::uint16_t>();
  if (!valid)
    round_to_bf16(stream_, x, rounded, count);
  valid = true;
  return rounded;
}

void shadows::written(const void* begin, std::size_t bytes) {
  const auto first = reinterpret_cast<std::uintptr_t>(begin);
  const auto earliest = reinterpret_cast<const std::byte*>(first - std::min<std::uintptr_t>(first, longest_));
  for (auto it = all_.lower_bound({earliest, 0}); it != all_.end(); ++it) {
    const auto from = reinterpret_cast<std::uintptr_t>(it->first.first);
    if (from >= first + bytes)
      return;
    if (from + static_cast<std::size_t>(it->first.second) * sizeof(float) > first)
      it->second.valid = false;
  }
}

void shadows::forget() {
  for (auto& [where, shadow] : all_)
    shadow.valid = false;
}

} // namespace troupe::kernels::cuda
