// SPDX-License-Identifier: BSD-3-Clause
// Reads a line that a user types.
#pragma once

#include <optional>
#include <string>

namespace troupe::apps::console {

struct typed_line {
  std::optional<std::string> text = {}; ///< null: there are no more (Ctrl-D, or the terminal is gone), or it was given up
  bool given_up = false;                ///< by Ctrl-C
};

/// Call it before any other function of libedit: from now on its keys come from `read_line`, and it handles no signals. Ctrl-C
/// works only at the prompt.
void prepare_lines();

/// Edits one line with libedit; always on the same thread. Ctrl-C gives up the line, not the console; during a completion, after
/// that. A signal that ends the process takes effect once the terminal is restored.
typed_line read_line(const std::string& prompt);

} // namespace troupe::apps::console
