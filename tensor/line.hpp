// SPDX-License-Identifier: BSD-3-Clause
// A line of a job file's layer list, word by word.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "kernels/activation.hpp"
#include "tensor/error.hpp"

namespace troupe::layers {

/// Larger extents than this are typing errors; the bound also keeps products of extents inside 64 bits.
inline constexpr std::int64_t largest_extent = 1 << 24;

/// Gives out its words from left to right.
class line {
public:
  explicit line(std::string_view text);

  /// The next word; empty at the end.
  std::string_view take() { return at_ < words_.size() ? words_[at_++] : std::string_view{}; }
  bool take_if(std::string_view word);
  /// The next word again.
  void put_back() { --at_; }
  std::string_view rest() const { return at_ < words_.size() ? words_[at_] : std::string_view{}; }
  bool empty() const { return words_.empty(); }

  /// The next word as a number from `least` on; none where it is not.
  std::optional<std::int64_t> extent(std::int64_t least = 1) { return extent_of(take(), least); }
  static std::optional<std::int64_t> extent_of(std::string_view word, std::int64_t least);
  std::optional<double> rate();
  /// The activation that the next word names; none, and nothing is taken, where it names no activation.
  kernels::activation optional_activation();
  static std::optional<kernels::activation> activation_of(std::string_view word);

  /// `"conv 3 3" needs a kernel HxW; write "conv 32 3x3 relu"`.
  error wrong(std::string_view problem, std::string_view right) const;

private:
  std::string_view text_;
  std::vector<std::string_view> words_;
  std::size_t at_ = 0;
};

} // namespace troupe::layers
