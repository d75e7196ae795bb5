// SPDX-License-Identifier: BSD-3-Clause
// Sums and other reductions, each in a fixed order: the same inputs give the same bits.
#pragma once

#include <cstdint>
#include <span>

#include "kernels/operations/shapes.hpp"

namespace troupe::kernels {

/// y(columns) = sum over rows of x(rows, columns), added to what is there where `accumulate`. A bias gradient.
struct sum_rows {
  static constexpr auto name = "sum_rows";
  const float* x = nullptr;
  float* y = nullptr;
  std::int64_t rows = 0, columns = 0;
  bool accumulate = false;

  void inputs(auto each) const { each(x, rows * columns), each(accumulate ? y : nullptr, columns); }
  void outputs(auto each) const { each(y, columns); }
  double flops() const { return static_cast<double>(rows * columns); }
};

/// *result = sum of x(count), accumulated in double, stored as float.
struct sum {
  static constexpr auto name = "sum";
  const float* x = nullptr;
  std::int64_t count = 0;
  float* result = nullptr;

  void inputs(auto each) const { each(x, count); }
  void outputs(auto each) const { each(result, 1); }
  double flops() const { return static_cast<double>(count); }
};

/// y = scale * the sum over some axes of the row-major x, added to what is there where `accumulate`. y has its own strides: 0
/// along an axis that is summed, and distinct elements along the others. A mean has scale 1 / (elements of each sum). Its
/// gradient is copy_strided from y's strides.
struct sum_axes {
  static constexpr auto name = "sum_axes";
  axes extents = {}; ///< of x
  const float* x = nullptr;
  float* y = nullptr;
  axes y_strides = {};
  float scale = 1;
  bool accumulate = false;

  void inputs(auto each) const { each(x, elements(extents)), each(accumulate ? y : nullptr, reach(extents, y_strides)); }
  void outputs(auto each) const { each(y, reach(extents, y_strides)); }
  double flops() const { return static_cast<double>(elements(extents)); }
};

/// Elements of a flat array that sum_squares adds into one double.
inline constexpr std::int64_t square_block = 4096;

/// blocks[b] = the sum of the squares of x[4096 b .. 4096 (b + 1)) in float64; the last block may be shorter. A block's bits do
/// not depend on the others: arrays that are cut at blocks give the norm of the whole, added in the order of blocks.
struct sum_squares {
  static constexpr auto name = "sum_squares";
  const float* x = nullptr;
  std::int64_t count = 0;
  double* blocks = nullptr;

  constexpr std::int64_t block_count() const { return (count + square_block - 1) / square_block; }
  void inputs(auto each) const { each(x, count); }
  void outputs(auto each) const { each(blocks, block_count()); }
  double flops() const { return 2 * static_cast<double>(count); }
};

/// y(count) = sum_i weight_i * terms_i, in the order given; weights are rounded to float. At least one term; `y` may be the
/// first.
struct weighted_sum {
  static constexpr auto name = "weighted_sum";
  std::span<const term> terms = {};
  float* y = nullptr;
  std::int64_t count = 0;

  void inputs(auto each) const {
    for (const term& t : terms)
      each(t.data, count);
  }
  void outputs(auto each) const { each(y, count); }
};

/// *flag = 1 where every element of x(count) is finite, else 0.
struct all_finite {
  static constexpr auto name = "all_finite";
  const float* x = nullptr;
  std::int64_t count = 0;
  std::int32_t* flag = nullptr;

  void inputs(auto each) const { each(x, count); }
  void outputs(auto each) const { each(flag, 1); }
};

} // namespace troupe::kernels
