// SPDX-License-Identifier: BSD-3-Clause
// Switches off the terminal's echo, which would disturb a drawing.
#pragma once

#include <optional>

#include <termios.h>

namespace troupe::apps {

/// While this object lives, keys typed on stderr's terminal are not shown, nor is the "^C" of Ctrl-C. They keep their meaning,
/// and the next reader gets them. Keys do not discard output that is on its way. Does nothing where stderr is no terminal, or
/// belongs to another process group.
class echo_off {
public:
  echo_off();
  echo_off(const echo_off&) = delete;
  echo_off& operator=(const echo_off&) = delete;
  ~echo_off() { restore(); }
  /// Discards the keys typed so far, as after a Ctrl-C that ends a program.
  void drop_typed();
  /// Restores the echo early, for a process that ends without destructors.
  void restore();

private:
  std::optional<termios> before_;
};

} // namespace troupe::apps
