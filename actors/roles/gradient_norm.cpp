// SPDX-License-Identifier: BSD-3-Clause
// Sums of squares.
#include "actors/roles/gradient_norm.hpp"

#include <array>

namespace troupe::actors {

namespace {

/// Of 16 floats. Two halves side by side: the compiler may keep them in registers, and may not reorder the sums.
double block(const float* x) {
  std::array<double, 8> sums{};
  for (std::size_t i = 0; i < 8; ++i)
    sums[i] = static_cast<double>(x[i]) * x[i] + static_cast<double>(x[i + 8]) * x[i + 8];
  return ((sums[0] + sums[4]) + (sums[1] + sums[5])) + ((sums[2] + sums[6]) + (sums[3] + sums[7]));
}

} // namespace

protocols::squared_norm squares_of(const float* gradient, const std::vector<update_range>& ranges, double clip_norm) {
  protocols::squared_norm out;
  if (clip_norm <= 0)
    return out;
  const double unit = 1 / (clip_norm * clip_norm);
  for (const auto& range : ranges)
    if (range.kind == slot_kind::trained)
      for (auto begin = range.where.begin; begin < range.where.end; begin += flat_alignment)
        out.add(block(gradient + begin) * unit);
  return out;
}

std::vector<kernels::term> times(double factor, std::vector<kernels::term> terms) {
  for (auto& term : terms)
    term.weight *= factor;
  return terms;
}

} // namespace troupe::actors
