// SPDX-License-Identifier: BSD-3-Clause
// The strokes of each digit, in three ways.
#include "tensor/data/glyphs.hpp"

#include <array>
#include <string_view>

#include "kernels/assert.hpp"

namespace troupe {

namespace {

/// A glyph's strokes, a slash between two; a stroke's points `x,y` in hundredths of the unit square.
constexpr std::array<std::array<std::string_view, 3>, 10> ways_to_write{{
    {
        "54,02 26,12 12,44 18,80 44,98 74,88 90,54 80,18 56,03 44,05",
        "66,10 42,04 20,28 14,66 34,95 62,92 82,62 80,26 60,04 42,10",
        "30,08 12,40 16,78 46,98 80,82 90,46 74,10 46,02 26,12",
    },
    {
        "54,00 51,50 47,100",
        "28,24 44,13 56,00 / 56,00 54,50 52,100",
        "28,22 42,13 54,00 / 54,00 53,50 52,99 / 26,100 52,98 80,99",
    },
    {
        "12,26 24,06 52,00 78,11 81,34 62,61 35,84 12,98 / 12,98 45,95 92,97",
        "14,22 34,03 66,04 82,26 70,54 42,84 18,95 09,85 24,76 48,88 72,98 94,88",
        "18,12 48,00 76,10 74,36 46,68 14,96 / 14,96 40,91 62,99 90,92",
    },
    {
        "14,13 40,00 70,06 78,25 63,42 38,47 / 38,47 70,52 87,73 70,94 40,100 10,88",
        "14,13 44,00 74,09 72,32 46,46 36,43 48,41 76,54 84,77 62,97 30,98 10,86",
        "14,04 48,02 82,03 / 82,03 62,22 44,40 / 44,40 74,45 88,69 72,94 40,100 12,90",
    },
    {
        "22,02 16,30 13,57 / 13,57 45,57 92,54 / 74,10 71,55 68,100",
        "25,04 13,34 20,53 48,55 82,44 / 82,03 75,50 66,100",
        "66,00 38,32 06,67 / 06,67 48,66 95,65 / 66,00 66,50 64,100",
    },
    {
        "84,02 52,02 22,05 / 22,05 19,24 16,44 / 16,44 46,36 77,47 86,70 70,93 40,100 10,89",
        "86,05 52,03 27,13 22,34 44,43 70,52 80,74 62,95 34,98 10,87",
        "30,06 24,24 20,42 / 20,42 52,38 76,54 76,80 50,99 16,94 / 30,06 60,08 90,02",
    },
    {
        "72,02 44,16 22,44 14,72 30,96 58,98 80,82 74,60 50,52 27,64 16,80",
        "56,00 33,26 21,56 24,84 46,100 70,90 74,69 58,57 37,63 24,78",
        "40,00 24,30 18,64 28,92 56,99 82,84 78,60 52,54 20,70",
    },
    {
        "10,06 45,05 88,03 / 88,03 64,40 44,100",
        "12,20 13,12 16,05 / 16,05 50,06 86,04 / 86,04 70,30 52,62 42,100",
        "12,07 45,04 86,03 / 86,03 64,42 46,100 / 38,53 58,50 84,49",
    },
    {
        "72,15 48,02 23,13 27,34 52,48 78,68 74,91 48,100 21,90 23,68 48,50 75,32 73,13 56,03",
        "52,02 25,12 27,37 50,47 74,36 75,12 50,02 / 50,47 19,62 20,90 50,100 82,90 80,62 50,47",
        "80,06 46,02 24,18 34,38 60,54 74,76 56,98 30,96 22,76 44,54 70,30 84,06",
    },
    {
        "79,19 52,02 24,13 18,36 38,51 64,43 81,18 / 81,18 77,60 70,100",
        "80,20 56,02 26,10 19,36 42,50 68,40 81,17 / 81,17 82,50 70,84 44,99 18,92",
        "74,10 44,03 22,22 30,44 58,44 78,24 76,08 78,30 66,68 48,100",
    },
}};

/// Takes a number and the character behind it off the front of `text`.
float take_hundredths(std::string_view& text) {
  int number = 0;
  for (; !text.empty() && text.front() >= '0' && text.front() <= '9'; text.remove_prefix(1))
    number = 10 * number + (text.front() - '0');
  text.remove_prefix(text.empty() ? 0 : 1);
  return static_cast<float>(number) / 100;
}

glyph read_glyph(std::string_view text) {
  glyph strokes(1);
  while (!text.empty()) {
    if (text.front() == '/') {
      strokes.emplace_back();
      text.remove_prefix(2);
    }
    auto x = take_hundredths(text);
    strokes.back().push_back({x, take_hundredths(text)});
  }
  return strokes;
}

} // namespace

std::span<const glyph> glyphs_of(int digit) {
  TROUPE_ASSERT(digit >= 0 && digit <= 9);
  static const auto glyphs = [] {
    std::array<std::array<glyph, 3>, 10> read;
    for (std::size_t i = 0; i < read.size(); ++i)
      for (std::size_t way = 0; way < read[i].size(); ++way)
        read[i][way] = read_glyph(ways_to_write[i][way]);
    return read;
  }();
  return glyphs[static_cast<std::size_t>(digit)];
}

} // namespace troupe
