// SPDX-License-Identifier: BSD-3-Clause
// Cutting the flat array of parameters.
#include "tensor/layout.hpp"

#include <algorithm>
#include <iterator>

#include "kernels/assert.hpp"

namespace troupe {

std::int64_t parameter_layout::floats() const {
  return slots.empty() ? 0 : align_up(slots.back().offset + slots.back().elements());
}

int parameter_layout::find(const std::string& name) const {
  auto hit = std::ranges::find(slots, name, &parameter_slot::name);
  return hit == slots.end() ? -1 : static_cast<int>(hit - slots.begin());
}

std::vector<update_range> update_ranges(const parameter_layout& layout, flat_range part) {
  std::vector<update_range> out;
  for (std::size_t i = 0; i < layout.slots.size(); ++i) {
    const auto& slot = layout.slots[i];
    const auto end = i + 1 < layout.slots.size() ? layout.slots[i + 1].offset : layout.floats();
    update_range next{{std::max(slot.offset, part.begin) - part.begin, std::min(end, part.end) - part.begin}, slot.kind};
    if (next.where.size() <= 0)
      continue;
    if (slot.kind == slot_kind::trained) { // elsewhere they have no meaning
      next.decay = slot.decay;
      next.lr_scale = slot.lr_scale;
      next.own_rate = slot.own_rate;
    }
    const update_range* last = out.empty() ? nullptr : &out.back();
    if (last && last->kind == next.kind && last->decay == next.decay && last->lr_scale == next.lr_scale && !last->own_rate
        && !next.own_rate)
      out.back().where.end = next.where.end;
    else
      out.push_back(next);
  }
  return out;
}

void join(std::vector<flat_range>& ranges, flat_range next) {
  const auto at = std::ranges::lower_bound(ranges, next);
  const bool follows = at != ranges.begin() && std::prev(at)->end == next.begin;
  const bool precedes = at != ranges.end() && next.end == at->begin;
  if (follows && precedes) {
    std::prev(at)->end = at->end;
    ranges.erase(at);
  } else if (follows) {
    std::prev(at)->end = next.end;
  } else if (precedes) {
    at->begin = next.begin;
  } else {
    ranges.insert(at, next);
  }
}

std::vector<flat_range> cut_into_shards(std::int64_t floats, int shards, std::int64_t unit) {
  TROUPE_ASSERT(floats >= 0 && floats % flat_alignment == 0 && shards > 0 && unit > 0 && unit % flat_alignment == 0);
  const auto grains = (floats + unit - 1) / unit; // the last may be shorter
  std::vector<flat_range> cuts;
  for (std::int64_t shard = 0; shard < shards; ++shard)
    cuts.push_back({std::min(grains * shard / shards * unit, floats), std::min(grains * (shard + 1) / shards * unit, floats)});
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
