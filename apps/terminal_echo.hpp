// SPDX-License-Identifier: BSD-3-Clause
// The terminal's echo, which would move what is drawn there.
#pragma once

#include <optional>

#include <termios.h>

namespace troupe::apps {

/// Keys typed on stderr's terminal are not shown until the end of this object, Ctrl-C's "^C" neither; they keep their meaning,
/// and whoever reads next gets them. What is on its way to the screen gets there, whatever is typed. Nothing happens where stderr
/// is no terminal, or another process group has it.
class echo_off {
public:
  echo_off();
  echo_off(const echo_off&) = delete;
  echo_off& operator=(const echo_off&) = delete;
  ~echo_off() { restore(); }
  /// What was typed until now goes to nobody, as after a Ctrl-C that ends a program.
  void drop_typed();
  /// Before its time: for a process that ends without destructors.
  void restore();

private:
  std::optional<termios> before_;
};

} // namespace troupe::apps
