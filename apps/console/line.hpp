// SPDX-License-Identifier: BSD-3-Clause
// A line that a person types.
#pragma once

#include <optional>
#include <string>

namespace troupe::apps::console {

struct typed_line {
  std::optional<std::string> text = {}; ///< null: no more will come (Ctrl-D, or the terminal is gone), or it was given up
  bool given_up = false;                ///< by Ctrl-C
};

/// To be called before anything else of libedit's: from now on its keys come from `read_line`, and signals are none of its
/// business. Ctrl-C does nothing but at the prompt.
void prepare_lines();

/// Edits and waits for one line, by libedit; on one thread alone. Ctrl-C gives the line up, not the console; where it comes while
/// a completion is looked for, behind that. A signal that ends the process is carried out once the terminal is as it was.
typed_line read_line(const std::string& prompt);

} // namespace troupe::apps::console
