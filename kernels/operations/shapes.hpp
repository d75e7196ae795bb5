// SPDX-License-Identifier: BSD-3-Clause
// What operands of operations look like: windows over images, strided arrays, terms of a sum.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

namespace troupe::kernels {

/// Geometry of a 2-d convolution or pooling over images (N, C, H, W); one stride, padding and dilation for both axes.
/// Output height is (H + 2 padding - dilation (kernel_h - 1) - 1) / stride + 1, likewise width; a rest smaller than a stride is
/// ignored.
/// Convolution: channels are cut into `groups`, and each group of outputs sees its own group of inputs alone. A window that lies
/// in the padding alone gives 0 plus the bias.
/// Pooling: one group, no dilation, and padding < kernel_h and kernel_w, since a window of padding alone has no maximum.
struct window2d {
  std::int64_t n = 0, c = 0, h = 0, w = 0;
  std::int64_t kernel_h = 0, kernel_w = 0, stride = 1, padding = 0, dilation = 1, groups = 1;
  std::int64_t out_h() const { return (h + 2 * padding - dilation * (kernel_h - 1) - 1) / stride + 1; }
  std::int64_t out_w() const { return (w + 2 * padding - dilation * (kernel_w - 1) - 1) / stride + 1; }
  std::int64_t pixels() const { return n * c * h * w; }
  /// Elements of a result with this many channels.
  std::int64_t outputs(std::int64_t channels) const { return n * channels * out_h() * out_w(); }
  /// Elements of a convolution's weight (channels, C / groups, kernel_h, kernel_w).
  std::int64_t weights(std::int64_t channels) const { return channels * (c / groups) * kernel_h * kernel_w; }
};

/// The most axes of an operation on strided arrays.
inline constexpr std::size_t most_axes = 6;
/// A number for each axis, outermost first. An array of fewer axes has leading extents of 1.
using axes = std::array<std::int64_t, most_axes>;

/// Extents of any number of axes up to six, with 1 in front.
axes extents_of(std::span<const std::int64_t> extents);
/// The strides of a row-major array without gaps.
axes row_major(const axes& extents);
std::int64_t elements(const axes& extents);
/// Elements from the first to the last of a strided array, both counted. A stride of 0 repeats what it steps over.
std::int64_t reach(const axes& extents, const axes& strides);

/// One term of a weighted sum: weight * data[0..count).
struct term {
  const float* data = nullptr;
  double weight = 1;
};

} // namespace troupe::kernels
