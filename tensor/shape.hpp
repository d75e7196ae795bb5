// SPDX-License-Identifier: BSD-3-Clause
// Shapes: lists of extents, outermost first; the types of elements.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <string>
#include <vector>

namespace troupe {

enum class dtype : std::uint8_t { f32, i32 };

/// Extents, outermost first; images are (N, C, H, W), matrices (rows, columns). A rank-0 shape has one element.
class shape {
public:
  shape() = default;
  shape(std::initializer_list<std::int64_t> extents) : extents_(extents) {}
  explicit shape(std::vector<std::int64_t> extents) : extents_(std::move(extents)) {}

  std::size_t rank() const { return extents_.size(); }
  std::int64_t operator[](std::size_t axis) const { return extents_[axis]; }
  const std::vector<std::int64_t>& extents() const { return extents_; }
  std::int64_t elements() const; ///< product of the extents
  std::string to_string() const; ///< "(128, 1, 28, 28)"

  friend bool operator==(const shape&, const shape&) = default;

private:
  std::vector<std::int64_t> extents_;
};

/// Whether the last extents of `whole` are those of `suffix`, in order.
bool ends_with(const shape& whole, const shape& suffix);

} // namespace troupe
