// SPDX-License-Identifier: BSD-3-Clause
// Cutting the flat array of parameters.
#include "tensor/layout.hpp"

#include <algorithm>

#include "kernels/assert.hpp"

namespace troupe {

std::int64_t parameter_layout::floats() const {
  return slots.empty() ? 0 : align_up(slots.back().offset + slots.back().elements());
}

int parameter_layout::find(const std::string& name) const {
  auto hit = std::ranges::find(slots, name, &parameter_slot::name);
  return hit == slots.end() ? -1 : static_cast<int>(hit - slots.begin());
}

std::vector<flat_range> cut_into_shards(std::int64_t floats, int shards) {
  TROUPE_ASSERT(floats >= 0 && floats % flat_alignment == 0 && shards > 0);
  const auto grains = floats / flat_alignment;
  std::vector<flat_range> cuts;
  for (std::int64_t shard = 0; shard < shards; ++shard)
    cuts.push_back({grains * shard / shards * flat_alignment, grains * (shard + 1) / shards * flat_alignment});
  return cuts;
}

std::vector<flat_range> cut_into_partitions(flat_range range, std::int64_t partition_bytes) {
  TROUPE_ASSERT(range.begin % flat_alignment == 0 && range.end % flat_alignment == 0 && range.begin <= range.end);
  const auto step = std::max(partition_bytes / std::int64_t{sizeof(float)} / flat_alignment, std::int64_t{1}) * flat_alignment;
  std::vector<flat_range> cuts;
  for (auto begin = range.begin; begin < range.end; begin += step)
    cuts.push_back({begin, std::min(begin + step, range.end)});
  return cuts;
}

} // namespace troupe
