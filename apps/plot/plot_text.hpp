// SPDX-License-Identifier: BSD-3-Clause
// Text in a drawing: how wide, how short, and safe inside XML.
#pragma once

#include <string>
#include <string_view>

namespace troupe::apps {

/// About how many pixels a text takes at 12 pixels a line; a renderer's own font decides.
double text_width(std::string_view text);

/// The text, or as much of its beginning as fits with "..." after it.
std::string shortened(const std::string& text, double width);

/// Safe as content and as an attribute: what XML gives a meaning is escaped, what it forbids (control characters, bytes that are
/// no UTF-8) is a question mark.
std::string xml_text(std::string_view text);

} // namespace troupe::apps
