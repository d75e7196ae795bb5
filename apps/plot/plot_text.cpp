// SPDX-License-Identifier: BSD-3-Clause
// Text in a drawing.
#include "apps/plot/plot_text.hpp"

#include <algorithm>

namespace troupe::apps {

namespace {

bool continues(char c) {
  return (static_cast<unsigned char>(c) & 0xC0U) == 0x80U;
}

/// The length of the UTF-8 character that `text` begins with; 0: it begins with none that XML takes.
std::size_t character_length(std::string_view text) {
  const auto first = static_cast<unsigned char>(text.front());
  if (first < 0x80)
    return first >= 0x20 || first == '\t' || first == '\n' ? 1 : 0;
  const std::size_t length = first >= 0xF0 && first <= 0xF4  ? 4
                             : first >= 0xE0 && first < 0xF0 ? 3
                             : first >= 0xC2 && first < 0xE0 ? 2
                                                             : 0;
  if (length == 0 || text.size() < length
      || !std::all_of(text.begin() + 1, text.begin() + static_cast<std::ptrdiff_t>(length), continues))
    return 0;
  char32_t code = first & (0xFFU >> (length + 1));
  for (std::size_t i = 1; i < length; ++i)
    code = (code << 6U) | (static_cast<unsigned char>(text[i]) & 0x3FU);
  const bool overlong = (length == 3 && code < 0x800) || (length == 4 && code < 0x10000);
  const bool forbidden = (code >= 0xD800 && code <= 0xDFFF) || code == 0xFFFE || code == 0xFFFF || code > 0x10FFFF;
  return overlong || forbidden ? 0 : length;
}

} // namespace

double text_width(std::string_view text) {
  constexpr double per_character = 6.9; // of a bold sans serif, on average
  return per_character
         * static_cast<double>(text.size() - static_cast<std::size_t>(std::count_if(text.begin(), text.end(), continues)));
}

std::string shortened(const std::string& text, double width) {
  if (text_width(text) <= width)
    return text;
  std::string part = text;
  while (!part.empty() && text_width(part + "...") > width) {
    while (part.size() > 1 && continues(part.back()))
      part.pop_back();
    part.pop_back();
  }
  return part + "...";
}

std::string xml_text(std::string_view text) {
  std::string out;
  while (!text.empty()) {
    const std::size_t length = character_length(text);
    switch (length == 1 ? text.front() : '\0') {
    case '&':
      out += "&amp;";
      break;
    case '<':
      out += "&lt;";
      break;
    case '>':
      out += "&gt;";
      break;
    case '"':
      out += "&quot;";
      break;
    default:
      out += length == 0 ? "?" : text.substr(0, length);
    }
    text.remove_prefix(std::max<std::size_t>(length, 1));
  }
  return out;
}

} // namespace troupe::apps
