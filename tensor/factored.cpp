// SPDX-License-Identifier: BSD-3-Clause
// Sizes and places of factors.
#include "tensor/factored.hpp"

#include <algorithm>
#include <iterator>

namespace troupe {

kernels::factors factored_slot::in(const copied_factors& step) const {
  const auto* copied = step.block.as<const float>();
  return {step.rows * positions, m, n, copied + left, copied + right};
}

kernels::matrix_part factored_slot::at(flat_range part) const {
  const auto first = part.begin - where.begin;
  return {first, std::min(part.size(), m * n - first)};
}

std::size_t factored_slot::bytes(flat_range part, std::int64_t rows) const {
  return kernels::factors_bytes(rows * positions, n, at(part));
}

bool factored_slot::pays(flat_range part, std::int64_t rows) const {
  return bytes(part, rows) < static_cast<std::size_t>(part.size()) * sizeof(float);
}

std::int64_t factor_floats(const factored_slots& slots, std::int64_t rows) {
  return slots.empty() ? 0 : slots.back().right + rows * slots.back().positions * slots.back().n;
}

const factored_slot* slot_of(const factored_slots& slots, flat_range part) {
  const auto found = std::ranges::find_if(slots, [part](const factored_slot& each) { return each.where.contains(part); });
  return found == slots.end() ? nullptr : &*found;
}

std::size_t factored_bytes(const factored_slots& slots, const std::vector<flat_range>& parts, std::int64_t rows) {
  std::size_t out = 0;
  for (const auto part : parts) {
    const auto* slot = slot_of(slots, part);
    out += slot != nullptr && slot->pays(part, rows) ? slot->bytes(part, rows)
                                                     : static_cast<std::size_t>(part.size()) * sizeof(float);
  }
  return out;
}

std::vector<flat_range> cut_into_partitions(flat_range range, std::int64_t partition_bytes, const factored_slots& slots) {
  std::vector<flat_range> out;
  const auto add = [&out](flat_range piece, std::int64_t bytes) {
    if (piece.size() > 0)
      std::ranges::copy(cut_into_partitions(piece, bytes), std::back_inserter(out));
  };
  auto done = range.begin;
  for (const auto& slot : slots) {
    const flat_range own{std::max(slot.where.begin, done), std::min(slot.where.end, range.end)};
    if (own.size() <= 0)
      continue;
    add({done, own.begin}, partition_bytes);
    add(own, largest_factored_bytes);
    done = own.end;
  }
  add({done, range.end}, partition_bytes);
  return out;
}

} // namespace troupe
