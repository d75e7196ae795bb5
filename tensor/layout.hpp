// SPDX-License-Identifier: BSD-3-Clause
// Where each parameter of a model lives in one flat array of floats.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "tensor/shape.hpp"

namespace troupe {

/// Slots and cuts of the flat array begin at multiples of this many floats: 64 bytes.
inline constexpr std::int64_t flat_alignment = 16;

/// The next multiple of `flat_alignment`.
constexpr std::int64_t align_up(std::int64_t floats) {
  return (floats + flat_alignment - 1) / flat_alignment * flat_alignment;
}

/// How a parameter starts out. `fan_in` and `fan_out` are those of its layer, `deviation` is that of `normal`. Products of
/// extents that are refused later, as too large, must not overflow here.
struct initializer {
  enum class kind : std::uint8_t { zeros, ones, he_normal, xavier_uniform, normal, uniform_by_fan_in, given } how = kind::zeros;
  double fan_in = 1, fan_out = 1;
  double deviation = 0.02; ///< GPT-2's
};

/// What happens to a parameter in a step.
enum class slot_kind : std::uint8_t {
  trained,
  frozen, ///< it has no gradient, and no step changes it
  /// A running mean or variance, whose "gradient" is what it moved by, s - s_new. Its step is s - sum_i w_i g_i, at rate 1,
  /// without momentum, decay, compensation or threshold. That is linear in the pushes: the result is the mean of the workers'
  /// statistics.
  statistic,
};

/// One parameter in the flat array.
struct parameter_slot {
  std::string name; ///< `layer.parameter`, as in a safetensors file
  shape dims;
  std::int64_t offset = 0; ///< in floats; a multiple of 16
  initializer init;
  slot_kind kind = slot_kind::trained;
  bool decay = true;                                     ///< of a trained one: whether weight decay applies
  double lr_scale = 1;                                   ///< of a trained one: its part of the learning rate
  bool own_rate = false;                                 ///< of a trained one: by its norm and its gradient's (LARS)
  std::shared_ptr<const std::vector<float>> values = {}; ///< where it starts, if that is `given`
  std::int64_t elements() const { return dims.elements(); }
};

/// All parameters of a model in the model's order. A flat array of `floats()` floats holds parameters, gradients and
/// optimizer state alike: slot i occupies [offset, offset + elements), the gaps between slots are zero, and `floats()` is
/// a multiple of 16, so that every cut at a multiple of 16 floats is 64-byte aligned.
struct parameter_layout {
  std::vector<parameter_slot> slots;
  std::int64_t floats() const;
  /// Index of the slot of that name, or -1.
  int find(const std::string& name) const;
};

/// A half-open range [begin, end) of the flat array.
struct flat_range {
  std::int64_t begin = 0, end = 0;
  std::int64_t size() const { return end - begin; }
  bool contains(flat_range part) const { return begin <= part.begin && part.end <= end; }
  friend auto operator<=>(const flat_range&, const flat_range&) = default;
};

/// Whether one of these contains it.
inline bool covers(std::span<const flat_range> ranges, flat_range part) {
  return std::ranges::any_of(ranges, [part](flat_range each) { return each.contains(part); });
}

/// One more of ranges in their order that do not touch; it overlaps none.
void join(std::vector<flat_range>& ranges, flat_range next);

/// Elements of the flat array that are stepped alike; what lies between two slots goes with the first.
struct update_range {
  flat_range where;
  slot_kind kind = slot_kind::trained;
  bool decay = true;
  double lr_scale = 1;
  bool own_rate = false; ///< it is one parameter, or what a part of the flat array has of it
  friend bool operator==(const update_range&, const update_range&) = default;
};

/// A part of the flat array, cut where slots begin that are stepped otherwise. Ranges count from the part's beginning.
std::vector<update_range> update_ranges(const parameter_layout& layout, flat_range part);

/// The pieces of `part` that are stepped alike, in order: `visit(update_range)`. `ranges` cover `part`.
template <class Visit>
void each_alike(const std::vector<update_range>& ranges, flat_range part, Visit visit) {
  auto range = std::ranges::upper_bound(ranges, part.begin, {}, [](const update_range& each) { return each.where.end; });
  for (; range != ranges.end() && range->where.begin < part.end; ++range) {
    update_range piece = *range;
    piece.where = {std::max(part.begin, range->where.begin), std::min(part.end, range->where.end)};
    visit(piece);
  }
}

/// Cuts [0, floats) into `shards` contiguous ranges at multiples of `unit` floats, itself a multiple of 16, as even in bytes as
/// that allows. A large parameter may span shards.
std::vector<flat_range> cut_into_shards(std::int64_t floats, int shards, std::int64_t unit = flat_alignment);

/// Cuts a shard's range into partitions of at most `partition_bytes` at multiples of 16 floats (the unit of sending): all but the
/// last of the same length.
std::vector<flat_range> cut_into_partitions(flat_range range, std::int64_t partition_bytes);

} // namespace troupe
