// SPDX-License-Identifier: BSD-3-Clause
// The terminal on which the console shows its views.
#pragma once

#include <cstddef>
#include <functional>
#include <string>

#include "apps/console/answer.hpp"

namespace troupe::apps::console {

/// What fits on the screen, in letters.
struct screen {
  std::size_t width = 80, height = 24;
  bool unicode = true; ///< it can show more than ASCII
  bool terminal = false;
};
/// The screen of standard output; where that is no terminal, by the environment.
screen current_screen();

/// A picture of at most the screen's size that overwrites the last one: a title line, then the text that fits, cut at the right
/// edge; lines that do not fit are counted. The rest of each line and of the screen is erased after writing, to avoid flicker.
std::string frame(const std::string& title, const std::string& text, const screen& on);

/// Draws what `look` says in place once a second, and when the size of the terminal changes, until a key is pressed or it is
/// wrong; the last answer. Standard input and output are a terminal, which is afterwards as it was, however this ends.
answer redraw(const std::string& title, const std::function<answer()>& look);

} // namespace troupe::apps::console
