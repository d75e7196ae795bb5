// SPDX-License-Identifier: BSD-3-Clause
// What the ids of a text stand for.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tensor/error.hpp"

namespace troupe {

/// A character of UTF-8 (RFC 3629).
struct utf8_character {
  std::uint32_t point = 0;
  std::size_t bytes = 0; ///< 0: there is none
};
/// That with which `text`, which is not empty, begins.
utf8_character first_character(std::string_view text);

/// An id for each of some characters, in the order of their code points, which is that of their bytes; or one for each byte.
class vocabulary {
public:
  static vocabulary of_bytes();
  /// `points` ascend.
  static vocabulary of_characters(std::vector<std::uint32_t> points);
  /// From what `characters` gave. An error where these are not single characters in their order.
  static result<vocabulary> of_characters(std::span<const std::string> characters);

  bool has_bytes() const { return points_.empty(); }
  std::int64_t size() const { return has_bytes() ? every_byte : std::ssize(points_); }

  /// -1: it has none. Of a vocabulary of bytes a point is a byte.
  std::int32_t id_of(std::uint32_t point) const {
    return point < low_.size() ? low_[point] : has_bytes() ? -1 : id_of_high(point);
  }

  /// The ids of a text; an error names what has none.
  result<std::vector<std::int32_t>> ids(std::string_view text) const;
  /// What an id stands for, 0 <= id < size().
  std::string text(std::int32_t id) const;
  /// Of characters: the text of each id.
  std::vector<std::string> characters() const;

  friend bool operator==(const vocabulary&, const vocabulary&) = default;

private:
  static constexpr std::int64_t every_byte = 256;

  vocabulary() { low_.fill(-1); }
  std::int32_t id_of_high(std::uint32_t point) const;

  std::vector<std::uint32_t> points_; ///< empty: it has bytes
  std::array<std::int32_t, every_byte> low_{};
};

} // namespace troupe
