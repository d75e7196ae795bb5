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

/// Edits and waits for one line, by libedit; on the main thread alone. Ctrl-C gives the line up, not the console.
typed_line read_line(const std::string& prompt);

/// Within `read_line`, for completions: what runs while it lives is not left in the middle. A line that Ctrl-C gave up meanwhile is
/// dropped when it is complete.
class uninterrupted {
public:
  uninterrupted();
  uninterrupted(const uninterrupted&) = delete;
  uninterrupted& operator=(const uninterrupted&) = delete;
  ~uninterrupted();
};

} // namespace troupe::apps::console
